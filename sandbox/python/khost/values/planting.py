"""Planted sets: a few elements of float inputs stand far beyond the others, at random places and at the ends of axes, so
that an answer must be right there too; where a model divides by what it measures of its inputs, one row is small, so that
what guards the division shows. Planting keeps what a task may count on: a tensor whose values have structure is left alone,
exact zeros stay zeros, and a model that does not bear planted inputs gets none (`reason_against`). Tensors of one sign
have no outliers; contrast.py arranges what they hold. Inputs that are all zeros (a first hidden state) hold numbers."""

import math
import typing

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from khost.values.contrast import contrast, related, rising, shrink_slices
from khost.task.manifest import leaves
from khost.task.task_file import call, fresh

OUTLIERS = 1e-4   # of the elements, at least one in a tensor of 64
SMALLEST = 64
FEW = 16          # a tensor with no more different values is a mask, a level or a label
LOOKED_AT = 1 << 16
NOWHERE = "no input bears outliers"
IN_UNIT, NONE_BELOW, NONE_ABOVE = ONE_SIGN = ("all in [0, 1]", "none below zero", "none above zero")
LARGEST = 6       # times the largest element, the outlier in the last place of a tensor is, ...
OTHERS = 5        # ... and others are at most
LOST = 1 << 16    # terms of a sum from which those at the ends of axes are larger, so that one of them shows, ...
MOST_REACH = 256  # ... by so many times at most
LONG = 1 << 12    # elements of a tensor for each one of an output from which a few of them are lost in a sum
# What may be planted: outliers; another arrangement in tensors of one sign; numbers in tensors of zeros; and boldly
# outliers in tensors of one sign, which may be a domain, for tasks that other sets say nothing about.
KINDS = ("outliers", "arranged", "zeros", "bold")
USUAL, BOLD = KINDS[:3], ("outliers", "bold")
GUARDED = {"native_layer_norm", "native_group_norm", "native_batch_norm", "cudnn_batch_norm", "_batch_norm_impl_index",
           "_fused_rms_norm", "rsqrt", "sqrt", "sqrt_", "rsqrt_", "linalg_vector_norm", "norm", "var", "std", "var_mean",
           "std_mean"}


class Operators(TorchDispatchMode):
    """Names of the operators of a model."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing here is compiled, and skipping imports the compiler: 1 s of a child

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.__name__.split(".")[0])
        return func(*args, **(kwargs or {}))


class Reach:
    """What planting has to show of a task. `terms`: elements of float inputs for each element of the largest output;
    `guarded`: whether it divides by what it measures of its inputs, as normalisations do; `fewest`: elements of the
    smallest output."""

    def __init__(self, terms=1.0, guarded=False, fewest=math.inf):
        self.terms, self.guarded, self.fewest = terms, guarded, fewest

    @staticmethod
    def of(model, values):
        """From a call on a copy of the inputs, as they are drawn."""
        with Operators() as mode:
            outputs = leaves(call(model, fresh(values)))
        read = sum(t.numel() for t in leaves(values) if t.is_floating_point())
        sizes = [x.numel() for x in outputs if x.numel()] or [1]
        return Reach(read / max(sizes), bool(mode.names & GUARDED), min(sizes))

    def largest(self):
        return LARGEST * min(max(1.0, self.terms / LOST), MOST_REACH)


def integral(tensor):
    """Whether a float tensor holds whole numbers only: labels, counts, masks. They are never moved or planted in."""
    flat = tensor.reshape(-1)
    return bool((flat[:4096] == flat[:4096].round()).all()) and bool((flat == flat.round()).all())


def structure(tensor, bold=False):
    """Which structure forbids outliers in a float tensor, in a few words; "" where none does. `bold`: a range that may be
    chance, as that of torch.rand, is none."""
    if tensor.numel() < SMALLEST:
        return "fewer than 64 elements"
    if not dense(tensor):
        return "elements share memory"
    low, high = (float(x) for x in tensor.aminmax())
    finite = tensor
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = tensor[torch.isfinite(tensor)]
        if finite.numel() < SMALLEST:
            return "hardly a finite element"
        low, high = (float(x) for x in finite.aminmax())
    if integral(finite):
        return "whole numbers"
    if finite.reshape(-1)[:LOOKED_AT].unique().numel() <= FEW:
        return "few different values"
    if low >= 0 and not bold:
        return IN_UNIT if high <= 1 else NONE_BELOW
    if high <= 0 and not bold:
        return NONE_ABOVE
    if sorted_rows(tensor):
        return "sorted"
    if symmetric(tensor):
        return "symmetric"
    if unit_rows(tensor):
        return "rows of length one"
    return ""


def dense(tensor):
    if tensor.is_contiguous():
        return True
    size = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return size == tensor.numel() and 0 not in tensor.stride()


def sorted_rows(tensor):
    if tensor.dim() == 0 or tensor.shape[-1] < 3:
        return False
    head = tensor.reshape(-1, tensor.shape[-1])[:1, :LOOKED_AT]
    steps = head[:, 1:] - head[:, :-1]
    if not (rising(steps) or rising(-steps)):
        return False
    steps = tensor[..., 1:] - tensor[..., :-1]
    return rising(steps) or rising(-steps)


def symmetric(tensor):
    return tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1 and torch.allclose(
        tensor, tensor.transpose(-1, -2), rtol=1e-5, atol=1e-7)


def unit_rows(tensor):
    if tensor.dim() < 2 or tensor.shape[-1] < 2:
        return False
    rows = tensor.reshape(-1, tensor.shape[-1])[:LOOKED_AT].float()
    sums, lengths = rows.sum(-1), rows.square().sum(-1)
    return bool(((sums - 1).abs() < 1e-3).all()) or bool(((lengths - 1).abs() < 1e-2).all())


def at_the_ends(tensor, generator, up, last):
    """Offsets into a dense tensor's memory, each with the sign of its outlier (0: either, `up` where there are several): in
    the last place of the whole tensor (`last` is its sign), in that of the last axis, in the last place of any axis, in the
    first place of the last one; elsewhere in the tensor at random."""
    def place(axis, at_end):
        index = [int(torch.randint(n, (1,), generator=generator)) for n in tensor.shape]
        index[axis] = tensor.shape[axis] - 1 if at_end else 0
        return sum(i * stride for i, stride in zip(index, tensor.stride()))

    axis = int(torch.randint(tensor.dim(), (1,), generator=generator))
    first = up if tensor.numel() * OUTLIERS >= 2 else 0
    # One of the other sign is always there: without it a relu does nothing to a tensor of one sign.
    return [(last_place(tensor), last), (place(-1, True), first), (place(axis, True), -first), (place(-1, False), 0)]


def last_place(tensor):
    """Offset of the last element in row-major order."""
    return sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))


def add_outliers(tensor, generator=None, up=1, reach=None, last=1, share=OUTLIERS):
    """Plants in one tensor whose structure bears it. `up`: the sign of the outliers in the last places of axes; `last`: in
    the last place of all; `share`: of its elements. The places come from a generator of their own: a task may have seeded
    torch's."""
    reach = reach or Reach()
    flat = torch.as_strided(tensor, (tensor.numel(),), (1,))
    count = max(1, int(share * flat.numel()))
    where = torch.randint(flat.numel(), (count,), generator=generator)
    sign = (torch.randint(0, 2, (count,), generator=generator) * 2 - 1).double()
    ends = at_the_ends(tensor, generator, up, last)[:count]  # where a kernel that forgets the rest of an axis does not look
    for number, (place, up) in enumerate(ends):
        if place not in where[:number]:
            where[number], sign[number] = place, up or sign[number]
    factor = sign * (2 + (OTHERS - 2) * torch.rand(count, generator=generator, dtype=torch.float64))
    # None is larger, and none in its row, so that a maximum shows them.
    factor[0], factor[1:2] = LARGEST * sign[0], OTHERS * sign[1:2]
    factor[:len(ends)] *= reach.largest() / LARGEST
    factor = factor.to(flat.device)
    where = where.to(flat.device)
    finite = flat[:LOOKED_AT][torch.isfinite(flat[:LOOKED_AT])]
    scale = max(float(finite.abs().max()) if finite.numel() else 0.0, 1e-3)
    most = torch.finfo(tensor.dtype).max / 16
    planted = (factor * scale).clamp(-most, most).to(flat.dtype)
    old = flat[where]
    flat[where] = torch.where((old == 0) | ~torch.isfinite(old), old, planted)
    if reach.guarded:
        shrink_slices(tensor, generator)


