#!/bin/bash
# Builds and runs the probes on a machine with one NVIDIA GPU, as root. Every step is bounded.
#   tests/manual/probes/run.sh [folder of carried programs] [questions, default "0 3 4 8 1 2 5 6 7"]
# Clocks, power, persistence and MIG stay as they are; MPS daemons that it starts, it ends.
cd "$(dirname "$0")" || exit 1
carried=${1:-none}
questions=${2:-"0 3 4 8 1 2 5 6 7"}
built=/tmp/probe-built
mps=/tmp/probe-mps
mkdir -p $built && chmod 755 $built
for d in /usr/local/nvidia/bin /usr/local/cuda/bin; do PATH=$PATH:$d; done
stubs=$(dirname "$(readlink -f "$(command -v nvcc)")")/../lib64/stubs
libcuda=$(ldconfig -p | awk '/libcuda.so.1/ {print $NF; exit}')
[ -e "$stubs/libcuda.so" ] && link=("-L$stubs" -lcuda) || link=("$libcuda")
bounded() { local s=$1; shift; timeout -k 5 "$s" "$@" 2>&1; local rc=$?; [ $rc -eq 0 ] || echo "  -> code $rc: $*"; }
asked() { [[ " $questions " == *" $1 "* ]]; }

nvidia-smi --query-gpu=name,driver_version,mig.mode.current,compute_mode,clocks.sm --format=csv,noheader
echo "kernel $(uname -r), $(nproc) CPUs, $(. /etc/os-release; echo "$PRETTY_NAME"), $(ldd --version | head -1)"
ls -l /dev/nvidia* | awk '{print "  " $1, $3, $NF}'
for source in hello q1_turn q2_slack q3_memory q8_remains; do
  nvcc -std=c++20 -O3 -arch=sm_90 $source.cu -o $built/$source "${link[@]}" 2>&1 &
done
g++ -std=c++20 -O2 q4_jail.cpp -o $built/q4_jail 2>&1 &
g++ -std=c++20 -O2 -shared -fPIC -I"$(dirname "$stubs")/../include" arena.cpp -o $built/arena.so "${link[@]}" 2>&1 &
wait

start_mps() {  # arguments: options of the daemon
  rm -rf $mps && mkdir -p $mps/log && chmod 755 $mps
  export CUDA_MPS_PIPE_DIRECTORY=$mps CUDA_MPS_LOG_DIRECTORY=$mps/log
  timeout 10 nvidia-cuda-mps-control -d "$@" && sleep 1
}
stop_mps() {
  echo quit | timeout 10 nvidia-cuda-mps-control >/dev/null 2>&1
  local pid
  pid=$(cat $mps/nvidia-cuda-mps-control.pid 2>/dev/null)
  [ -n "$pid" ] && kill "$pid" 2>/dev/null
  sleep 0.5
  export CUDA_MPS_PIPE_DIRECTORY=/nonexistent
}
export CUDA_MPS_PIPE_DIRECTORY=/nonexistent

remains() {
  for how in "" kill; do bounded 60 $built/q8_remains plant 24 $how; bounded 60 $built/q8_remains scan 24; done
  timeout 30 $built/q8_remains plant 10 free & sleep 2.5
  echo "  while the process that freed 10 GB of 20 lives:"; bounded 60 $built/q8_remains scan 24
  wait $!
}
jail() { local label=$1; shift; echo "Q4 $label: $(bounded 20 $built/q4_jail "$@" -- $built/hello once | tr '\n' ' ')"; }

