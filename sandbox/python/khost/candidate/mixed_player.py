"""Plays a plan that has torch operators beside launches (recorder_operators.py), turn by turn, on the judge's memory.

Two processes play it. The candidate's loads its library and is a stranger's from then on: nothing that it says is
believed, and what it wrote is compared. The other one, the audit (mixed_audit.py), never loads the library: it finds out
what the answer is worth without the candidate's own kernels.

What a launch has written is lent to the audit in a region, one piece for each pointer that it may write through, in the
order of the plan, each at the next multiple of 64 bytes behind a header of 64 (sandbox/abi/plan.h: own_bytes)."""

import ctypes
import gc
import mmap
import os

import torch

from khost.task.manifest import mapped
from khost.candidate.recorder_operators import UNPLAYABLE, computes, flat

READY = 1
HEADER = ALIGNMENT = 64
M_TRIM_THRESHOLD, M_MMAP_MAX, MOST = -1, -4, 2**31 - 1
SCALARS = {"f": ctypes.c_float, "d": ctypes.c_double, "?": ctypes.c_bool, "b": ctypes.c_int8, "B": ctypes.c_uint8,
           "h": ctypes.c_int16, "i": ctypes.c_int32, "I": ctypes.c_uint32, "l": ctypes.c_int64, "L": ctypes.c_uint64}
WORDS = {"dtype": lambda name: getattr(torch, name), "layout": lambda name: getattr(torch, name),
         "memory_format": lambda name: getattr(torch, name), "device": torch.device, "float": float}


class WorkspaceArgument(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class ThreadsArgument(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int)]


class Memory:
    """The storages of a plan by slot and index. Those of `value` are made anew in each call."""

    def __init__(self, plan, regions):
        self.storages = {}
        for slot, region, described in zip(("input", "state", "output"), regions,
                                           (plan["regions"][name] for name in ("inputs", "state", "outputs"))):
            for index, (size, offset) in enumerate(described):
                self.storages[slot, index] = region[offset:offset + size]
        for index, size in enumerate(plan["workspace"]):
            self.storages["workspace", index] = torch.zeros(size, dtype=torch.uint8)
        self.sizes = plan["values"]
        self.drop_values()

    def bytes(self, slot, index, offset=0):
        """The storage as bytes, from an offset on."""
        return self.storages[slot, index][offset:]

    def tensor(self, node):
        base = self.storages[node["slot"], node["index"]]
        dtype = getattr(torch, node["dtype"])
        skip = base.storage_offset() // dtype.itemsize + node["offset"]
        return torch.empty(0, dtype=dtype).set_(base.untyped_storage(), skip, node["size"], node["stride"])

    def keep(self, described, result):
        """Puts a result where the plan has it: its own storage, where its form is the one that was recorded, or a copy
        of that form."""
        node = described["tensor"]
        if list(result.shape) != node["size"] or result.dtype != getattr(torch, node["dtype"]):
            raise RuntimeError(f"a torch operator gives {list(result.shape)} {result.dtype}, and gave {node['size']} "
                               f"{node['dtype']} when it was recorded")
        place = node["slot"], node["index"]
        same = (list(result.stride()) == node["stride"] and result.storage_offset() == node["offset"]
                and result.untyped_storage().nbytes() == described["bytes"])
        if same and node["slot"] == "value":
            self.storages[place] = torch.empty(0, dtype=torch.uint8).set_(result.untyped_storage())
            return
        if node["slot"] == "value":
            self.storages[place] = torch.empty(described["bytes"], dtype=torch.uint8)
        self.tensor(node).copy_(result)

    def drop_values(self):
        for index in range(len(self.sizes)):
            self.storages["value", index] = None


class Operator:
    def __init__(self, step, memory):
        name = step["name"].split("::")[-1]
        if name in UNPLAYABLE:
            raise RuntimeError(f"torch operator {name} has no place in a plan")
        packet = getattr(torch.ops.aten, name)
        self.function = getattr(packet, step["overload"] or "default")
        self.step, self.memory = step, memory

    def value(self, value):
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if not isinstance(value, dict):
            return value
        (kind, content), = value.items()
        return self.memory.tensor(content) if kind == "tensor" else WORDS[kind](content)

    def run(self):
        result = self.function(*self.value(self.step["arguments"]),
                               **{key: self.value(one) for key, one in self.step["keywords"].items()})
        for described, leaf in zip(self.step["results"], flat(result)):
            if described is not None:
                self.memory.keep(described, leaf)


class Pointer:
    """A pointer of a launch, and its place in the region of what launches wrote."""

    def __init__(self, argument, letter, place, memory):
        self.slot, self.index, self.offset = argument["slot"], argument["index"], argument.get("offset", 0)
        self.letter, self.place, self.memory = letter, place, memory

    def bytes(self):
        return self.memory.bytes(self.slot, self.index, self.offset)

    def address(self):
        return self.memory.storages[self.slot, self.index].data_ptr() + self.offset


