"""Planting in tensors of one sign (probabilities, variances, all of [0, 1]), whose range may be the domain of the task: no
element leaves the range that was drawn. In some lines along each axis the largest element stands in the last place and
the others are close to the lower end of the range, or the smallest and the upper end; a kernel that forgets the rest of
an axis so shows in a maximum as in a sum. Where a model divides by what it measures, one slice is nearly constant, so
that what guards the division shows."""

import torch

LINES = 32             # one of so many lines along an axis has its largest element last, as many the smallest, ...
MOST_LINES = 128       # ... and no more of each
CLOSE = 2.0 ** -6      # what is left of the distance of a line's other elements to the end of the range
NEAR = 1 - 2.0 ** -10  # the same for the whole tensor, ...
FAINT = 2.0 ** -10     # ... and where an output is a long sum, in which one element else is lost
COLUMNS = 64           # of an axis of no more places all pairs are compared: a box has its corners in order
REPEATED = 16          # times that a value comes on average in a tensor of few values (k / 255), which are not moved
FEWEST = 64            # elements that tell it
LOOKED_AT = 1 << 16    # elements that tell whether there are few values, ...
MOST_READ = 1 << 22    # ... and whether lines are in an order
ALIKE = 1e-5           # part by which sums of lines differ that are meant to be one
MANY = 1 << 12         # lines that are looked at for that, at most
ROWS = 4               # slices along an axis of which one may be small, ...
SMALLEST_PART = 2.0 ** -12  # ... by so much: its variance is that of the usual epsilons, or less; ...
SMALL = {torch.float16: 2.0 ** -7}  # ... in a dtype of few exponents by less


def some(tensor, axis, numbers):
    """Lines along an axis by their numbers in row-major order of the other axes: their places in those axes."""
    others = [n for place, n in enumerate(tensor.shape) if place != axis]
    places = []
    for size in reversed(others):
        places.append((numbers % size).to(tensor.device))
        numbers = torch.div(numbers, size, rounding_mode="floor")
    return tuple(reversed(places))


def rising(steps):
    """Whether no step goes down; one between two infinities goes nowhere."""
    return not bool((steps < 0).any())


