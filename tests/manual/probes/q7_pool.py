"""Question 7: do outputs of eager, compiled and graph-capturing modules land in an arena given to torch as a MemPool?
usage: q7_pool.py ARENA.so [pool|held|global]   pool: entered for each call; held: entered once, for good; global: the
arena is the process's only CUDA allocator"""
import contextlib
import ctypes
import signal
import sys
import threading
import time

import torch

signal.alarm(170)
path = sys.argv[1]
form = sys.argv[2] if len(sys.argv) > 2 else "pool"
arena = ctypes.CDLL(path)
arena.arena_open.restype = ctypes.c_uint64
arena.arena_open.argtypes = [ctypes.c_size_t]
for name in ("arena_used", "arena_peak", "arena_calls"):
    getattr(arena, name).restype = ctypes.c_size_t
SIZE = 4 << 30
allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "arena_alloc", "arena_free")
if form == "global":
    runtime = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    runtime.cuInit(0)
    runtime.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    runtime.cuCtxSetCurrent(context)
    BASE = arena.arena_open(SIZE)
    torch.cuda.memory.change_current_allocator(allocator)
    torch.cuda.init()
    enter = contextlib.nullcontext
else:
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    BASE = arena.arena_open(SIZE)
    pool = torch.cuda.MemPool(allocator.allocator())
    if form == "held":
        holding = torch.cuda.use_mem_pool(pool)
        holding.__enter__()
        enter = contextlib.nullcontext
    else:

        def enter():
            return torch.cuda.use_mem_pool(pool)



class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(1024, 1024)

    def forward(self, x):
        y = torch.relu(self.a(x))
        return y, y.sum(-1), (y * 2).softmax(-1)


class Captures(Net):
    """Captures its own CUDA graph on first use and returns the graph's static outputs."""

    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, x):
        if self.graph is None:
            self.x = x.clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                super().forward(self.x)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = super().forward(self.x)
        self.x.copy_(x)
        self.graph.replay()
        return self.y


def inside(tensors):
    return " ".join("in" if BASE <= t.data_ptr() < BASE + SIZE else "OUT" for t in tensors)


def timed(call, n=200):
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(n):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / n * 1e6


def check(label, module, warm_outside=0):
    x = torch.rand(512, 1024, device="cuda")
    try:
        with torch.no_grad():
            for _ in range(warm_outside):
                module(x)

            def pooled():
                with enter():
                    return module(x)

            start = time.perf_counter()
            places = []
            for _ in range(5):
                y = pooled()
                torch.cuda.synchronize()
                places.append(inside(y))
                del y
            first = time.perf_counter() - start
            calls, before = arena.arena_calls(), arena.arena_used()
            for _ in range(50):
                pooled()
            torch.cuda.synchronize()
            growth, more = arena.arena_used() - before, arena.arena_calls() - calls
            plain, within = timed(lambda: module(x)), timed(pooled)
            y = pooled()
            want = Net.forward(module, x) if isinstance(module, Captures) else reference(x)
            right = all(torch.allclose(a, b, atol=2e-3) for a, b in zip(y, want))
        print(f"Q7 {form}, {label}: first calls {places[0]} | later {places[-1]} | right {right} | 50 more calls: {more} arena "
              f"calls, growth {growth} B | per call {plain:.1f} us, in the pool {within:.1f} us | 5 calls took {first:.1f} s",
              flush=True)
    except Exception as e:
        print(f"Q7 {form}, {label}: {type(e).__name__}: {str(e).splitlines()[0][:200]}", flush=True)


print(f"Q7 form {form}, torch {torch.__version__}, arena at {BASE:#x}", flush=True)
net = Net().cuda().eval()
reference = net
check("eager", net)
compiled = torch.compile(net)
check("compile, first call in the pool", compiled)
check("compile, warmed outside the pool", compiled, 5)
check("module that captures a graph, captured in the pool", Captures().cuda().eval())
check("module that captures a graph, captured outside", Captures().cuda().eval(), 1)
torch._dynamo.reset()
check("reduce-overhead, first call in the pool", torch.compile(net, mode="reduce-overhead"))
torch._dynamo.reset()
check("reduce-overhead, warmed outside the pool", torch.compile(net, mode="reduce-overhead"), 5)


# one uint8 tensor over a storage of the judge, then any dtype, size and stride over it
class Range:
    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


address = BASE + SIZE - (1 << 20)
raw = torch.as_tensor(Range(address, 1 << 20), device="cuda")
for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.complex64):
    view = torch.empty(0, dtype=dtype, device="cuda").set_(raw.untyped_storage(), 64, (8, 16), (1, 8))
    view.copy_(torch.ones(8, 16, device="cuda"))
    placed = view.data_ptr() == address + 64 * view.element_size() and view._base is None
    ok = placed and bool((view.to(torch.complex64) == 1).all())
    print(f"Q7 {form}, view {dtype}: {'ok' if ok else 'WRONG'}", flush=True)

# a new allocation from another thread, while the main thread is in the pool

places = []
with enter():
    t = threading.Thread(target=lambda: places.append(torch.empty(1 << 20, device="cuda")))
    t.start()
    t.join()
print(f"Q7 {form}, allocation of another thread while the main thread is in the pool: {inside(places)}", flush=True)
# do replays of a captured graph overwrite tensors that were made after the capture?
for keep in (0, 1):
    ctypes.c_int.in_dll(arena, "arena_keep_captured").value = keep
    module = Captures().cuda().eval()
    x = torch.rand(512, 1024, device="cuda")
    with torch.no_grad(), enter():
        module(x)
        live = [torch.full((512, 1024), 7.0, device="cuda") for _ in range(16)]
        module(x)
        hurt = sum(bool((t != 7).any()) for t in live)
    print(f"Q7 {form}, arena keeps captured memory {keep}: {hurt} of 16 later tensors overwritten by a replay", flush=True)
    del live
# more than the arena holds
try:
    with enter():
        big = torch.empty(SIZE + (64 << 20), dtype=torch.uint8, device="cuda")
    print(f"Q7 {form}, larger than the arena: {inside([big])}", flush=True)
except Exception as e:
    print(f"Q7 {form}, larger than the arena: {type(e).__name__}: {str(e).splitlines()[0][:160]}", flush=True)
