"""What the values of a float tensor keep that a change of single elements would break: an order, a symmetry, one sum or
length of all rows, whole numbers, few different values, bounds that another input holds."""

import math

import torch

SMALLEST = 64          # elements of a tensor that bears outliers
FEW = 16               # a tensor with no more different values is a mask, a level or a label
IN_UNIT, NONE_BELOW, NONE_ABOVE = ONE_SIGN = ("all in [0, 1]", "none below zero", "none above zero")
REPEATED_VALUES = "a few values over and over"
PLACES_IN_ORDER = "places in order"
COLUMNS = 64           # of an axis of no more places all pairs are compared: a box has its corners in order
REPEATED = 16          # times that a value comes on average in a tensor of few values (k / 255)
FEWEST = 64            # elements that tell it
LOOKED_AT = 1 << 16    # elements that tell whether there are few values, ...
MOST_READ = 1 << 22    # ... and whether lines are in an order
ALIKE = 1e-5           # part by which sums of lines differ that are meant to be one
SEVERAL = 8            # lines that are alike in a place by no chance
MANY = 1 << 12         # lines that are looked at for that, at most


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
    if any(sorted_along(tensor, axis) for axis in range(tensor.dim())):
        return "sorted"
    if symmetric(tensor) or symmetric(tensor, -1):
        return "symmetric"
    if tensor.dim() > 1 and (repeats(tensor) or constant_places(tensor)):
        return "places that repeat"
    if any(pairs_in_order(some_lines(tensor, axis, MANY)) for axis in range(tensor.dim()) if tensor.shape[axis] <= COLUMNS):
        return PLACES_IN_ORDER
    if any(of_unit_length(some_lines(tensor, axis, LOOKED_AT)) for axis in range(tensor.dim()) if tensor.dim() > 1):
        return "lines of length one"
    if few_values(tensor):
        return REPEATED_VALUES
    return ""


def elements_apart(tensor):
    """Whether no two elements of a tensor lie in the same place, as those of windows do."""
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def dense(tensor):
    if tensor.is_contiguous():
        return True
    size = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return size == tensor.numel() and 0 not in tensor.stride()


def integral(tensor):
    """Whether a float tensor holds whole numbers only: labels, counts, masks. They are never moved or planted in."""
    flat = tensor.reshape(-1)
    return bool((flat[:4096] == flat[:4096].round()).all()) and bool((flat == flat.round()).all())


def rising(steps):
    """Whether no step goes down; one between two infinities goes nowhere."""
    return not bool((steps < 0).any())


def sorted_along(tensor, axis):
    """Whether all lines along an axis rise, or all of them fall."""
    if tensor.shape[axis] < 3:
        return False
    lines = tensor.movedim(axis, -1)
    first = lines[(0,) * (tensor.dim() - 1)][:LOOKED_AT]  # it tells most of them
    return all(rising(part.diff()) or rising(-part.diff()) for part in (first, lines))


def symmetric(tensor, sign=1):
    """Whether matrices are their own transposes, or with sign = -1 the negatives of these."""
    return tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1 and torch.allclose(
        tensor, sign * tensor.transpose(-1, -2), rtol=1e-5, atol=1e-7)


def of_unit_length(lines):
    """Whether all lines along the last axis sum to one or have a length of one."""
    sums, lengths = lines.sum(-1), lines.square().sum(-1)
    if lines.shape[-1] < 2:
        return False
    return bool(((sums - 1).abs() < 1e-3).all()) or bool(((lengths - 1).abs() < 1e-2).all())


def some(tensor, axis, numbers):
    """Lines along an axis by their numbers in row-major order of the other axes: their places in those axes."""
    others = [n for place, n in enumerate(tensor.shape) if place != axis]
    places = []
    for size in reversed(others):
        places.append((numbers % size).to(tensor.device))
        numbers = torch.div(numbers, size, rounding_mode="floor")
    return tuple(reversed(places))