if asked 0; then
  for program in "$carried"/*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    read -ra arguments <<<"$(cat "$program.arguments" 2>/dev/null)"
    answer=$(LD_LIBRARY_PATH=$carried/lib bounded 20 "$program" "${arguments[@]}" | tr '\n' ' ')
    echo "Q0 $(basename "$program"): $answer"
  done
  for l in libsqlite3.so.0 libpcre2-8.so.0 libcurl.so.4 libseccomp.so.2 libcap.so.2 libselinux.so.1 libgomp.so.1 libnuma.so.1; do
    ldconfig -p | grep -q "$l" && echo "Q0 there: $l" || echo "Q0 missing: $l"
  done
  echo "Q0 compilers: $(g++ -dumpfullversion) cmake $(cmake --version | head -1 | cut -d' ' -f3), bwrap: $(command -v bwrap || echo none), python $(python3 -c 'import sys, sysconfig; print(sys.version.split()[0], sys.prefix)')"
fi
if asked 3; then
  bounded 60 $built/q3_memory
  bounded 60 $built/q3_memory uid
  bounded 60 $built/q3_memory ns
  bounded 60 $built/q3_memory uid ns
fi
if asked 4; then
  jail "whole jail, time-sliced"
  jail "no /dev/shm" shm=none
  jail "no /proc" proc=no
  jail "all of /dev" dev=host
  jail "no seccomp" seccomp=no
  jail "no limits" limit=no
fi
if asked 8; then
  remains
fi
asked 1 && bounded 100 $built/q1_turn
if asked 2; then
  bounded 120 $built/q2_slack queued 40
  bounded 120 $built/q2_slack queued 40 together
  bounded 120 $built/q2_slack host 40
fi
asked 6 && bounded 90 python3 q6_kill.py $built kill

if command -v nvidia-cuda-mps-control >/dev/null && start_mps -M; then
  echo "MPS, multi-user: daemon's /dev/shm: $(ls -l /dev/shm | awk 'NR > 1 {print $1, $3, $NF}' | tr '\n' ';')"
  if asked 3; then
    bounded 60 $built/q3_memory
    bounded 60 $built/q3_memory uid ns
    bounded 60 $built/q3_memory uid ns subject-outside
    bounded 60 $built/q3_memory uid ns judge-outside
  fi
  if asked 4; then
    bounded 20 $built/hello once
    echo "MPS pipes: $(ls -l $mps | awk 'NR > 1 {print $1, $3, $NF}' | tr '\n' ';')"
    echo "MPS /dev/shm in use: $(ls -l /dev/shm | awk 'NR > 1 {print $1, $3, $NF}' | tr '\n' ';')"
    jail "whole jail, MPS, private shm" bind=$mps
    jail "whole jail, MPS, the daemon's shm" bind=$mps shm=host
    jail "whole jail, MPS, the daemon's shm, pipes read-only" robind=$mps shm=host
    jail "whole jail, MPS, private shm, no seccomp" bind=$mps seccomp=no
    jail "whole jail, MPS, the daemon's shm, no limits" bind=$mps shm=host limit=no
    jail "whole jail, MPS, no shm, pipes read-only" robind=$mps shm=none
    jail "whole jail, MPS, pipes not there"
  fi
  if asked 8; then
    timeout 60 $built/hello serve >/dev/null < <(sleep 60) & idle=$!  # keeps the server alive
    remains
    kill $idle 2>/dev/null
  fi
  asked 1 && bounded 100 $built/q1_turn
  if asked 2; then
    bounded 120 $built/q2_slack queued
    bounded 120 $built/q2_slack queued 40 together
    bounded 120 $built/q2_slack poller
    bounded 120 $built/q2_slack poller 40 together
  fi
  asked 5 && bounded 110 bash q5_control.sh $built
  stop_mps
  if asked 6; then
    for how in kill terminate idle jailed; do
      start_mps -M && bounded 90 python3 q6_kill.py $built $how
      stop_mps
    done
  fi
else
  echo "no MPS here"
fi
if asked 7; then
  for form in pool held global; do bounded 120 env PYTHONUNBUFFERED=1 python3 -W ignore q7_pool.py $built/arena.so $form; done
fi
bounded 20 $built/hello once
nvidia-smi --query-gpu=name,clocks.sm,ecc.errors.uncorrected.volatile.total --format=csv,noheader
