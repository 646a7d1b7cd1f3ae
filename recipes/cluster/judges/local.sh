#!/bin/sh
# Judges for a front on this machine: one for each GPU that `nvidia-smi` lists, and one without a GPU. They are started and
# told to stop, nothing else; a judge that ends is not started again (docs/machines.md).
#
#   recipes/cluster/judges/local.sh http://10.0.0.1:8421 --node-token node-token --target cuda
#
# What follows the URL goes to `khost serve --judge`. KHOST is the program (the launcher of this checkout when it is not
# set). SIGTERM and Ctrl-C end the judges, each with what it has begun; exits with 1 where one failed.
set -u
[ $# -gt 0 ] || {
  echo "local.sh: the URL that a front prints is missing" >&2
  exit 2
}
khost=${KHOST:-$(cd "$(dirname "$0")/../../.." && pwd)/khost}
cards=$(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null) || cards=
pids=
for card in ${cards:-none}; do
  if [ "$card" = none ]; then
    "$khost" serve --judge "$@" &
  else
    CUDA_VISIBLE_DEVICES=$card "$khost" serve --judge "$@" &
  fi
  pids="$pids $!"
done
# shellcheck disable=SC2086  # one word for each process
trap 'kill -TERM $pids 2>/dev/null' TERM INT
failed=0
for pid in $pids; do
  wait "$pid"
  code=$?
  while [ "$code" -gt 128 ] && kill -0 "$pid" 2>/dev/null; do # the signal of the trap ended the wait, not the judge
    wait "$pid"
    code=$?
  done
  [ "$code" -eq 0 ] || failed=1
done
exit "$failed"
