#!/bin/sh
# Compiles kernels/ with the flags of the judge, for the compiler's messages. Run it in the workspace.
set -eu
cd "$(dirname "$0")/.."
found=$(find kernels -name '*.cu' -o -name '*.cpp' -o -name '*.cc')
if [ -z "$found" ]; then
  echo "there is no .cu or .cpp file in kernels/" >&2
  exit 1
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
# With what only this architecture has (wgmma is in sm_90a alone), as the judge compiles; Hopper's where nvidia-smi
# tells none.
number=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
case $number in '' | *[!0-9]*) number=90 ;; esac
arch=${KHOST_ARCH:-sm_$number}
number=${arch#sm_}
case $number in [1-8]? | *a) ;; *) number=${number}a ;; esac
# shellcheck disable=SC2086  # one word for each file; names with blanks are refused anyway
nvcc -O3 -std=c++20 -shared -cudart shared -gencode "arch=compute_$number,code=sm_$number" -Xcompiler -fPIC,-fmax-errors=10 \
  -Xlinker -z,defs,--as-needed -I. -Iutils -Ikernels -o "$out" $found -lcublas -lcublasLt
echo "compiled"
