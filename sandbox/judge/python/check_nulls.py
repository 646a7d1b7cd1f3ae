"""Answers that do no work, tried on a task: what such an answer passes, nobody should be trained or judged on.

Each is made from what a lazy candidate could know: this call's inputs, and inputs and outputs of earlier calls. None
reads what this call should return."""

import copy

import torch

from manifest import leaves
from task_file import call

CLOSE = 1e-2   # the paper's tolerance, the loosest that counts
SAMPLE = 8     # sub-sample: one eighth of the elements is read
FITTED = 1 << 18  # elements by which a line is fitted
LEAST = 16     # an axis shorter than this is not sub-sampled
PART = 1 << 25  # elements that are compared at once: a comparison takes memory of its own


def parts(*tensors):
    """The tensors of one shape piece by piece, so that what is made of them needs little memory."""
    if tensors[0].numel() <= PART:
        yield tensors
        return
    flat = [t.reshape(-1) for t in tensors]
    for at in range(0, flat[0].numel(), PART):
        yield [t[at:at + PART] for t in flat]


def all_close(one, other, rtol, atol):
    """As torch.allclose, and without its temporaries of the tensors' size; the first piece that differs ends it."""
    return all(torch.allclose(a, b, rtol, atol) for a, b in parts(one, other))


def close(answer, expected):
    if answer.shape != expected.shape:
        return False
    if not expected.is_floating_point():
        return torch.equal(answer.to(expected.dtype), expected)
    return all_close(answer.to(expected.dtype), expected, CLOSE, CLOSE)


def passes(answers, outputs):
    return all(close(a, x) for a, x in zip(answers, outputs))


def zeros(outputs):
    return [torch.zeros_like(x) for x in outputs]


def constants(outputs):
    """The middle of an earlier call's values: no other constant comes closer to all of them."""
    return [((x.min() + x.max()) / 2 if x.is_floating_point() else x.reshape(-1)[0]).expand_as(x) if x.numel() else x
            for x in outputs]


def floats(values):
    return [t for t in leaves(values) if t.is_floating_point()]


def fitted(before, output):
    """Slope and offset of the line by which `output` follows `before`, by least squares."""
    step = max(1, before.numel() // FITTED)
    x, y = before.reshape(-1)[::step].double(), output.reshape(-1)[::step].double()
    mean_x, mean_y = x.mean(), y.mean()
    variance = (x - mean_x).square().mean()
    slope = ((x - mean_x) * (y - mean_y)).mean() / variance if variance > 0 else torch.zeros(())
    return float(slope), float(mean_y - slope * mean_x)


def affine(values, outputs, old_values, old_outputs):
    """Passes when one of the inputs times a number plus a number does; both learnt from an earlier call."""
    for now, before in zip(floats(values), floats(old_values)):
        answers = []
        for output, old in zip(outputs, old_outputs):
            if output.shape != now.shape or not output.is_floating_point():
                break
            slope, offset = fitted(before, old)
            answers.append((now * slope).add_(offset))
        if len(answers) == len(outputs) and passes(answers, outputs):
            return True
    return False


def sampled(tensor, axis):
    """The first eighth along an axis, repeated until it fills the axis."""
    size = tensor.shape[axis]
    kept = max(1, size // SAMPLE)
    index = torch.arange(size, device=tensor.device) % kept
    return tensor.index_select(axis, index)


def sub_sample(model, values, outputs):
    """Names of axes of inputs of which an eighth decides the output: repeated, or the first or the last by themselves."""
    found, inputs = [], floats(values)
    for place, tensor in enumerate(inputs):
        for axis in range(tensor.dim()):
            if tensor.shape[axis] < LEAST or any(x.dim() > 0 and x.numel() >= tensor.numel() for x in outputs):
                continue  # where the output is as large as the input, leaving elements out is no saving
            ways = {"": sampled}
            if all(axis >= x.dim() or x.shape[axis] != tensor.shape[axis] for x in outputs):
                ways.update({", first": first_only, ", last": last_only})
            for way, change in ways.items():
                changed = copy.deepcopy(values)
                floats(changed)[place].copy_(change(tensor, axis))
                if passes(leaves(call(model, changed)), outputs):
                    found.append(f"sub_sample(input {place}, axis {axis}{way})")
    return found


def first_only(tensor, axis):
    """The first eighth along an axis, and the mean of that in place of the rest."""
    kept = max(1, tensor.shape[axis] // SAMPLE)
    changed = tensor.clone()
    changed.narrow(axis, kept, tensor.shape[axis] - kept).fill_(tensor.narrow(axis, 0, kept).mean())
    return changed


def last_only(tensor, axis):
    return first_only(tensor.flip(axis), axis).flip(axis)


def truncated(model, values, outputs):
    """Whether elements beyond the first eighth of the last axis change nothing, in a task whose output is as large."""
    inputs = floats(values)
    if len(inputs) != 1 or inputs[0].dim() == 0 or inputs[0].shape[-1] < 64:
        return False
    changed = copy.deepcopy(values)
    target = floats(changed)[0]
    size = target.shape[-1]
    target[..., size // SAMPLE:] = target[..., :size // SAMPLE].mean()
    return passes(leaves(call(model, changed)), outputs)


def null_candidates(model, values, outputs, earlier):
    """Names of the answers without work that pass on every output. `earlier`: pairs (inputs, outputs) of other calls."""
    passing = []
    old_values, old_outputs = earlier[0]
    if passes(zeros(outputs), outputs):
        passing.append("zeros")
    if passes(constants(old_outputs), outputs):
        passing.append("constant")
    if passes(old_outputs, outputs):
        passing.append("previous_output")
    if len(earlier) > 1:
        middle = [(a + b) / 2 if a.is_floating_point() else a for a, b in zip(old_outputs, earlier[1][1])]
        if "previous_output" not in passing and passes(middle, outputs):
            passing.append("mean_of_earlier")
    for value in leaves(values):
        if all(close(value, x) for x in outputs):
            passing.append("pass_through")
            break
    else:
        if affine(values, outputs, old_values, old_outputs):
            passing.append("affine")
    if not {"constant", "zeros", "previous_output", "mean_of_earlier"} & set(passing):
        passing += sub_sample(model, values, outputs)
        if truncated(model, values, outputs):
            passing.append("truncated")
    return passing
