"""A candidate in Python plays turns on a GPU (cuda_turn.h), in a process of its own that one signal stops. Its memory
comes from the judge (cuda_arena.cpp), so what forward returns lies where the judge can read; where it does not, it is
copied there, inside the call. What stands in the report only says where to look."""

import ctypes
import gc
import json
import mmap
import os
import struct

import torch

from khost.candidate.candidate import arguments_of, load_module, not_built
from khost.candidate.candidate_mixed import Rules
from khost.candidate.candidate_policy import Refused, Watch, line_of_traceback
from khost.baselines.device_memory import load_library, load_profiler, region
from khost.task.manifest import Layout, over_region

PREPARED, READY = 0xfffffffe, 1  # acknowledged after the steps of the set-up (cuda_turn.h)
WRONG, REFUSED = 1, 2   # status of a call or of the set-up
ALIGNMENT = 64          # what a storage must have (sandbox/abi/manifest.h)
PR_SET_DUMPABLE = 4


class Placed(Layout):
    """Outputs as they lie in the arena. Tensors elsewhere, or whose elements or storages are shared, are replaced by
    copies."""

    def __init__(self, value, arena, size):
        self.arena, self.size, self.kept = arena, size, []
        super().__init__(value)

    def inside(self, tensor):
        storage = tensor.untyped_storage()
        at = storage.data_ptr() - self.arena
        return tensor.is_cuda and at % ALIGNMENT == 0 and at >= 0 and at + storage.nbytes() <= self.size

    def tensor(self, tensor):
        tensor = tensor.detach()
        if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_quantized:
            raise TypeError(f"forward returns a {tensor.layout} {tensor.dtype} tensor")
        storage = tensor.untyped_storage()
        shared = storage._cdata in self.positions or any(
            stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride()))
        if tensor.numel() and (shared or not self.inside(tensor)):
            tensor = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda").copy_(tensor)
            self.kept.append(tensor)
            storage = tensor.untyped_storage()
            if not self.inside(tensor):
                raise MemoryError("the outputs do not fit beside what the candidate holds")
        position = len(self.described)
        self.positions[storage._cdata] = position
        self.storages.append(storage)
        where = storage.data_ptr() - self.arena if tensor.numel() else 0
        self.described.append({"bytes": storage.nbytes() if tensor.numel() else 0, "offset": where})
        return {"kind": "tensor", "storage": position, "dtype": str(tensor.dtype).removeprefix("torch."),
                "size": list(tensor.shape), "stride": list(tensor.stride()), "offset": tensor.storage_offset()}


class Report:
    def __init__(self, fd):
        self.memory = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)

    def write(self, value):
        body = json.dumps(value).encode()
        if len(body) + 4 > len(self.memory):
            raise MemoryError("forward returns more tensors than can be described")
        self.memory[:4 + len(body)] = struct.pack("<I", len(body)) + body


def adopt(model, state):
    """The judge's memory under the parameters and buffers of the same name and shape."""
    wrong, persistent = [], set(model.state_dict(keep_vars=True))
    for prefix, module in model.named_modules():
        for table in (module._parameters, module._buffers):
            for key, old in list(table.items()):
                name = f"{prefix}.{key}" if prefix else key
                if old is None or name not in state:
                    continue
                new = state[name]
                if new.shape != old.shape or new.dtype != old.dtype:
                    if name not in persistent:
                        continue  # a buffer of ModelNew's own
                    wrong.append(f"{name} is {tuple(old.shape)} {old.dtype}, in Model {tuple(new.shape)} {new.dtype}")
                    continue
                table[key] = torch.nn.Parameter(new, requires_grad=False) if table is module._parameters else new
    if wrong:
        raise Refused("state", "; ".join(wrong)[:1000])


def make_step(request, inputs, state):
    if request["empty"]:
        return lambda: torch.cuda._sleep(0)  # one kernel that does nothing, as the empty plan has
    rules = Rules(request["most_operators"], request["audits"]) if request["rules"] == "mixed" else None
    module = load_module(request["source"], request["built"], *([rules.wrapped] if rules else []))
    args, kwargs = arguments_of(request["init"], module.ModelNew)
    model = module.ModelNew(*args, **kwargs)
    model.eval()  # whose train() may return nothing
    model.requires_grad_(False).cuda()
    adopt(model, over_region(request["state"], state))
    values = over_region(request["inputs"], inputs)
    values = values if isinstance(values, (tuple, list, dict)) else [values]
    watch = rules.watch if rules else Watch()

    def step():
        if rules:
            rules.begin()
        with watch, torch.no_grad():
            return model(**values) if isinstance(values, dict) else model(*values)

    return step


