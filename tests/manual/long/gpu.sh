#!/usr/bin/env bash
# What must hold of the judge on a GPU, part by part, each with a limit of seconds; all output in a folder, the end of each on
# the screen. Exit code: how many parts failed.
#
#   tests/manual/long/gpu.sh [FOLDER] [PART…]     FOLDER: for the logs (default: a new one in /tmp); PART: some of these, in this order
#
#   plans, python  known candidates and their verdicts      profile   kernel tables; none in a verdict
#   exploits       attacks accepted, honest ones rejected   clock     the judge beside CUPTI
#   mix            files to verdict, one after the other; verdicts an hour over 32 tasks
#   repeat         the same candidate ten times             cases     recipes/case_studies.lua
#   sanitizer      compute-sanitizer on khost-judge         others    beside KernelBench and CUDA-Agent, of which KERNELBENCH and
#                                                                     CUDA_AGENT name checkouts
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/../../.." || exit 1
logs=${1:-$(mktemp -d)}
shift || true
parts=${*:-plans python profile exploits mix clock repeat cases sanitizer others}
jobs=$(($(nproc) > 3 ? $(nproc) - 2 : 2))
judge=(tests/manual/bench/judge.lua --set target=cuda --set "jobs=$jobs")
repeat=(tests/manual/bench/judge_cuda.lua --repeat 10 --against eager --only)
failed=0
mkdir -p "$logs"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

# run NAME SECONDS COMMAND…
run() {
  local name=$1 limit=$2 begin=$SECONDS code=0
  shift 2
  timeout -k 10 "$limit" "$@" >"$logs/$name.log" 2>&1 || code=$?
  [ "$code" = 0 ] || failed=$((failed + 1))
  echo "== $name: exit code $code, $((SECONDS - begin)) s of at most $limit"
  tail -n "${LINES_SHOWN:-14}" "$logs/$name.log" | cut -c1-300
}

for part in $parts; do
  case $part in
    plans) run plans 240 ./khost test -R "every known CUDA candidate gets" ;;
    python) run python 240 ./khost test -R "every known CUDA candidate in Python" ;;
    profile) run profile 120 ./khost test -R "on a GPU" ;;
    exploits) run exploits 300 ./khost tests/manual/bench/exploits.lua --target cuda --jobs 8 ;;
    mix) run mix 600 ./khost "${judge[@]}" --set timed=40 --set mix=128 ;;
    clock) run clock 400 ./khost tests/manual/bench/clock.lua ;;
    repeat)
      for name in linear_tiled linear_large linear_cublas; do
        run "repeat_$name" 90 ./khost "${repeat[@]}" "good/$name"
      done ;;
    cases) run cases 200 ./khost recipes/case_studies.lua ;;
    sanitizer) run sanitizer 200 tests/manual/probes/sanitize.sh ;;
    others)
      [ -z "${KERNELBENCH:-}" ] || run kernelbench 400 ./khost tests/manual/bench/judge.lua --set "kernelbench=$KERNELBENCH"
      [ -z "${CUDA_AGENT:-}" ] || run cuda_agent 400 ./khost tests/manual/bench/judge.lua --set "cuda_agent=$CUDA_AGENT" ;;
    *) echo "no part '$part'" >&2; exit 2 ;;
  esac
done
echo "$failed parts failed; logs in $logs"
exit "$failed"
