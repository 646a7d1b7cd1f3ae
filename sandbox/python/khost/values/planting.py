"""Planted sets: a few elements of float inputs stand far beyond the others, at random places and at the ends of axes, so
that an answer must be right there too; where a model divides by what it measures of its inputs, one row is small, so that
what guards the division shows. Planting keeps what a task may count on: a tensor whose values have structure is left alone,
exact zeros stay zeros, and a model that does not bear planted inputs gets none (`reason_against`). Tensors of one sign
have no outliers; contrast.py arranges what they hold. Inputs that are all zeros (a first hidden state) hold numbers."""

import math
import typing

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from khost.values.contrast import blank_slice, contrast, shrink_slices
from khost.values.structure import LOOKED_AT, ONE_SIGN, REPEATED_VALUES, SMALLEST, dense, elements_apart, related, structure
from khost.task.manifest import leaves, real
from khost.task.task_file import call, fresh, live_state

OUTLIERS = 1e-4   # of the elements, at least one in a tensor of 64
NOWHERE = "no input bears outliers"
LARGEST = 6       # times the largest element, the outlier in the last place of a tensor is, ...
OTHERS = 5        # ... and others are at most
STEEP = 256.0     # exp of it is no float32, its square no float16
LOST = 1 << 16    # terms of a sum from which those at the ends of axes are larger, so that one of them shows, ...
MOST_REACH = 256  # ... by so many times at most
LONG = 1 << 12    # elements of a tensor for each one of an output from which a few of them are lost in a sum
# What may be planted: outliers; another arrangement in tensors of one sign; numbers in tensors of zeros; these in what a set
# has of the model's state too; beside outliers a slice of zeros, or outliers whose exp is infinite; in place of outliers
# another arrangement in tensors of both signs, whose range may be a domain; and boldly outliers in tensors of one sign, for
# tasks that other sets say nothing about.
KINDS = ("outliers", "arranged", "zeros", "state", "extremes", "within", "bold")
USUAL, BOLD = KINDS[:5], ("outliers", "bold")
POWERS, INVERSE_POWER = {torch.ops.aten.pow.Tensor_Scalar, torch.ops.aten.pow_.Scalar}, "pow, negative"
GUARDED = {"native_layer_norm", "native_group_norm", "native_batch_norm", "cudnn_batch_norm", "_batch_norm_impl_index",
           "_fused_rms_norm", "rsqrt", "sqrt", "sqrt_", "rsqrt_", "linalg_vector_norm", "norm", "var", "std", "var_mean",
           "std_mean", "_transformer_encoder_layer_fwd", INVERSE_POWER}
DIVISIONS, BOUNDS = {"div", "div_", "reciprocal"}, {"clamp", "clamp_", "clamp_min", "clamp_min_", "maximum", "max"}
# What is safe with a maximum subtracted only, or in a form that takes no exp of large numbers.
SHIFTED = {"_softmax", "_log_softmax", "_safe_softmax", "logsumexp", "exp", "exp_", "tanh", "tanh_",
           "_native_multi_head_attention", "_transformer_encoder_layer_fwd"}
OF_STATE = 1 << 40  # tells the places in a model's state from those in its inputs, and leaves signs as they are
INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


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
        if func in POWERS and args[1] < 0:
            self.names.add(INVERSE_POWER)
        return func(*args, **(kwargs or {}))