class Launch:
    def __init__(self, launch, signature, memory, place):
        self.symbol, self.arguments, self.reads, self.writes = launch["symbol"], [], [], []
        self.memory, self.function = memory, None
        for position, argument in enumerate(launch["arguments"]):
            role, letter = signature[2 * position], signature[2 * position + 1]
            if role in "rw" and argument.get("slot") != "null":
                pointer = Pointer(argument, letter, place, memory)
                self.arguments.append(pointer)
                (self.reads if role == "r" else self.writes).append(pointer)
                if role == "w":
                    place += (size_of(memory, pointer) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
            else:
                self.arguments.append(self.plain(role, argument))
        self.end = place

    def plain(self, role, argument):
        if role in "rw":
            return ctypes.c_void_p(None)
        if role == "W":
            if "slot" not in argument:
                return WorkspaceArgument(None, 0)
            piece = self.memory.storages["workspace", argument["index"]]
            return WorkspaceArgument(piece.data_ptr(), piece.numel())
        if role == "T":
            return ThreadsArgument(torch.get_num_threads())
        if role == "s":
            kind = SCALARS[argument["dtype"]]
            return kind.from_buffer_copy(argument["value"]["bits"].to_bytes(8, "little"))
        raise RuntimeError(f"'{self.symbol}' takes an argument that this subject cannot pass")

    def open(self, library):
        self.function = getattr(library, self.symbol)
        self.function.restype = ctypes.c_int

    def run(self):
        status = self.function(*[ctypes.c_void_p(one.address()) if isinstance(one, Pointer) else one
                                 for one in self.arguments])
        if status:
            raise RuntimeError(f"'{self.symbol}' returned {status}")

    def lend(self, own):
        """Writes what the launch has written into the region."""
        for pointer in self.writes:
            written = pointer.bytes()
            own[pointer.place:pointer.place + written.numel()].copy_(written)


def size_of(memory, pointer):
    known = memory.storages[pointer.slot, pointer.index]
    whole = known.numel() if known is not None else memory.sizes[pointer.index]
    return whole - pointer.offset


class Steps:
    """The plan's launches and operators in their order."""

    def __init__(self, plan, signatures, regions):
        self.memory = Memory(plan, regions)
        self.launches, place = [], 0
        for launch in plan["launches"]:
            self.launches.append(Launch(launch, signatures[launch["symbol"]], self.memory, place))
            place = self.launches[-1].end
        self.all, waiting = [], list(plan["operators"])
        for position, launch in enumerate([*self.launches, None]):
            while waiting and (launch is None or waiting[0]["before"] <= position):
                self.all.append(Operator(waiting.pop(0), self.memory))
            if launch is not None:
                self.all.append(launch)

    def run(self, launch=Launch.run):
        """One call. `launch`: what is done in the place of each launch."""
        self.memory.drop_values()
        for step in self.all:
            if isinstance(step, Launch):
                launch(step)
            else:
                step.run()


class Page:
    """The control page (sandbox/subject/turn.h)."""

    def __init__(self, fd, library):
        self.library = ctypes.CDLL(library)
        self.library.khost_wait_go.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
        self.library.khost_ack.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
        self.library.khost_message.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        self.memory = mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self.page = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def serve(self, set_up, call):
        """Sets up, then plays call after call until told to leave. What fails is told and acknowledged as failed."""
        seq, step = READY, set_up
        while True:
            status = 0
            try:
                step()
            except BaseException as error:  # SystemExit too
                self.library.khost_message(self.page, f"{type(error).__name__}: {error}".encode(errors="replace")[:1900])
                status = 1
            self.library.khost_ack(self.page, seq, status)
            seq, step = seq + 1, call
            if not self.library.khost_wait_go(self.page, seq):
                return


def region_of(fd):
    """A lent region as bytes; one that is sealed against writing is mapped for reading."""
    size = os.fstat(fd).st_size
    for protection in (mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ):
        try:
            return mapped(mmap.mmap(fd, size, mmap.MAP_SHARED, protection)) if size else mapped(b"")
        except OSError:
            continue
    raise OSError("a region of the judge cannot be mapped")


def memory_as_in_baselines():
    """A heap that keeps what it has (judge/allocator.h): what an operator makes is then memory that is there, as it is in
    the process that the candidate is compared with. Its pages are small already (confinement.py)."""
    library = ctypes.CDLL(None)
    library.mallopt(M_MMAP_MAX, 0)
    library.mallopt(M_TRIM_THRESHOLD, MOST)


def quiet_collector():
    gc.collect()
    gc.freeze()
    gc.disable()


class Candidate:
    """With the library. The first call's results are lent to the audit."""

    def __init__(self, request, fds):
        self.request, self.fds, self.lends = request, fds, request["lends"]

    def set_up(self):
        memory_as_in_baselines()
        regions = [region_of(fd) for fd in self.fds[1:4]]
        self.own = region_of(self.fds[4])[HEADER:]
        torch.set_num_threads(self.request["threads"])
        self.steps = Steps(self.request["plan"], self.request["signatures"], regions)
        # Not for a moment is it one that others of its jail may look into: what they open then, they keep.
        library = ctypes.CDLL(f"/proc/self/fd/{self.fds[5]}", mode=os.RTLD_NOW | os.RTLD_LOCAL)
        for launch in self.steps.launches:
            launch.open(library)
        quiet_collector()

    def launch(self, launch):
        launch.run()
        launch.lend(self.own)

    def call(self):
        with torch.no_grad():
            self.steps.run(self.launch if self.lends else Launch.run)
        self.lends = False


def run(request, fds, reply):
    """Never returns. `fds`: control page, inputs, state, outputs, what launches wrote, and with "library" the library."""
    if request["library"]:
        played = Candidate(request, fds)
    else:
        from khost.candidate.mixed_audit import Audit
        played = Audit(request, [region_of(fd) for fd in fds[1:5]])
        reply({"computing": sum(computes(step) for step in request["plan"]["operators"])})
    Page(fds[0], request["page"]).serve(played.set_up, played.call)
    os._exit(0)
