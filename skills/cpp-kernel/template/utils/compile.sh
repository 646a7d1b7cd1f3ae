#!/bin/sh
# Compiles kernels/ with the flags of the judge, for the compiler's messages. Run it in the workspace.
set -eu
cd "$(dirname "$0")/.."
found=$(find kernels -name '*.cpp' -o -name '*.cc')
if [ -z "$found" ]; then
  echo "there is no .cpp file in kernels/" >&2
  exit 1
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
# shellcheck disable=SC2086  # one word for each file; names with blanks are refused anyway
g++ -O3 -march=native -std=c++20 -fopenmp -fno-math-errno -fPIC -shared -pipe -fmax-errors=10 -Wl,-z,defs \
  -Wl,--as-needed -I. -Iutils -Ikernels -o "$out" $found
echo "compiled"
