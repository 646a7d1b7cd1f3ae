"""The task's own Model as a timed subject on a GPU, eager or compiled, on the judge's memory (sandbox/subject/
cuda_turn.h). Its outputs stay where torch puts them: they are not read, so no copy is charged to it."""

import contextlib
import ctypes
import gc
import mmap
from unittest import mock

import torch

from khost.baselines.baselines import adopt
from khost.baselines.device_memory import load_library, region
from khost.task.manifest import over_region
from khost.task.task_file import Task, call, compile_model

WARM_UP = 5


def make_step(request, inputs, state):
    if request["kind"] == "empty":
        return lambda: torch.cuda._sleep(0)  # one kernel that does nothing, as the empty plan has
    task = Task(request["source"], 1, "cuda")
    model = task.model(1)
    values = over_region(request["inputs"], inputs)
    adopt(model, over_region(request["state"], state))
    if request["kind"] == "compile":
        model = compile_model(model)
    return lambda: call(model, values)


class Measures(BaseException):
    """No Exception: a compiler takes those for a choice that does not work, and remembers it."""


def refuse(measures=True):
    if measures:
        raise Measures("it measures before it decides")


@contextlib.contextmanager
def cudnn_unmeasured():
    """Refuses a task that lets cuDNN measure beside others, by flags() or by an assignment."""
    flag = type(torch.backends.cudnn).__dict__["benchmark"]
    with mock.patch.object(torch._C, "_set_cudnn_benchmark", refuse), mock.patch.object(flag, "setter", refuse):
        yield


@contextlib.contextmanager
def unmeasured(choose):
    """While others use the device nothing that is measured may decide anything. Without `choose` all configurations of a
    kernel are built and none is kept: the next process chooses, alone, among what lies in the cache. With it, what was
    chosen before is loaded. Whoever would measure all the same (pad_mm, max-autotune) must be asked again alone."""
    from torch._inductor.runtime.benchmarking import benchmarker
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from triton import testing

    with contextlib.ExitStack() as stack:
        for owner, name in ((benchmarker, "benchmark"), (benchmarker, "benchmark_gpu"), (testing, "do_bench")):
            stack.enter_context(mock.patch.object(owner, name, lambda *_, **__: refuse()))
        if not choose:
            stack.enter_context(mock.patch.object(CachingAutotuner, "autotune_to_one_config", take_first))
        yield


def take_first(autotuner, *_, **__):
    autotuner.launchers = autotuner.launchers[:1]


def run(request, fds, reply, receive):
    """Loads the model, says so and waits until it may use the device: others come up beside it, and what a compiler or a
    library chooses by measuring must not be measured beside them. Then warms up, says that it is ready, and plays one
    call for each turn until told to leave."""
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    library = load_library(request["library"])
    control = mmap.mmap(fds[0], 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    page = ctypes.addressof(ctypes.c_char.from_buffer(control))
    on_device = library.khost_gpu_page(page)
    if not on_device:
        raise RuntimeError("the control page cannot be shared with the device")
    inputs, state = (region(library, fd, size) for fd, size in zip(fds[1:], request["bytes"]))
    beside = request["beside"]
    with cudnn_unmeasured() if beside else contextlib.nullcontext():
        step = make_step(request, inputs, state)
        if beside in ("build", "load"):
            with unmeasured(choose=beside == "load"):
                step()
    torch.cuda.synchronize()
    gc.collect()
    gc.freeze()  # the same after the warm-up is then done at once
    reply({"loaded": True})
    receive()
    kept = None
    for _ in range(WARM_UP):
        kept = step()
    torch.cuda.synchronize()
    gc.collect()
    gc.freeze()
    gc.disable()
    reply({"ready": True, "allocated": torch.cuda.max_memory_allocated()})
    stream = torch.cuda.current_stream().cuda_stream
    seq = 2
    while library.khost_wait_go(page, seq):
        status = 0
        if library.khost_gpu_queued(page):
            status = library.khost_gpu_wait(stream, on_device, seq)
            kept = step()  # outputs stay alive until the next turn
            status = status or library.khost_gpu_ack(stream, on_device, seq)
        else:
            kept = step()
            torch.cuda.synchronize()
        library.khost_ack(page, seq, status)
        seq += 1
    del kept
