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
# shellcheck disable=SC2086  # one word for each file; names with blanks are refused anyway
nvcc -O3 -std=c++20 -shared -cudart shared -arch="${KHOST_ARCH:-native}" -Xcompiler -fPIC,-fmax-errors=10 \
  -Xlinker -z,defs,--as-needed -I. -Iutils -Ikernels -o "$out" $found -lcublas -lcublasLt
echo "compiled"
