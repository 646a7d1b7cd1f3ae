"""Inputs of which a part is replaced by another part, and whether a model reads what was replaced: for answers of the bank
(bank.py) that run the model on less."""

import copy
import functools

import torch

from khost.task.manifest import leaves, real, with_tensors
from khost.values.oracle import run

SAMPLE = 8          # sub-sample: one eighth of the elements is read
OTHERS = (1.0, -1.0, 64.0)  # numbers of other sizes and signs by which a tensor is replaced, ...
NEAR = 2.0 ** -6            # ... each by another one so near to it: products of them do not die out


def float_inputs(values):
    return [t for t in leaves(values) if real(t)]


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
    changed: the model does not read that. Nor does it read what it masks (0 times NaN is NaN): there no numbers in the
    whole tensor make the change count, and in double the derivative is zero. What it weighs with little (0.1^200), or in
    this sample alone with nothing (a product that died out), is read: leaving it out is leaving work out."""
    if not equal_bits(outputs, sample.expected):
        return False

    def answer(make):
        return run(sample.model, with_input(sample.values, place, make))

    try:
        if equal_bits(answer(lambda t: poisoned(t, change(t))), sample.expected):
            return True
        tensor = float_inputs(sample.values)[place]
        changed = tensor != change(tensor)
        return not bool(derivative(sample, place)[changed].any()) and all(
            equal_bits(answer(functools.partial(numbers, size=size)),
                       answer(lambda t, size=size: replaced(t, change(t), size))) for size in OTHERS)
    except Exception:
        return False


def derivative(sample, place):
    """Of some mixture of all float outputs, in double, with respect to an input."""
    wanted = float_inputs(sample.values)[place]
    x = wanted.double().requires_grad_()
    values = with_tensors(sample.values, lambda t: x if t is wanted else t.double() if t.is_floating_point() else t)
    model = copy.deepcopy(sample.model).double()
    with torch.enable_grad():
        outputs = leaves(model(**values) if isinstance(values, dict) else model(*values))
        mixture = sum((y * torch.rand_like(y)).sum() for y in outputs if y.is_floating_point())
    return torch.autograd.grad(mixture, x)[0]


def numbers(tensor, size, seed=0):
    """Numbers near `size` in a tensor's place."""
    noise = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (size * (1 + NEAR * noise)).to(tensor)


def replaced(tensor, changed, size):
    """The same, with others where the tensor was changed."""
    if tensor.shape != changed.shape:
        raise ValueError("another shape")
    return torch.where(tensor == changed, numbers(tensor, size), numbers(tensor, size, 1))


def equal_bits(outputs, expected):
    return all(x.shape == y.shape and torch.equal(x, y) for x, y in zip(outputs, expected))


def poisoned(tensor, changed):
    """NaN where a tensor was changed, and everywhere where it got another shape."""
    nan = torch.full_like(tensor, float("nan"))
    return torch.where(tensor == changed, tensor, nan) if tensor.shape == changed.shape else nan