class Planted(typing.NamedTuple):
    """What was planted: which of the kinds, and `why` nothing was, "" where something was."""
    why: str
    kinds: tuple


def zeros(tensor):
    """Whether a float tensor holds zeros only and is large enough for planting."""
    return tensor.is_floating_point() and tensor.numel() >= SMALLEST and dense(tensor) and not bool(tensor.any())


def arranged(tensor, others, generator, last, reach):
    """Plants in a tensor of one sign; returns why not, or ""."""
    if related(tensor, others):
        return "in order with another input"
    return contrast(tensor, generator, last, reach.guarded, tensor.numel() >= LONG * reach.fewest)


def plant(values, seed, kinds=USUAL, reach=None, share=OUTLIERS):
    """Plants in all tensors that bear it, in place. `seed`: of the places; an even one makes the outlier in the last place
    negative, since a maximum shows one sign only and a minimum the other. `kinds`: what may be planted. `share`: of the
    elements of each tensor that are outliers, in sets that judge nothing."""
    generator = torch.Generator().manual_seed((seed * 6364136223846793005 + 1442695040888963407) % 2**63)
    reasons, used, up, reach = [], set(), 1, reach or Reach()
    inputs = leaves(values)
    for place, tensor in enumerate(inputs):
        last = up if seed % 2 else -up
        why = structure(tensor, "bold" in kinds) if tensor.is_floating_point() else "not of floats"
        kind = ""
        if why in ONE_SIGN and "arranged" in kinds:
            why, kind = arranged(tensor, inputs, generator, last, reach), "arranged"
        elif "zeros" in kinds and zeros(tensor):
            tensor.copy_(torch.rand(tensor.shape, generator=generator).to(tensor))
            why, kind = "", "zeros"
        elif not why and "outliers" in kinds:
            add_outliers(tensor, generator, up, reach, last, share)
            kind, up = "outliers", -up  # outliers of one sign would cancel in a difference
        if not why and kind:
            used.add(kind)
        reasons.append(f"input {place}: {why}")
    return Planted("" if used else f"{NOWHERE}: " + ("; ".join(reasons)[:200] or "there is none"), tuple(sorted(used)))


def reason_against(plain, planted):
    """Why planted sets are not used, from what the model returned on the same inputs with and without outliers."""
    for place, (one, other) in enumerate(zip(plain, planted)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"output {place} has another shape with outliers"
        if one.is_floating_point():
            broken = torch.isfinite(one) & ~torch.isfinite(other)
            if bool(broken.any()):
                return f"output {place} is not finite with outliers where it was"
    return ""
