// The bash program inside a Shell's jail: reads commands, runs them in itself, reports.
#pragma once

namespace khost::sandbox {

inline constexpr int kCommandFd = 60;  // NUL-terminated: marker, standard input, command, over and over
inline constexpr int kReportFdOfShell = 61;  // "marker code flags cwd" NUL

// Its state survives `exit`, `set -e` and SIGUSR1 (a timeout): each of them saves variables and functions and starts
// bash anew in the same process. break and continue of a command reach the inner loop here, which therefore begins
// with the report. Saving starts no process: after a timeout the host kills every child of the shell.
inline constexpr const char* kShellDriver = R"bash(
if [[ -r /tmp/.khost-state ]]; then
  source /tmp/.khost-state 2>/dev/null
  : >/tmp/.khost-state
fi
khost_again() {
  trap - EXIT USR1
  { declare -p; declare -fp; } >/tmp/.khost-state 2>/dev/null
  exec bash --norc --noprofile -c "$BASH_EXECUTION_STRING"
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
      IFS= read -r -d '' -u 60 khost_command || { trap - EXIT; exit 0; }
    khost_before=$PWD
    khost_code=0
    if khost_check=$(bash -O extglob -n 2>&1 <<<"$khost_command") && [[ -z $khost_check ]]; then
      eval "$khost_command" <"$khost_input"
      khost_code=$?
    else
      printf 'not run, the command has a syntax error:\n%s\n' "${khost_check//bash: line /line }"
      khost_code=2
    fi
  done
done
)bash";

}  // namespace khost::sandbox
