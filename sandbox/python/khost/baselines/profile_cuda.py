"""Kernel tables of the task's own Model, and what cuBLAS reaches on this device. These processes run for a profile and
are never timed by the judge."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from khost.baselines.baselines_cuda import WARM_UP, make_step
from khost.baselines.device_memory import load_library, load_profiler, region

# Name of a ceiling: dtype, whether fp32 may use the tensor cores, rows of the square matrices.
GEMMS = {"float32": (torch.float32, False, 4096), "tf32": (torch.float32, True, 8192),
         "float16": (torch.float16, False, 8192), "bfloat16": (torch.bfloat16, False, 8192)}
TRIES = 5


def flops_of(step):
    """FLOPs of matrix products, convolutions and attention in one call; None when they cannot be counted."""
    try:
        with FlopCounterMode(display=False) as counter:
            step()
        return counter.get_total_flops()
    except Exception:
        return None


def profile(request, fds):
    profiler = load_profiler(request["profiler"], fds[0], request["cupti"])
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    library = load_library(request["library"])
    inputs, state = (region(library, fd, size) for fd, size in zip(fds[1:], request["bytes"]))
    step = make_step(request, inputs, state)
    kept = None
    for _ in range(WARM_UP):
        kept = step()
    scrub = torch.zeros(request["scrub_bytes"] // 4, device="cuda")
    for number in range(1, request["calls"] + 1):
        scrub.sum()
        torch.cuda.synchronize()
        profiler.khost_profile_begin(number)
        kept = step()
        torch.cuda.synchronize()
        profiler.khost_profile_end()
    del kept
    return {"flops": flops_of(step) if request["kind"] == "eager" else None}


def gemm_rate(dtype, tf32, rows):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = (torch.randn(rows, rows, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    times = []
    for _ in range(TRIES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.mm(a, b, out=out)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return 2 * rows ** 3 / min(times)


def ceilings():
    rates = {}
    for name, setting in GEMMS.items():
        try:
            rates[name] = gemm_rate(*setting)
        except RuntimeError:  # a device without this type, or without the memory
            continue
    return rates


def answer(request, fds):
    return profile(request["profile"], fds) if request["kind"] == "profile_cuda" else ceilings()