def text_of(error):
    if isinstance(error, Refused):
        where = f"model_new.py line {error.line}: " if error.line else ""
        unbuilt = f"; before that it asked in vain for the extension {not_built[0]} and hid that" if not_built else ""
        return REFUSED, f"{error.reason}: {where}{error}{unbuilt}"
    line = line_of_traceback(error)
    where = f"model_new.py line {line}: " if line else ""
    return WRONG, f"{where}{type(error).__name__}: {error}"


class Stage:
    def __init__(self, request, fds):
        self.library = load_library(request["library"])
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)  # the process that forked this one is not; its own files are
        if self.library.khost_threads_only():
            raise OSError("the process cannot be confined to threads")
        self.control = mmap.mmap(fds[0], 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self.page = ctypes.addressof(ctypes.c_char.from_buffer(self.control))
        self.report = Report(fds[1])
        self.request, self.fds = request, fds
        self.profiler = None
        if "profile" in request:
            self.profiler = load_profiler(request["profile"]["library"], fds[-1], request["profile"]["cupti"])
        self.arena = self.size = 0
        self.kept = None

    def fail(self, seq, error):
        status, text = text_of(error)
        self.library.khost_message(self.page, text.encode(errors="replace")[:1900])
        self.library.khost_ack(self.page, seq, status)

    def prepare(self):
        """Nothing of the candidate runs."""
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.on_device = self.library.khost_gpu_page(self.page)
        if not self.on_device:
            raise RuntimeError("the control page cannot be shared with the device")
        sizes = self.request["bytes"]
        self.inputs, self.state = (region(self.library, fd, size) for fd, size in zip(self.fds[2:4], sizes[:2]))
        if sizes[2]:
            # What is cached came from elsewhere; from here on memory is the judge's.
            torch.cuda.empty_cache()
            self.size = sizes[2]
            self.arena = self.library.khost_arena_open(self.fds[4], self.size)
            if not self.arena:
                raise RuntimeError("the judge's memory cannot be mapped")

    def load(self):
        self.request["built"] = {key: self.fds[5 + place] for place, key in enumerate(self.request["keys"])}
        self.step = make_step(self.request, self.inputs, self.state)
        torch.cuda.synchronize()
        gc.collect()
        gc.freeze()
        gc.disable()

    def call(self):
        self.kept = None  # the outputs of the call before are given up only now
        value = self.step()
        if not self.request["empty"]:
            placed = Placed(value, self.arena, self.size)
            self.report.write(placed.manifest())
            self.kept = (value, placed)

    def play(self, seq):
        """The status of call `seq`, after which all of it is on the device."""
        stream = torch.cuda.default_stream().cuda_stream
        if not self.library.khost_gpu_queued(self.page):
            if self.profiler:
                self.profiler.khost_profile_begin(seq)
            self.call()
            torch.cuda.synchronize()
            if self.profiler:
                self.profiler.khost_profile_end()
            return 0
        status = self.library.khost_gpu_wait(stream, self.on_device, seq)
        try:
            self.call()
        finally:
            status = status or self.library.khost_gpu_ack(stream, self.on_device, seq)
        return status

    def serve(self):
        seq = 2
        while self.library.khost_wait_go(self.page, seq):
            try:
                status = self.play(seq)
            except BaseException as error:  # sys.exit is a failed call
                self.fail(seq, error)
            else:
                self.library.khost_ack(self.page, seq, status)
            seq += 1


def warm_up():
    """In the process that candidates are forked from: the first operator under a watch imports some 900 modules, which
    takes a second. No device is touched."""
    with Watch(), torch.no_grad():
        torch.empty_like(torch.empty(1))
    torch.nn.Linear(1, 1).eval().requires_grad_(False)
    if torch.cuda.is_initialized():
        raise RuntimeError("warming up initialised CUDA")
    gc.collect()
    gc.freeze()


def run(request, fds):
    """Never returns. `fds`: control page, report, inputs, state, arena, the extensions in the order of `keys`, and with
    "profile" the profiler's page."""
    stage = Stage(request, fds)
    for step, acknowledged in ((stage.prepare, PREPARED), (stage.load, READY)):
        if acknowledged == READY and not stage.library.khost_wait_go(stage.page, READY):
            os._exit(0)
        try:
            step()
        except BaseException as error:
            stage.fail(acknowledged, error)
            os._exit(3)
        stage.library.khost_ack(stage.page, acknowledged, 0)
    stage.serve()
    os._exit(0)
