"""Does the judge's time agree with CUPTI's span of the same calls?

    python3 q9_cupti.py make FOLDER [NAME...]    workspaces of one honest kernel each, 20 us to 50 ms
    khost tests/manual/bench/judge_cuda.lua --folder FOLDER --against eager --tolerance paper --repeat 10 --json RECORDS
    python3 q9_cupti.py compare RECORDS          a line for each: CUPTI's median span, the judge's time, the difference

Caches are cold before each call on both sides. CUPTI is read through torch.profiler."""

import ctypes
import functools
import glob
import json
import os
import sys

SIZES = {"20us": 256, "100us": 640, "1ms": 1280, "5ms": 2048, "40ms": 4096}
CALLS = 20
KERNEL = """// One element of the product a thread.
#include "khost.h"

__global__ void matmul_kernel(const float* a, const float* b, float* out, int n) {
  const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < n; i++) {
    sum += a[row * n + i] * b[i * n + col];
  }
  out[row * n + col] = sum;
}

extern "C" int matmul(const float* a, const float* b, float* out, int64_t rows, khost::stream* stream) {
  const dim3 grid(static_cast<unsigned>(rows / 16), static_cast<unsigned>(rows / 16));
  matmul_kernel<<<grid, dim3(16, 16), 0, khost::cuda(stream)>>>(a, b, out, static_cast<int>(rows));
  return cudaGetLastError();
}
KHOST_EXPORT(matmul)
"""
MODEL = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(%d, %d), torch.rand(%d, %d)]


def get_init_inputs():
    return []
"""


def make(folder, *names):
    for name in names or SIZES:
        n = SIZES[name]
        place = f"{folder}/good/matmul_{name}"
        os.makedirs(f"{place}/kernels", exist_ok=True)
        for path, text in (("model.py", MODEL % (n, n, n, n)), ("kernels/matmul.cu", KERNEL),
                           ("expected.json", '{"status": "ok"}\n')):
            with open(f"{place}/{path}", "w") as file:
                file.write(text)


def spans(call, scrub):
    """Median device time in us of one call, from the start of its first kernel to the end of its last."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(CALLS):
            scrub.add_(1)
            torch.cuda.synchronize()
            call()
            torch.cuda.synchronize()
    times = sorted(e.time_range.end - e.time_range.start for e in profiler.events()
                   if e.device_type == torch.autograd.DeviceType.CUDA and "matmul_kernel" in e.name)
    return times[len(times) // 2], len(times)


def compare(records):
    import torch
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    scrub = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    judged = {}
    for line in open(records):
        record = json.loads(line)
        if record["verdict"]["status"] == "ok":
            judged.setdefault(record["label"], []).append(record["verdict"])
    print(torch.cuda.get_device_name())
    for name, n in SIZES.items():
        verdicts = judged.get(f"good/matmul_{name}")
        if not verdicts:
            print(f"{name}: no verdict")
            continue
        found = glob.glob(f"{cache}/khost/artefacts/**/*{verdicts[0]['evidence']['artefact_hash']}*.so", recursive=True)
        matmul = ctypes.CDLL(found[0]).matmul
        a, b = torch.rand(n, n, device="cuda"), torch.rand(n, n, device="cuda")
        out = torch.empty_like(a)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (a, b, out)]
        span, calls = spans(functools.partial(matmul, *pointers, ctypes.c_int64(n), stream), scrub)
        times = sorted(v["times"]["candidate_s"] * 1e6 for v in verdicts)
        median = times[len(times) // 2]
        print(f"{name:6} n {n:5}: CUPTI {span:9.2f} us ({calls} calls), judge {median:9.2f} us ({len(times)} verdicts), "
              f"difference {median - span:+7.2f} us = {100 * (median - span) / span:+.2f} %, "
              f"slack {verdicts[0]['slack_s'] * 1e6:.2f} us")


if __name__ == "__main__":
    {"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])
