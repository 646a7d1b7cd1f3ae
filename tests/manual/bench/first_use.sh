#!/usr/bin/env bash
# How long a newcomer waits, and how long an edit takes: CPU seconds and wall time, downloads aside.
#
#   tests/manual/bench/first_use.sh COMMIT...    one table row for each step, one column pair for each commit
#
# Each commit is cloned into a folder of its own and built with an empty compiler cache. Debian packages and the
# virtual environment must be there already (`./khost setup` of any clone makes them). Run it on an idle machine: the
# load is printed first. The steps:
#   first verdict      ./khost evaluate of tests/data/kernels/cpu/good/broadcast_bias, build included
#   first test         ./khost test -R of one test that takes no time, what is left to build included
#   one .cpp           the same verdict after an edit of host/log/log.cpp
#   module header      the same verdict after an edit of sandbox/jail/jail_spec.h
#   result.h           the same verdict after an edit of host/base/result.h, which most files include
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../.." && pwd)
[ $# -gt 0 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
work=$(mktemp -d "${TMPDIR:-/tmp}/khost-first-use.XXXXXX")
trap 'rm -rf "$work"' EXIT
export CCACHE_DIR=$work/ccache
TIMEFORMAT='%R %U %S'

# step COMMIT NAME COMMAND...: runs the command and prints its wall and CPU seconds; a failure is told and ends all.
step() {
  local commit=$1 name=$2 figures
  shift 2
  if ! figures=$({ time "$@" >"$work/out" 2>&1; } 2>&1); then
    tail -n 20 "$work/out" >&2
    echo "failed: $name of $commit" >&2
    exit 1
  fi
  awk -v commit="$commit" -v name="$name" -v f="$figures" \
    'BEGIN { split(f, t, " "); printf "%-10s %-15s wall %7.1f s   CPU %7.1f s\n", commit, name, t[1], t[2] + t[3] }'
}

# An edit that no cache can take for the text before: a comment would not do, since ccache compares preprocessed text.
edit() { printf 'static_assert(sizeof(char[%d]) > 0);\n' $((RANDOM + 1)) >>"$1"; }

echo "cores $(nproc), load $(cut -d' ' -f1-3 /proc/loadavg), $(date +%F)"
for commit in "$@"; do
  id=$(git -C "$root" rev-parse --short "$commit")
  clone=$work/$id
  git clone -q "$root" "$clone"
  git -C "$clone" checkout -q "$id"
  cd "$clone"
  unset KHOST_ROOT KHOST_BUILD KHOST_PREBUILT
  example=tests/data/kernels/cpu/good/broadcast_bias
  verdict=(./khost evaluate --task "$example/model.py" --workspace "$example")
  rm -rf "$CCACHE_DIR"
  step "$id" "first verdict" "${verdict[@]}"
  step "$id" "first test" ./khost test -R "edit distance counts a swap"
  edit host/log/log.cpp
  step "$id" "one .cpp" "${verdict[@]}"
  edit sandbox/jail/jail_spec.h
  step "$id" "module header" "${verdict[@]}"
  edit host/base/result.h
  step "$id" "result.h" "${verdict[@]}"
done
