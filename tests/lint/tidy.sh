# clang-tidy for lint.sh: as many files at once as there are cores, none begun after the time limit.
# shellcheck shell=bash

: "${root:?}" "${build:?}"

# Prepares what clang can read of a GCC build: without precompiled headers, which are GCC's own.
tidy_database() {
  mkdir -p "$1"
  sed -E 's/ -include [^ "]*cmake_pch[^ "]*//g; s/ -Winvalid-pch//g; s/ -fpch-[a-z-]*//g' \
    "$build/compile_commands.json" >"$1/compile_commands.json"
}

# tidy_one FILE: appends findings to $tidy_folder/found, or the file's name to $tidy_folder/left.
tidy_one() {
  if [ "$(date +%s)" -ge "$tidy_end" ]; then
    echo "$1" >>"$tidy_folder/left"
    return
  fi
  local output code=0
  output=$(timeout 300 "clang-tidy-$CLANG" -p "$tidy_folder" --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-error "$1" 2>/dev/null) || code=$?
  output=$(sed -n "s|^$PWD/||; /: \(warning\|error\): /p" <<<"$output")
  [ "$code" = 0 ] || output=${output:-$1:1: clang-tidy failed with exit code $code and found nothing}
  # One write, so that the lines of two processes do not mix.
  [ -z "$output" ] || printf '%s\n' "$output" >>"$tidy_folder/found"
  echo "$1" >>"$tidy_folder/done"
}

# tidy_files SOURCES: those of them that the build knows; sets tidy_output.
tidy_files() {
  local known files seconds=${KHOST_LINT_TIDY_S:-75}
  tidy_folder=$(mktemp -d)
  tidy_database "$tidy_folder"
  known=$(sed -n "s|.*\"file\": \"$root/\(.*\)\".*|\1|p" "$tidy_folder/compile_commands.json")
  files=$(grep -xFf <(printf '%s\n' "$known") <<<"$1" || true)
  [ -z "$lint_tidy" ] || seconds=86400
  tidy_end=$(($(date +%s) + seconds))
  touch "$tidy_folder"/{found,left,done}
  export tidy_folder tidy_end CLANG
  export -f tidy_one
  # shellcheck disable=SC2016
  [ -z "$files" ] || xargs -d '\n' -P "$(nproc)" -n 1 bash -c 'tidy_one "$1"' tidy_one <<<"$files"
  # shellcheck disable=SC2034 # lint.sh prints it
  tidy_output=$(sort -u "$tidy_folder/found")
  if [ -s "$tidy_folder/left" ]; then
    say "lint: clang-tidy read $(wc -l <"$tidy_folder/done") files in $seconds s and left" \
      "$(wc -l <"$tidy_folder/left") (--tidy reads all): $(head -n 5 "$tidy_folder/left" | tr '\n' ' ')…"
  fi
  rm -r "$tidy_folder"
}