class Casts(TorchDispatchMode):
    """Notices numbers that are cast to integers which cannot hold them: what comes of that is the machine's choice."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing here is compiled, and skipping imports the compiler: 1 s of a child

    overflow = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.__name__.split(".")[0]
        source = args[1] if name == "copy_" else args[0] if name == "_to_copy" else None
        if isinstance(source, torch.Tensor) and source.is_floating_point() and source.numel() and \
                isinstance(result, torch.Tensor) and result.dtype in INTEGERS:
            bounds = torch.iinfo(result.dtype)
            low, high = (float(x) for x in source.aminmax())
            self.overflow = self.overflow or not (bounds.min - 1 < low and high < bounds.max + 1)
        return result


class Reach:
    """What planting has to show of a task. `terms`: elements of float inputs for each element of the largest output, and
    `state` those of the model; `guarded`: whether it divides by what it measures of its inputs, as normalisations do;
    `shifted`: whether it exponentiates what a maximum may have to be subtracted from; `fewest`: elements of the smallest
    output."""

    def __init__(self, terms=1.0, guarded=False, fewest=math.inf, state=1.0, shifted=False):
        self.terms, self.guarded, self.fewest, self.state, self.shifted = terms, guarded, fewest, state, shifted

    @staticmethod
    def of(model, values):
        """From a call on a copy of the inputs, as they are drawn."""
        with Operators() as mode:
            outputs = leaves(call(model, fresh(values)))
        read = sum(t.numel() for t in leaves(values) if real(t))
        sizes = [x.numel() for x in outputs if x.numel()] or [1]
        state = sum(data.numel() for _, data in live_state(model))
        shifted = bool(mode.names & SHIFTED) or any("dot_product" in name for name in mode.names)
        guarded = bool(mode.names & GUARDED) or bool(mode.names & DIVISIONS and mode.names & BOUNDS)
        return Reach(read / max(sizes), guarded, min(sizes), state / max(sizes), shifted)

    def of_state(self):
        return Reach(self.state, False, self.fewest)

    def largest(self):
        return LARGEST * min(max(1.0, self.terms / LOST), MOST_REACH)


def at_the_ends(tensor, generator, up, last):
    """Offsets into a dense tensor's memory, each with the sign of its outlier (0: either, `up` where there are several): in
    the last place of the whole tensor (`last` is its sign), in that of the last axis, in the last place of any axis, in the
    first place of the last one, in the first place of all; elsewhere in the tensor at random."""
    def place(axis, at_end):
        index = [int(torch.randint(n, (1,), generator=generator)) for n in tensor.shape]
        index[axis] = tensor.shape[axis] - 1 if at_end else 0
        return sum(i * stride for i, stride in zip(index, tensor.stride()))

    axis = int(torch.randint(tensor.dim(), (1,), generator=generator))
    first = up if tensor.numel() * OUTLIERS >= 2 else 0
    # One of the other sign is always there: without it a relu does nothing to a tensor of one sign.
    return [(last_place(tensor), last), (place(-1, True), first), (place(axis, True), -first), (place(-1, False), 0),
            (0, 0)]


def last_place(tensor):
    """Offset of the last element in row-major order."""
    return sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))


def add_outliers(tensor, generator=None, up=1, reach=None, last=1, share=OUTLIERS, extremes=False):
    """Plants in one tensor whose structure bears it. `up`: the sign of the outliers in the last places of axes; `last`: in
    the last place of all; `share`: of its elements. The places come from a generator of their own: a task may have seeded
    torch's. `extremes`: numbers too that guards and subtracted maxima are there for. Returns whether there are any."""
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
    finite = flat[:LOOKED_AT][torch.isfinite(flat[:LOOKED_AT])]
    scale = max(float(finite.abs().max()) if finite.numel() else 0.0, 1e-3)
    squared = reach.guarded and tensor.dtype == torch.float16  # by a kernel in its own dtype, which then is infinite
    steep = STEEP / scale if extremes and (reach.shifted or squared) else 0.0
    factor[:len(ends)] *= max(reach.largest(), steep) / LARGEST
    factor = factor.to(flat.device)
    where = where.to(flat.device)
    most = torch.finfo(tensor.dtype).max / 16
    planted = (factor * scale).clamp(-most, most).to(flat.dtype)
    old = flat[where]
    flat[where] = torch.where((old == 0) | ~torch.isfinite(old), old, planted)
    if reach.guarded:
        small = shrink_slices(tensor, generator)
        if extremes:
            blank_slice(tensor, generator, small)
    return extremes and (reach.shifted or reach.guarded)


class Planted(typing.NamedTuple):
    """What was planted: which of the kinds, and `why` nothing was, "" where something was."""
    why: str
    kinds: tuple


