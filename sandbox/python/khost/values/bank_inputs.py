"""Inputs of which a part is replaced by another part, and whether a model reads what was replaced: for answers of the bank
(bank.py) that run the model on less."""

import torch

from khost.task.manifest import leaves, with_tensors
from khost.values.oracle import run

SAMPLE = 8          # sub-sample: one eighth of the elements is read


def float_inputs(values):
    return [t for t in leaves(values) if t.is_floating_point()]


def sampled(tensor, axis):
    """The first eighth along an axis, repeated until it fills the axis."""
    size = tensor.shape[axis]
    index = torch.arange(size, device=tensor.device) % max(1, size // SAMPLE)
    return tensor.index_select(axis, index)


def first_only(tensor, axis, part=SAMPLE):
    """The first part along an axis, and the mean of that in place of the rest."""
    kept = max(1, tensor.shape[axis] // part)
    changed = tensor.clone()
    changed.narrow(axis, kept, tensor.shape[axis] - kept).fill_(tensor.narrow(axis, 0, kept).mean())
    return changed


def with_input(values, place, change):
    """The inputs with one of their float tensors changed; one that is given twice in both places."""
    wanted = float_inputs(values)[place]
    return with_tensors(values, lambda t: change(t) if t is wanted or same_memory(t, wanted) else t)


def same_memory(one, other):
    return one.numel() > 0 and (one.data_ptr(), one.dtype, one.shape, one.stride()) == (
        other.data_ptr(), other.dtype, other.shape, other.stride())


def unread(sample, outputs, place, change):
    """Whether the outputs are the sample's in every bit although an input was changed, and stay so with NaN where it was
    changed: the model does not read that. What it reads and weighs with nothing (0.1^200, a product that died out) is
    read: leaving it out is leaving work out."""
    if not equal_bits(outputs, sample.expected):
        return False
    try:
        return equal_bits(run(sample.model, with_input(sample.values, place, lambda t: poisoned(t, change(t)))), sample.expected)
    except Exception:
        return False


def equal_bits(outputs, expected):
    return all(x.shape == y.shape and torch.equal(x, y) for x, y in zip(outputs, expected))


def poisoned(tensor, changed):
    """NaN where a tensor was changed, and everywhere where it got another shape."""
    nan = torch.full_like(tensor, float("nan"))
    return torch.where(tensor == changed, tensor, nan) if tensor.shape == changed.shape else nan
