"""The task's own Model as a timed subject on a GPU, eager or compiled, on the judge's memory (sandbox/subject/
cuda_turn.h). Its outputs stay where torch puts them: they are not read, so no copy is charged to it."""

import ctypes
import gc
import mmap

import torch

from baselines import adopt
from device_memory import load_library, region
from manifest import over_region
from reference import Task, call

WARM_UP = 5


def make_step(request, inputs, state):
    if request["kind"] == "empty":
        return lambda: torch.cuda._sleep(0)  # one kernel that does nothing, as the empty plan has
    task = Task(request["source"], 1, "cuda")
    model = task.model(1)
    values = over_region(request["inputs"], inputs)
    adopt(model, over_region(request["state"], state))
    if request["kind"] == "compile":
        model = torch.compile(model)
    return lambda: call(model, values)


def compile_beside(step, build):
    """Compiles while others use the device, so nothing that is measured now may decide anything. `build`: all configurations
    of a kernel are built and none is chosen, which the next process does, alone, with what lies in the cache. Else what was
    chosen is loaded. A compiler that would measure all the same (pad_mm, max-autotune) fails, and must be asked again alone."""
    from torch._inductor.runtime import autotune_cache, benchmarking, triton_heuristics

    def refuse(*_, **__):
        raise RuntimeError("the compiler measures before it decides")

    benchmarking.benchmarker.benchmark = benchmarking.benchmarker.benchmark_gpu = refuse
    if build:
        triton_heuristics.CachingAutotuner.benchmark_all_configs = (
            lambda self, *_, **__: dict.fromkeys(self.launchers, 0.0))
        autotune_cache.AutotuneCache.save = lambda *_, **__: None
    step()


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
    step = make_step(request, inputs, state)
    if request["beside"]:
        compile_beside(step, request["beside"] == "build")
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
