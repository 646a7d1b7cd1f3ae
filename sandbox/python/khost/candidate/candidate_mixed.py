"""The rule set `mixed` for a candidate in Python on a GPU: torch operators are counted instead of refused, and the functions
of its own extensions can be replaced for the audit.

Operators that compute are counted where Python calls them. Inside a function of an extension they are refused as by the
rule set `own`, since what is put in the place of the function must stand for its kernels alone.

The audit is a process of its own for calls on sets that the judge chooses. In the first one everything runs, and what each
function wrote is kept: the tensors that it returned, and the given ones that it changed. In the second what was kept
stands in their place, in every later one poison of the same size. Where what was written lies close to a tensor that the
function was given, element by element, that element is copied instead, as a copy is no work. The judge compares the
answers: each but the first must be wrong (sandbox/judge/cuda/evaluation_mixed.cpp)."""

import types

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from khost.candidate.candidate_policy import OPERATORS, OWN, Refused

CLOSE = 1e-2  # relative; what differs by less is a copy for every tolerance that a task may have


class Count(TorchDispatchMode):
    """Refuses the operator that would be one more than `most` in a call of forward."""

    def __init__(self, most):
        super().__init__()
        self.most, self.found, self.inside = most, 0, None

    def begin(self):
        self.found = 0

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if func.namespace in OWN and not func.is_view and name not in OPERATORS:
            self.found += 1
            if self.inside is not None:
                raise Refused("violation/torch_compute", f"torch operator {name} computes inside {self.inside}: by the rule "
                              "set mixed operators are called from Python, beside own kernels")
            if self.found > self.most:
                raise Refused("violation/torch_compute", f"torch operator {name} is number {self.found} that computes, and the "
                              f"reference has {self.most + 1}: by the rule set mixed there must be fewer")
        return func(*args, **(kwargs or {}))


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [one for item in value.values() for one in tensors(item)]
    if isinstance(value, (tuple, list)):
        return [one for item in value for one in tensors(item)]
    return []


def differs(one, other):
    """Where elements are not close to each other. NaN is close to NaN."""
    if not (one.dtype.is_floating_point or one.dtype.is_complex):
        return one != other
    close = (one.double() - other.double()).abs() <= CLOSE * other.double().abs()
    return ~(close | (one == other) | (one.isnan() & other.isnan()))


class Piece:
    """What a function wrote into one tensor, and what of it is its own work."""

    def __init__(self, written, given):
        """`given`: copies of the tensors that the function was given, from before the call."""
        self.recorded = written.detach().clone()
        self.base, self.work = None, torch.ones_like(written, dtype=torch.bool)
        for position, tensor in enumerate(given):
            if tensor.numel() != written.numel() or tensor.dtype != written.dtype:
                continue
            work = differs(written, tensor.reshape(written.shape))
            if int(work.sum()) < int(self.work.sum()):
                self.base, self.work = position, work

    def put(self, target, given, poisoned):
        """`given`: as above, of the call that is replaced."""
        values = self.poison() if poisoned else self.recorded
        if self.base is not None:
            values = torch.where(self.work, values, given[self.base].reshape(target.shape))
        target.copy_(values)

    def poison(self):
        known = self.recorded
        if known.dtype == torch.bool:
            return torch.rand(known.shape, device=known.device) < 0.5
        if not known.dtype.is_floating_point:  # of the values that there are: an index must stay one
            mixed = known.flatten()[torch.randperm(known.numel(), device=known.device)].reshape(known.shape)
            return known + 1 if torch.equal(mixed, known) else mixed
        finite = known.double()[known.isfinite()]
        size = float(finite.square().mean().sqrt()) if finite.numel() else 1.0
        return ((torch.rand(known.shape, dtype=torch.float64, device=known.device) * 6 - 3) * (size or 1.0)).to(known.dtype)


class Audit:
    def __init__(self):
        self.calls, self.launches, self.kept = 0, 0, []

    def begin(self):
        """Before each call of forward."""
        self.calls, self.launches = self.calls + 1, 0

    def run(self, function, args, kwargs):
        """The function, and in later calls something else in the place of what it writes."""
        inputs = tensors((args, kwargs))
        before = [tensor.detach().clone() for tensor in inputs]
        result = function(*args, **kwargs)
        storages = {tensor.untyped_storage()._cdata for tensor in inputs}
        written = [tensor for tensor in tensors(result) if tensor.untyped_storage()._cdata not in storages]
        changed = [tensor for tensor, old in zip(inputs, before) if bool(differs(tensor, old).any())]
        if self.calls == 1:
            self.kept.append(([Piece(tensor, before) for tensor in written],
                              {position: Piece(tensor, before) for position, tensor in enumerate(inputs)
                               if any(tensor is one for one in changed)}))
            return result
        if self.launches >= len(self.kept):
            raise RuntimeError("forward calls its extensions more often than in the call before")
        returned, given = self.kept[self.launches]
        self.launches += 1
        for piece, tensor in zip(returned, written):
            piece.put(tensor, before, self.calls > 2)
        for position, piece in given.items():
            piece.put(inputs[position], before, self.calls > 2)
        return result


class Extension(types.ModuleType):
    """An extension whose functions are run by `run`."""

    def __init__(self, module, run):
        super().__init__(module.__name__)
        self.__module, self.__run = module, run

    def __getattr__(self, name):
        value = getattr(self.__module, name)
        if not callable(value) or isinstance(value, type):
            return value

        def call(*args, **kwargs):
            return self.__run(value, args, kwargs)

        call.__name__ = name
        return call


class Rules:
    """What a call of forward is run under. `most`: operators that may compute; `audits`: whether this process is the
    audit."""

    def __init__(self, most, audits):
        self.watch, self.audit = Count(most), Audit() if audits else None

    def begin(self):
        self.watch.begin()
        if self.audit:
            self.audit.begin()

    def own(self, function, args, kwargs):
        if self.audit:
            with torch.utils._python_dispatch._disable_current_modes():
                return self.audit.run(function, args, kwargs)
        self.watch.inside = f"{function.__name__}() of an extension"
        try:
            return function(*args, **kwargs)
        finally:
            self.watch.inside = None

    def wrapped(self, module):
        return Extension(module, self.own)
