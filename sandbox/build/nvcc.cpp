#include "sandbox/build/nvcc.h"

#include <stdlib.h>

namespace khost::sandbox {
namespace {

// nvcc --dryrun prints its steps. The id of a file's module, which cudafe++ would draw and cicc would wait for, is made
// here, so that neither waits for the other. Steps of another shape than expected are run as they stand.
constexpr const char* kScript = R"sh(
nvcc=$1 out=$2
shift 2
sources= flags= host= links= part=sources
for word; do
  if [ "$word" = -- ]; then
    case $part in sources) part=flags ;; flags) part=host ;; *) part=links ;; esac
  else
    eval "$part=\"\$$part \$word\""
  fi
done
chained() { sed '$!s/$/ \&\&/'; }
object() {
  case "$1" in *.cpp | *.cc)
    if [ -n "$host" ]; then
      g++ $host -c "$1" -o "$2.o" && cp "$2.o" "/out/$(echo "$1" | tr / _).o"
      return
    fi
  esac
  "$nvcc" $flags -c "$1" -o "$2.o" --dryrun 2>"$2.plan" || { grep -v '^#\$' "$2.plan" >&2; return 1; }
  sed -n 's/^#\$ //p' "$2.plan" >"$2.steps"
  grep -E '^(CICC_PATH|NVVMIR_LIBRARY_DIR)=' "$2.steps" >"$2.names"
  . "$2.names"
  export NVVMIR_LIBRARY_DIR
  id=$(sed -n 's/.*--module_id_file_name "\([^"]*\)".*/\1/p' "$2.steps" | head -n 1)
  grep -E '^gcc .* -E .*cpp4\.ii|^cudafe\+\+ ' "$2.steps" | sed 's/ --gen_module_id_file / /' | chained >"$2.host"
  grep -E '^gcc .* -E .*cpp1\.ii|^"\$CICC_PATH/cicc"|^ptxas|^fatbinary' "$2.steps" | chained >"$2.device"
  grep -E '^gcc .* -c ' "$2.steps" >"$2.last"
  if [ -z "$id" ] || [ "$(cat "$2.host" "$2.device" "$2.last" | wc -l)" != 7 ]; then
    grep -vE '^[A-Za-z_]+=|^rm ' "$2.steps" | chained >"$2.all"
    . "$2.all"
    return
  fi
  printf '_%08x_%s' "$(cksum <"$1" | cut -d' ' -f1)" "$(echo "$1" | tr -c 'A-Za-z0-9\n' _)" >"$id"
  (. "$2.host") 2>"$2.words" &
  front=$!
  (. "$2.device")
  back=$?
  wait $front
  front=$?
  [ $back = 0 ] || return $back  # both halves say the same
  [ $front = 0 ] || { cat "$2.words" >&2; return $front; }
  . "$2.last"
}
number=0 objects= jobs=
for source in $sources; do
  number=$((number+1))
  objects="$objects /tmp/$number.o"
  object "$source" /tmp/$number &
  jobs="$jobs $!"
done
bad=0
for job in $jobs; do wait $job || bad=1; done
[ $bad = 0 ] || exit 1
exec g++ -shared -o "$out" $objects $links
)sh";

}  // namespace

std::vector<std::string> architecture_flags(const std::string& arch) {
  std::string number = arch.rfind("sm_", 0) == 0 ? arch.substr(3) : arch;
  if (atoi(number.c_str()) >= 90 && number.back() != 'a') {
    number += 'a';
  }
  return {"-gencode", "arch=compute_" + number + ",code=sm_" + number};
}

std::vector<std::string> nvcc_steps(const std::string& nvcc, const std::string& out,
                                    const std::vector<std::string>& sources, const std::vector<std::string>& flags,
                                    const std::vector<std::string>& link_flags,
                                    const std::vector<std::string>& host_flags) {
  std::vector<std::string> argv = {"/bin/sh", "-c", kScript, "nvcc", nvcc, out};
  argv.insert(argv.end(), sources.begin(), sources.end());
  for (const auto* part : {&flags, &host_flags, &link_flags}) {
    argv.emplace_back("--");
    argv.insert(argv.end(), part->begin(), part->end());
  }
  return argv;
}

}  // namespace khost::sandbox
