// The bash program inside a Shell's jail: reads commands, runs them in itself, reports.
#pragma once

namespace khost::sandbox {

inline constexpr int kCommandFd = 60;        // NUL-terminated: marker, standard input, command, over and over
inline constexpr int kReportFdOfShell = 61;  // "marker code flags cwd" NUL
inline constexpr int kOutputFdOfShell = 62;  // what commands print

// Its state survives `exit`, `set -e` and SIGUSR1 (a timeout): each of them saves variables and functions and starts
// bash anew in the same process, with the argument "again". break and continue of a command reach the inner loop here,
// which therefore begins with the report. Saving starts no process: after a timeout the host kills every child of the
// shell. The driver itself prints nowhere, so that `set -x` shows the command only; a command's output goes to where it
// always goes, whatever an earlier one did to descriptors 1 and 2. PATH and the directory may be gone.
inline constexpr const char* kShellDriver = R"bash(
exec >/dev/null 2>&1
[[ ${1-} != again ]] || source /tmp/.khost-state
set --
[[ ! -f /tmp/.khost-state ]] || : >/tmp/.khost-state
khost_again() {
  trap - EXIT USR1
  { declare -p; declare -fp; } >/tmp/.khost-state 2>/dev/null
  exec /bin/bash --norc --noprofile -c "$BASH_EXECUTION_STRING" bash again
}
trap 'khost_code=$?; khost_again' EXIT
trap 'khost_code=143; khost_again' USR1
while :; do
  while :; do
    if [[ -n $khost_marker ]]; then
      khost_flags=-
      case $PWD in
        /workspace | /workspace/* | /tmp | /tmp/*) ;;
        *) khost_flags=outside; cd "$khost_before" || cd /workspace ;;
      esac
      printf '%s %d %s %s\0' "$khost_marker" "$khost_code" "$khost_flags" "$PWD" >&61
      khost_marker=
    fi
    IFS= read -r -d '' -u 60 khost_marker && IFS= read -r -d '' -u 60 khost_input &&
      IFS= read -r -d '' -u 60 khost_command && : >&62 || { trap - EXIT; exit 0; }
    khost_before=$PWD
    khost_code=0
    if khost_check=$(builtin cd /; /bin/bash -O extglob -n 2>&1 <<<"$khost_command") && [[ -z $khost_check ]]; then
      eval "$khost_command" <"$khost_input" >&62 2>&62
      khost_code=$?
    elif [[ -z $khost_check ]]; then
      printf 'not run: no process can be started\n' >&62
      khost_code=2
    else
      printf 'not run, the command has a syntax error:\n%s\n' "${khost_check//bash: line /line }" >&62
      khost_code=2
    fi
  done
done
)bash";

}  // namespace khost::sandbox
