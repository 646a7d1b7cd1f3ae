"""The task's own Model as a timed subject, eager or compiled, on the judge's memory. It plays the same turns as a
candidate, and one more before each of them, which nobody times: there it drops its outputs. They stay where torch puts
them: they are not read, so no copy is charged to it.

A candidate's outputs lie in memory that the judge has just written (poison). Here they come from the heap: what was
dropped last is what the next call gets, and it is touched before, so that both find it as near."""

import base64
import contextlib
import ctypes
import gc
import os

import torch

from khost.task.manifest import mapped, over_region
from khost.task.task_file import Task, call, compile_model

WARM_UP = 5


def adopt(model, state):
    """Puts the judge's memory under the parameters and buffers of the model."""
    for prefix, module in model.named_modules():
        for table in (module._parameters, module._buffers):
            for key, old in list(table.items()):
                name = f"{prefix}.{key}" if prefix else key
                if old is not None and name in state:
                    new = state[name]
                    table[key] = torch.nn.Parameter(new, requires_grad=False) if table is module._parameters else new


def open_cache(text):
    """What a compiler made of this task elsewhere (check.py). It is code of whoever made it: only here is it opened, in
    the jail of the baselines. What does not fit this machine is left unused."""
    if text:
        with contextlib.suppress(Exception):  # a broken cache costs its task the time of compiling
            torch.compiler.load_cache_artifacts(base64.b64decode(text))


def hits():
    return torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"]


def touch(value):
    """Writes to every byte of the outputs what stands there."""
    if isinstance(value, torch.Tensor):
        torch.empty(0, dtype=torch.uint8).set_(value.untyped_storage()).bitwise_or_(0)
    elif isinstance(value, (dict, list, tuple)):
        for one in value.values() if isinstance(value, dict) else value:
            touch(one)


def touch_from(core, value):
    """The same from the judge's core, where a candidate's outputs are written: a core's own cache is nearer than any."""
    mine = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {core})
    touch(value)
    os.sched_setaffinity(0, mine)


def use_threads(count):
    """As many as a candidate may use. What a compiler made for another number is not taken from its cache then."""
    torch.set_num_threads(count)
    if count > 1:
        from torch._inductor import config
        config.cpp.threads = count


def run(request, regions, reply):
    """Warms up, says that it is ready, then plays two turns for each call until told to leave: one to drop the outputs of
    the call before, and the call."""
    control, inputs, state = regions
    library = ctypes.CDLL(request["library"])
    library.khost_wait_go.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.khost_ack.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
    page = ctypes.addressof(ctypes.c_char.from_buffer(control))
    kind = request["kind"]
    if kind == "empty":
        step = lambda: None  # noqa: E731
    else:
        use_threads(request["threads"])
        task = Task(request["source"], 1)
        model = task.model(1)
        values = over_region(request["inputs"], mapped(inputs))
        adopt(model, over_region(request["state"], mapped(state)))
        if kind == "compile":
            open_cache(request.get("cache"))
            model = compile_model(model)
        step = lambda: call(model, values)  # noqa: E731
    kept = None
    for _ in range(WARM_UP):
        kept = step()
    gc.collect()
    gc.freeze()
    gc.disable()
    reply({"ready": True, "cache_hits": hits()} if request.get("cache") else {"ready": True})
    wait, acknowledge = library.khost_wait_go, library.khost_ack
    seq = 2
    while wait(page, seq):
        if seq % 2 == 0:
            touch_from(request["judge_core"], kept)
            kept = None
        else:
            kept = step()
        acknowledge(page, seq, 0)
        seq += 1