def zeros(tensor):
    """Whether a float tensor holds zeros only and is large enough for planting."""
    return real(tensor) and tensor.numel() >= SMALLEST and dense(tensor) and not bool(tensor.any())


def arranged(tensor, others, generator, last, reach):
    """Plants in a tensor of one sign or of a few values; returns why not, or ""."""
    if related(tensor, others):
        return "in order with another input"
    return contrast(tensor, generator, last, reach.guarded, tensor.numel() >= LONG * reach.fewest)


def plant(values, seed, kinds=USUAL, reach=None, share=OUTLIERS, model=None, task=None):
    """Plants in all tensors that bear it, in place: in inputs, and where a model is given in its state. `seed`: of the places;
    an even one makes the outlier in the last place negative, since a maximum shows one sign only and a minimum the other.
    Those of several tensors differ in sign, or where the seed's second bit is set are alike: in a sum they would cancel, in
    a difference the others. `kinds`: what may be planted. `share`: of the elements of each tensor that are outliers, in
    sets that judge nothing. `task`: knows which tensors are its constants."""
    reach = reach or Reach()
    reasons, used = plant_in(leaves(values), seed, kinds, reach, share, task.constant_inputs() if task else ())
    if model is not None and plant_state(model, seed, kinds, reach, task):
        used.add("state")
    return Planted("" if used else f"{NOWHERE}: " + ("; ".join(reasons)[:200] or "there is none"), tuple(sorted(used)))


def plant_state(model, seed, kinds, reach, task=None):
    """Plants in what a set has of a model's state; returns whether anything was. The same for any inputs."""
    constants = task.frozen if task else ()
    tensors = [data for name, data in live_state(model) if name not in constants] if "state" in kinds else []
    return bool(plant_in(tensors, seed ^ OF_STATE, kinds, reach.of_state(), OUTLIERS)[1])


def plant_in(tensors, seed, kinds, reach, share, constants=()):
    """Plants in some tensors that stand beside each other, those at the places of constants apart; returns of each why not,
    and which kinds were used."""
    generator = torch.Generator().manual_seed((seed * 6364136223846793005 + 1442695040888963407) % 2**63)
    reasons, used, up = [], set(), 1
    for place, tensor in enumerate(tensors):
        if place in constants:
            reasons.append(f"input {place}: the same in each draw")
            continue
        last = up if seed % 2 else -up
        why, kind = plant_one(tensor, tensors, kinds, reach, generator, (up, last), share)
        if kind and kind[0] == "outliers":
            up = up if seed & 2 else -up
        if not why:
            used.update(kind)
        reasons.append(f"input {place}: {why}")
    return reasons, used


def plant_one(tensor, others, kinds, reach, generator, signs, share):
    """Plants in one tensor by what it holds; returns why nothing was, or "", and the kinds."""
    if tensor.numel() and not dense(tensor) and elements_apart(tensor):  # a part of another one, as logits[:, :-1]
        part = tensor.contiguous()
        others = [part if other is tensor else other for other in others]
        why, kind = plant_one(part, others, kinds, reach, generator, signs, share)
        if not why and kind:
            tensor.copy_(part)
        return why, kind
    up, last = signs
    why = structure(tensor, "bold" in kinds) if real(tensor) else "not of floats"
    if why in (*ONE_SIGN, REPEATED_VALUES) and "arranged" in kinds:
        return arranged(tensor, others, generator, last, reach), ("arranged",)
    if "zeros" in kinds and zeros(tensor):
        tensor.copy_(torch.rand(tensor.shape, generator=generator).to(tensor))
        return "", ("zeros",)
    if not why and related(tensor, others):
        why = "in order with another input"
    if not why and "outliers" in kinds:
        extreme = add_outliers(tensor, generator, up, reach, last, share, "extremes" in kinds)
        return "", ("outliers", "extremes") if extreme else ("outliers",)
    if not why and "within" in kinds:
        return contrast(tensor, generator, last, reach.guarded), ("within",)
    return why, ()


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