def order(tensor):
    """Which order among its elements a tensor has that an exchange would break, in a few words; "" for none."""
    for axis in range(tensor.dim()):
        size = tensor.shape[axis]
        if size < 2:
            continue
        count = min(tensor.numel() // size, MANY, max(2, MOST_READ // size))
        lines = tensor.movedim(axis, -1)[some(tensor, axis, torch.arange(count))].reshape(count, size).float()
        sums, lengths = lines.sum(-1), lines.square().sum(-1)
        alike = count > 1 and bool(((sums - sums[0]).abs() <= ALIKE * sums[0].abs()).all())
        if alike or bool(((sums - 1).abs() < 1e-3).all()) or bool(((lengths - 1).abs() < 1e-2).all()):
            return "lines of one sum or length"
        steps = lines.diff(dim=-1)
        if size > 2 and (rising(steps) or rising(-steps)):
            return "sorted"
        if size <= COLUMNS < count:
            below = (lines[:, :, None] <= lines[:, None, :]).all(0).fill_diagonal_(False)
            if bool(below.any()):
                return "places in order"
    square = tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1
    return "symmetric" if square and torch.allclose(tensor, tensor.transpose(-1, -2), rtol=1e-5, atol=1e-7) else ""


def related(tensor, others):
    """Whether another tensor, of the same form or one that is broadcast to it or from it, is nowhere smaller, nowhere larger,
    or has a constant sum with it: bounds of an interval, a part and the rest."""
    for other in others:
        if other is tensor or other.dtype != tensor.dtype or not fit(tensor, other):
            continue
        if bool((tensor <= other).all()) or bool((tensor >= other).all()) or constant_sum(tensor, other):
            return True
    return False


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


class Range:
    """Between the smallest and the largest finite element of a tensor; `moves`: whether elements may be moved within it."""

    def __init__(self, tensor):
        self.dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
        sound = tensor if bool(torch.isfinite(tensor).all()) else tensor[torch.isfinite(tensor)]
        self.low, self.high = (x.to(self.dtype) for x in sound.aminmax())
        self.moves = not few_values(tensor)
        # Drawing elements towards an end that is not 0 makes their mean large beside their deviation.
        self.from_zero = bool(self.low >= 0) and bool(self.low <= CLOSE * self.high) or \
            bool(self.high <= 0) and bool(self.high >= CLOSE * self.low)

    def drawn_to(self, end, values, part):
        """Finite values that are not 0, with `part` of their distance to one end."""
        if not self.moves:
            return values
        near = (values.to(self.dtype) - end).mul_(part).add_(end).clamp_(self.low, self.high).to(values.dtype)
        return torch.where((values == 0) | ~torch.isfinite(values), values, near)

    def arranged(self, lines, up, part, end=None):
        """Lines along the last axis with their largest (`up`) or smallest element in the last place, and the others
        drawn to the other end, or to `end`. Exact zeros and what is not finite stay where they are."""
        held = (lines == 0) | ~torch.isfinite(lines)
        ranked = torch.where(held, self.low if up else self.high, lines.to(self.dtype))
        at = (ranked.argmax(-1) if up else ranked.argmin(-1)).unsqueeze(-1)
        extreme, last = lines.gather(-1, at), lines[..., -1:]
        result = lines.scatter(-1, at, last)
        result = self.drawn_to((self.low if up else self.high) if end is None else end, result, part)
        result[..., -1:] = extreme
        stays = held.gather(-1, at) | held[..., -1:]
        return torch.where(stays, lines, result)

    def part(self, up, part, guarded):
        """What is left of a distance: all of it where a `guarded` model would divide by a deviation that is small beside the
        mean, which kernels that square in one pass do not bear."""
        end_is_zero = self.from_zero and up == bool(self.high > 0)
        return part if end_is_zero or not guarded else 1.0


def shrink_slices(tensor, generator):
    """One slice of a tensor along each of its first two axes becomes small, with the outliers in it; the last ones, where
    outliers always are, do not."""
    for axis in range(min(2, tensor.dim()) if tensor.dim() > 1 else 0):
        size = tensor.shape[axis]
        if size >= ROWS:
            tensor.select(axis, int(torch.randint(size - 1, (1,), generator=generator))).mul_(
                SMALL.get(tensor.dtype, SMALLEST_PART))


def drawn_lines(tensor, axis, generator):
    """Places of lines along an axis, in the other axes: some to have their largest elements last, and as many others."""
    lines = tensor.numel() // tensor.shape[axis]
    count = min(max(1, lines // LINES), MOST_LINES)
    return [some(tensor, axis, torch.randint(lines, (count,), generator=generator)) for _ in range(2)]


def contrast(tensor, generator, last=1, guarded=False, long=False):
    """Plants in one dense tensor of one sign, in place; returns why not, or "". `last`: the sign of what stands in the last
    place of all, the largest element or the smallest. `guarded`: the model divides by what it measures. `long`: an output is
    a sum of many of its elements."""
    why = order(tensor)
    if why:
        return why
    within = Range(tensor)
    for axis in range(tensor.dim() if tensor.dim() > 1 else 0):
        if tensor.shape[axis] < 2:
            continue
        lines = tensor.movedim(axis, -1)
        for chosen, up in zip(drawn_lines(tensor, axis, generator), (True, False)):
            lines[chosen] = within.arranged(lines[chosen], up, within.part(up, CLOSE, guarded))
    if guarded and within.from_zero:
        shrink_slices(tensor, generator)
    up, whole = last > 0, tensor.reshape(1, -1)
    if long and within.from_zero:  # sums are then of one size in every set
        whole = within.arranged(whole, up, FAINT, within.low if within.high > 0 else within.high)
    else:
        whole = within.arranged(whole, up, within.part(up, NEAR, guarded))
    tensor.copy_(whole.reshape(tensor.shape))
    return ""
