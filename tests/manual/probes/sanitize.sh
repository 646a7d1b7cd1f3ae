#!/usr/bin/env bash
# compute-sanitizer (memcheck) on khost-judge's own device code, while it gives verdicts on one candidate: what poisons, reveals,
# compares and keeps time. The candidates' processes and PyTorch are left alone. Needs a GPU.
#
#   tests/manual/probes/sanitize.sh [BUILD]     BUILD: a folder with a built khost (default: KHOST_PREBUILT, or build)
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../../.." && pwd)
build=$(readlink -f "${1:-${KHOST_PREBUILT:-$root/build}}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for file in khost khost-judge khost-jail-exec khost-subject khost-subject-cuda; do cp "$build/$file" "$folder/"; done
cp "$build"/libkhost_*.so "$folder/"
cp "$build/python" "$build/.python" "$folder/" 2>/dev/null || true
mv "$folder/khost-judge" "$folder/khost-judge-itself"
cat >"$folder/khost-judge" <<EOF
#!/bin/sh
exec compute-sanitizer --tool memcheck --target-processes application-only --log-file "$folder/log" "$folder/khost-judge-itself" "\$@"
EOF
chmod +x "$folder/khost-judge"
KHOST_PREBUILT=$folder "$root/khost" tests/manual/bench/judge_cuda.lua --only good/plain --repeat 3 --against eager || verdicts=$?
cat "$folder/log"
grep -q "ERROR SUMMARY: 0 errors" "$folder/log" && [ "${verdicts:-0}" = 0 ]
