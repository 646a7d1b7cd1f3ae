"""One candidate before the evaluators of others, as they are: how long they take and what they say. For judge.lua.

    other_judges.py kernelbench DIR MODEL MODEL_NEW [BUILD_DIR]   eval_kernel_against_ref of a KernelBench checkout
    other_judges.py cuda_agent DIR MODEL WORKSPACE SCRATCH        compile.sh, verification and profiling of CUDA-Agent

Prints one line of JSON: {"ok", "seconds", …}. Their files are unchanged. Packages that KernelBench imports for its clients
of language models, and evaluating does not use, are stood for by empty ones where they are missing."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import types
from unittest import mock

CLIENTS = ("dotenv", "openai", "litellm", "tqdm", "datasets", "requests", "pydantic", "modal", "together", "anthropic")


class Fields:
    """As much of pydantic's BaseModel as a record of results needs."""

    def __init__(self, **values):
        for name in self.__annotations__:
            setattr(self, name, values.get(name, getattr(type(self), name, None)))
        for name, value in values.items():
            setattr(self, name, value)


def stand_in(names):
    for name in names:
        if importlib.util.find_spec(name) is None:
            module = mock.MagicMock(name=name)
            module.__spec__ = None
            if name == "pydantic":
                module = types.ModuleType(name)
                module.BaseModel = Fields
            sys.modules[name] = module


def kernelbench(folder, model, model_new, build_dir=None):
    stand_in(CLIENTS)
    sys.path.insert(0, os.path.join(folder, "src"))
    begin = time.time()
    import torch
    from kernelbench.eval import eval_kernel_against_ref
    imported = time.time()
    with open(model) as one, open(model_new) as other:
        result = eval_kernel_against_ref(one.read(), other.read(), num_correct_trials=5, num_perf_trials=100,
                                         measure_performance=True, build_dir=build_dir, device=torch.device("cuda:0"))
    return {"ok": bool(result and result.compiled and result.correctness), "import_s": imported - begin,
            "evaluate_s": time.time() - imported, "runtime_ms": getattr(result, "runtime", None),
            "said": str(getattr(result, "metadata", ""))[:500]}


def cuda_agent(folder, model, workspace, scratch):
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(os.path.join(folder, "agent_workdir"), scratch)
    shutil.rmtree(os.path.join(scratch, "kernels"))
    shutil.copytree(os.path.join(workspace, "kernels"), os.path.join(scratch, "kernels"))
    shutil.copy(model, os.path.join(scratch, "model.py"))
    shutil.copy(os.path.join(workspace, "model_new.py"), os.path.join(scratch, "model_new.py"))
    environment = {**os.environ, "TORCH_CUDA_ARCH_LIST": "9.0",
                   "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]}
    answer = {"ok": True, "said": ""}
    for name, words in (("compile_s", ["bash", "utils/compile.sh"]), ("verify_s", [sys.executable, "-m", "utils.verification"]),
                        ("profile_s", [sys.executable, "-m", "utils.profiling"])):
        begin = time.time()
        done = subprocess.run(words, cwd=scratch, env=environment, capture_output=True, text=True)
        answer[name] = time.time() - begin
        answer["ok"] = answer["ok"] and done.returncode == 0
        answer["said"] += (done.stdout + done.stderr)[-400:] if done.returncode or name == "profile_s" else ""
    return answer


def main(which, *words):
    begin = time.time()
    answer = {"kernelbench": kernelbench, "cuda_agent": cuda_agent}[which](*words)
    answer["seconds"] = time.time() - begin
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