def some_lines(tensor, axis, most):
    """At most so many lines along an axis, as rows in float32."""
    size = tensor.shape[axis]
    count = min(tensor.numel() // size, most, max(2, MOST_READ // size))
    return tensor.movedim(axis, -1)[some(tensor, axis, torch.arange(count))].reshape(count, size).float()


def pairs_in_order(lines):
    """Whether of two places of a short line one is nowhere larger than the other: corners of a box."""
    count, size = lines.shape
    if not 2 <= size <= COLUMNS < count:
        return False
    return all(bool((part[:, :, None] <= part[:, None, :]).all(0).fill_diagonal_(False).any())
               for part in (lines[:COLUMNS], lines))  # the first lines tell it of most tensors


def repeats(tensor):
    """Whether along an axis the second half is the first again, or each element stands twice: tables of cosines for the
    halves, or the pairs, of a rotation."""
    for axis in range(tensor.dim()):
        half, rest = divmod(tensor.shape[axis], 2)
        if rest or half < 2:
            continue
        lines = tensor.movedim(axis, -1)
        line = lines[(0,) * (tensor.dim() - 1)]
        if torch.equal(line[:half], line[half:]) and torch.equal(lines[..., :half], lines[..., half:]) or \
                torch.equal(line[::2], line[1::2]) and torch.equal(lines[..., ::2], lines[..., 1::2]):
            return True
    return False


def constant_places(tensor):
    """Whether some places, not all, hold one number other than 0 all along the first axis: the last of homogeneous
    coordinates, and of the matrices for them."""
    if tensor.shape[0] < SEVERAL:
        return False
    same = (tensor[0] == tensor[1]) & (tensor[0] != 0)
    if not bool(same.any()) or bool(same.all()):
        return False
    return bool((tensor[:, same] == tensor[0][same]).all(0).any())


def order(tensor):
    """Which order among its elements a tensor has that an exchange would break, in a few words; "" for none."""
    for axis in range(tensor.dim()):
        size = tensor.shape[axis]
        if size < 2:
            continue
        lines = some_lines(tensor, axis, MANY)
        count, sums = lines.shape[0], lines.sum(-1)
        alike = count > 1 and bool(((sums - sums[0]).abs() <= ALIKE * sums[0].abs()).all())
        if alike or of_unit_length(lines):
            return "lines of one sum or length"
        steps = lines.diff(dim=-1)
        if size > 2 and (rising(steps) or rising(-steps)):
            return "sorted"
        if pairs_in_order(lines):
            return PLACES_IN_ORDER
    return "symmetric" if symmetric(tensor) else ""


def related(tensor, others):
    """Whether another tensor, of the same form or one that is broadcast to it or from it, is nowhere smaller, nowhere larger,
    or has a constant sum with it: bounds of an interval, a part and the rest."""
    for other in others:
        if other is tensor or other.dtype != tensor.dtype or not fit(tensor, other):
            continue
        if (ordered(tensor, other) and not far_from(tensor, other)) or constant_sum(tensor, other):
            return True
    return False


def far_from(tensor, other):
    """Whether the other holds whole numbers (time steps, lengths) that are further away than a tensor of other numbers is
    wide: what no bound of it would be."""
    low, high = tensor.aminmax()
    below, above = other.aminmax()
    gap = torch.maximum(below - high, low - above)
    return bool(gap > high - low) and integral(other) and not integral(tensor)


def ordered(one, other):
    """Whether one tensor is nowhere smaller than the other, or nowhere larger."""
    if one.shape == other.shape and one.numel() > LOOKED_AT:  # a part tells most of them
        head, its = one.reshape(-1)[:LOOKED_AT], other.reshape(-1)[:LOOKED_AT]
        if not (bool((head <= its).all()) or bool((head >= its).all())):
            return False
    return bool((one <= other).all()) or bool((one >= other).all())


def constant_sum(one, other):
    if one.shape != other.shape:
        return False
    total = one.reshape(-1)[:LOOKED_AT].float() + other.reshape(-1)[:LOOKED_AT].float()
    return float(total.max() - total.min()) <= ALIKE * float(total.abs().max())


def fit(one, other):
    """Whether the smaller of two tensors can be broadcast to the other."""
    if min(one.numel(), other.numel()) < 2:
        return False
    try:
        return torch.broadcast_shapes(one.shape, other.shape) == max((one, other), key=torch.numel).shape
    except RuntimeError:
        return False


def few_values(tensor):
    """Whether a float32 or float64 tensor repeats a few values (k / 255, tenths, halves): what they are is the task's
    choice. Half types repeat all they have."""
    head = tensor.reshape(-1)[:LOOKED_AT]
    return tensor.dtype in (torch.float32, torch.float64) and head.numel() >= FEWEST and \
        head.unique().numel() * REPEATED <= head.numel()
