#!/bin/sh
# The adapters of recipes/cluster against the engines' own classes, with a real `khost serve` on the CPU and fake
# samplers. verl and verifiers are installed, each in an environment of its own; NeMo Gym and SkyRL want another Python
# than this one, so their sources are unpacked and what they import is installed.
#
#   tests/long/cluster.sh [verl] [verifiers] [nemo_gym] [skyrl]      all four without a name
#
# Needs KHOST_PYTHON (with PyTorch), a built khost (KHOST_PREBUILT, or it is built), and the network once (2 GB). What is
# installed stays in $XDG_CACHE_HOME/khost/cluster. Timed rewards want a quiet machine: beside other
# programs speeds stay unresolved, as they should. Allow 15 minutes.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/khost/cluster
mkdir -p "$cache"

# environment NAME PACKAGES...: python of an environment that has them, and PyTorch from where it is.
environment() {
  folder=$cache/$1
  shift
  if [ ! -e "$folder/whole" ]; then
    "$KHOST_PYTHON" -m venv --clear "$folder"
    "$KHOST_PYTHON" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' \
      >"$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/torch.pth"
    "$folder/bin/pip" install -q --no-compile --disable-pip-version-check "$@" >&2
    touch "$folder/whole"
  fi
  echo "$folder/bin/python"
}

# sources PACKAGE PYTHON: the folder of a package that is unpacked, not installed; PYTHON is the version it asks for.
sources() {
  folder=$cache/sources-$1
  if [ ! -e "$folder/whole" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    "$KHOST_PYTHON" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version "$2" \
      --dest "$folder" "$1" >&2
    "$KHOST_PYTHON" -m zipfile -e "$folder"/*.whl "$folder"
    touch "$folder/whole"
  fi
  echo "$folder"
}

# check PYTHON TEST FOLDERS...
check() {
  python=$1
  test=$2
  path=$root/tests/long/cluster:$root/recipes/cluster
  shift 2
  for folder; do
    path=$path:$folder
  done
  PYTHONPATH=$path "$python" "$root/tests/long/cluster/$test.py"
}

plain() {
  environment plain 'openai>=2,<3' 'pydantic>=2.12,<3' fastapi uvicorn orjson itsdangerous 'omegaconf>=2.3' hydra-core \
    aiohttp loguru cloudpathlib jaxtyping beartype 'transformers>=5,<6' 'ray>=2.50' tensordict httpx httpx2 httptools \
    yappi tokenizers pyyaml requests tqdm rich pandas datasets wandb torchdata scipy pybase64 pydot jsonschema \
    opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
}

[ $# -gt 0 ] || set -- verl verifiers nemo_gym skyrl
for name; do
  case $name in
    verl)
      python=$(environment verl uvicorn fastapi 'ray[default]' 'tensordict>=0.8,<=0.10,!=0.9' \
        'transformers>=5.5.3,<5.11,!=5.6.0' hydra-core datasets pandas codetiming dill 'pyarrow>=19' torchdata accelerate \
        peft pylatexenc packaging cachetools omegaconf tensorboard)
      # What it would bring beside serves training on cards.
      "$cache/verl/bin/pip" install -q --no-compile --disable-pip-version-check --no-deps verl==0.9.1
      check "$python" verl_test
      ;;
    verifiers) check "$(environment verifiers verifiers==0.4.0)" verifiers_test ;;
    nemo_gym) check "$(plain)" nemo_gym_test "$(sources nemo-gym==0.7.0 3.13.14)" ;;
    skyrl) check "$(plain)" skyrl_test "$(sources skyrl==0.4.0 3.12)" "$(sources skyrl-gym==0.4.0 3.12)" ;;
    *)
      echo "cluster.sh: unknown engine '$name'; there are verl, verifiers, nemo_gym and skyrl" >&2
      exit 2
      ;;
  esac
done
