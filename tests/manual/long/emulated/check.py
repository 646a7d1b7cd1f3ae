#!/usr/bin/env python3
"""Runs the CUDA expert's kernels on the CPU, emulated, and compares them with PyTorch: no GPU is needed.

    KHOST_PYTHON=... tests/manual/long/emulated/check.py

Tasks of every family with small tensors, all variants. Exit code 1 when one differs or does not compile.
"""
import ctypes
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../../../..")
sys.path.insert(0, os.path.join(HERE, "../supervised"))
import tasks as making  # noqa: E402

LAUNCH = re.compile(r"(\w+)<<<(.+?), 256, 0, khost::cuda\(stream\)>>>\(([^;]*)\);", re.S)


class Workspace(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def compile_one(folder, name, code):
    code = LAUNCH.sub(r"emulated_launch(\2, 256, [&] { \1(\3); });", code).replace('"khost.h"', '"emulated.h"')
    path = os.path.join(folder, name)
    with open(path + ".cpp", "w") as file:
        file.write(code)
    done = subprocess.run(["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-I" + HERE,
                           "-I" + os.path.join(ROOT, "skills/cuda-kernel/template/utils"), "-o", path + ".so",
                           path + ".cpp"], capture_output=True, text=True)
    return name, code, path + ".so" if done.returncode == 0 else None, done.stderr


def arguments(code, values, out, workspace):
    sizes = {"n": out.numel(), "rows": values["rows"], "cols": values["cols"]}
    result = []
    for text in re.search(r"int run\(([^)]*)\)", code).group(1).split(","):
        name = text.split()[-1]
        if name in sizes:
            result.append(ctypes.c_int64(sizes[name]))
        elif name == "w":
            result.append(Workspace(workspace.data_ptr(), 4 * workspace.numel()))
        elif name == "stream":
            result.append(ctypes.c_void_p(0))
        else:
            result.append(ctypes.c_void_p((out if name == "out" else values[name]).data_ptr()))
    return result


def difference(task, code, library):
    """What is wrong with an answer, or None."""
    space = {}
    exec(task["source"], space)
    torch.manual_seed(1)
    model, inputs = space["Model"](*space["get_init_inputs"]()), space["get_inputs"]()
    with torch.no_grad():
        expected = model(*inputs)
    names = [i["name"] for i in task["graph"]["inputs"] if i["kind"] == "input"]
    values = dict(zip(names, inputs), rows=inputs[0].shape[0], cols=inputs[0].shape[1])
    values.update({name.replace(".", "_"): tensor for name, tensor in model.state_dict().items()})
    out, workspace = torch.full(expected.shape, float("nan")), torch.empty(1 << 16)
    status = ctypes.CDLL(library).run(*arguments(code, values, out, workspace))
    if status != 0:
        return f"returned {status}"
    if not torch.allclose(out, expected, rtol=1e-4, atol=2e-5):
        return f"differs by up to {(out - expected).abs().max().item():.3g}"
    return None


def main():
    making.SIZES = [(3, 64), (2, 320)]
    counts = {"chain": 8, "pair": 5, "vector": 6, "reduce": 6, "rows": 10}
    tasks = making.supervised(counts, set(), random.Random(3))
    with tempfile.TemporaryDirectory() as folder:
        given, written = os.path.join(folder, "given.json"), os.path.join(folder, "written.json")
        with open(given, "w") as file:
            json.dump(tasks, file)
        subprocess.run([os.path.join(ROOT, "khost"), os.path.join(HERE, "write.lua"), given, written], check=True)
        with open(written) as file:
            tasks = json.load(file)
        jobs = [(folder, f"{t['id']}_{variant}", code) for t in tasks for variant, code in t["answers"].items()]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            built = list(pool.map(lambda job: compile_one(*job), jobs))
        by_id, wrong = {t["id"]: t for t in tasks}, 0
        for name, code, library, errors in built:
            found = difference(by_id[name.split("_")[0]], code, library) if library else "does not compile:\n" + errors
            if found:
                wrong += 1
                print(f"{name} {found}")
    print(f"{len(built)} kernels, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
