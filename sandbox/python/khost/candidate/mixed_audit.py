"""What an answer is worth without the candidate's own kernels, for the rule set `mixed`. The plan's torch operators are
played; in the place of each launch stands what it wrote in the candidate's process on one set, the recorded one, and the
library is never loaded. The judge compares the answers of four kinds of calls:

    replay    on the recorded set, what was recorded stands in the place of the launches: must be right, else what was
              recorded is not what the answer was made of
    stale     on another set, what was recorded still stands there: must be wrong, else what own kernels write has no
              effect, or is the same for all inputs
    poison    the same with arbitrary numbers of the same size: must be wrong
    skip      nothing is done in the place of the launches, for the time that the operators alone take

Copies are no work. Where what a launch wrote lies close to what stood there before, or to a tensor that it reads, element
by element, the later calls copy that element instead: a kernel that only hands on the answer of an operator then leaves
the answer right."""

import torch

from khost.candidate.mixed_player import HEADER, Steps, memory_as_in_baselines, quiet_collector

REPLAY, STALE, POISON, SKIP = range(4)  # of the call to come, in the first byte of the region (judge/mixed.h)
DTYPES = {"f": torch.float32, "d": torch.float64, "e": torch.float16, "g": torch.bfloat16, "?": torch.bool,
          "b": torch.int8, "B": torch.uint8, "h": torch.int16, "i": torch.int32, "I": torch.int32, "l": torch.int64,
          "L": torch.int64}
CLOSE = 1e-2  # relative; what differs by less is a copy for every tolerance that a task may have


def elements(data, letter):
    """Bytes as elements; a rest that is no whole element is left out."""
    dtype = DTYPES[letter]
    data = data[:data.numel() // dtype.itemsize * dtype.itemsize]
    if data.data_ptr() % dtype.itemsize:
        data = data.clone()
    return data.view(dtype)


def differs(one, other):
    """Where elements are not close to each other. NaN is close to NaN."""
    if not one.dtype.is_floating_point:
        return one != other
    one, other = one.double(), other.double()
    close = (one - other).abs() <= CLOSE * other.abs()
    return ~(close | (one == other) | (one.isnan() & other.isnan()))


class Written:
    """What a launch wrote through one pointer, and what of it is its own work."""

    def __init__(self, pointer, reads, recorded):
        self.pointer, self.recorded = pointer, recorded.clone()
        self.base, self.work = None, None  # where it copies from (None: what stood there), where it does not
        now = elements(recorded, pointer.letter)
        for base in (None, *reads):
            old = elements(self.bytes_of(base), pointer.letter)
            if old.numel() != now.numel() or base is not None and base.letter != pointer.letter:
                continue
            work = differs(now, old)
            if self.work is None or int(work.sum()) < int(self.work.sum()):
                self.base, self.work = base, work

    def bytes_of(self, base):
        return (self.pointer if base is None else base).bytes()

    def replay(self):
        self.pointer.bytes().copy_(self.recorded)

    def put(self, values):
        """`values` where the launch works, and a copy where it copies."""
        there = self.pointer.bytes()
        target = there[:self.work.numel() * values.dtype.itemsize]
        source = elements(self.bytes_of(self.base), self.pointer.letter)
        target.copy_(torch.where(self.work, values, source).view(torch.uint8))

    def stale(self):
        self.put(elements(self.recorded, self.pointer.letter))

    def poison(self):
        known = elements(self.recorded, self.pointer.letter)
        if known.dtype == torch.bool:
            values = torch.rand(known.shape) < 0.5
        elif not known.dtype.is_floating_point:  # of the values that there are: an index must stay one
            values = known[torch.randperm(known.numel())]
            values = known + 1 if torch.equal(values, known) else values
        else:
            finite = known.double()[known.isfinite()]
            size = float(finite.square().mean().sqrt()) if finite.numel() else 1.0
            values = ((torch.rand(known.shape, dtype=torch.float64) * 6 - 3) * (size or 1.0)).to(known.dtype)
        self.put(values)


class Audit:
    def __init__(self, request, regions):
        self.request, self.regions, self.own = request, regions[:3], regions[3]
        self.written = {}

    def set_up(self):
        memory_as_in_baselines()
        torch.set_num_threads(self.request["threads"])
        self.steps = Steps(self.request["plan"], self.request["signatures"], self.regions)
        self.kinds = {REPLAY: self.replay, STALE: self.stale, POISON: self.poison, SKIP: lambda launch: None}
        quiet_collector()

    def learn(self, launch):
        """In the first call, before anything of the launch stands in memory."""
        pieces = []
        for pointer in launch.writes:
            start = HEADER + pointer.place
            recorded = self.own[start:start + pointer.bytes().numel()]
            pieces.append(Written(pointer, launch.reads, recorded))
        self.written[launch] = pieces

    def replay(self, launch):
        if launch not in self.written:
            self.learn(launch)
        for piece in self.written[launch]:
            piece.replay()

    def stale(self, launch):
        for piece in self.written[launch]:
            piece.stale()

    def poison(self, launch):
        for piece in self.written[launch]:
            piece.poison()

    def call(self):
        with torch.no_grad():
            self.steps.run(self.kinds[int(self.own[0])])
