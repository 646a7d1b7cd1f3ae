"""Planting within the range that was drawn, which may be the domain of the task: in tensors of one sign (probabilities,
variances, all of [0, 1]), in those of a few values (k / 128), which change places, and in others where a model does
not bear outliers. In some lines along each axis the largest element stands in the last place and the others are close
to the lower end of the range, or the smallest and the upper end; a kernel that forgets the rest of an axis so shows
in a maximum as in a sum. Where a model divides by what it measures, one slice is nearly constant, so that what guards
the division shows."""

import torch

from khost.values.structure import few_values, order, some

LINES = 32             # one of so many lines along an axis has its largest element last, as many the smallest, ...
MOST_LINES = 128       # ... and no more of each
CLOSE = 2.0 ** -6      # what is left of the distance of a line's other elements to the end of the range
NEAR = 1 - 2.0 ** -10  # the same for the whole tensor, ...
FAINT = 2.0 ** -10     # ... and where an output is a long sum, in which one element else is lost
ROWS = 4               # slices along an axis of which one may be small, ...
SMALLEST_PART = 2.0 ** -12  # ... by so much: its variance is that of the usual epsilons, or less; ...
SMALL = {torch.float16: 2.0 ** -7}  # ... in a dtype of few exponents by less


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

    def other_end(self, up):
        """What the elements beside a largest (`up`) or smallest one are drawn to: zero in a tensor of both signs."""
        if bool(self.low < 0) and bool(self.high > 0):
            return torch.zeros_like(self.low)
        return self.low if up else self.high

    def arranged(self, lines, up, part, end=None):
        """Lines along the last axis with their largest (`up`) or smallest element in the last place, and the others
        drawn to the other end, or to `end`. Exact zeros and what is not finite stay where they are."""
        held = (lines == 0) | ~torch.isfinite(lines)
        ranked = torch.where(held, self.low if up else self.high, lines.to(self.dtype))
        at = (ranked.argmax(-1) if up else ranked.argmin(-1)).unsqueeze(-1)
        extreme, last = lines.gather(-1, at), lines[..., -1:]
        result = lines.scatter(-1, at, last)
        result = self.drawn_to(self.other_end(up) if end is None else end, result, part)
        result[..., -1:] = extreme
        stays = held.gather(-1, at) | held[..., -1:]
        return torch.where(stays, lines, result)

    def part(self, up, part, guarded):
        """What is left of a distance: all of it where a `guarded` model would divide by a deviation that is small beside the
        mean, which kernels that square in one pass do not bear."""
        end_is_zero = self.from_zero and up == bool(self.high > 0)
        return part if end_is_zero or not guarded else 1.0


def blank_slice(tensor, generator, small):
    """One slice of a tensor along its first axis becomes zero, which what guards a division must bear; neither the last one
    nor the `small` one. Of a small batch it is one along its first axes together."""
    axes, slices = 0, 1
    while slices < 2 * ROWS and axes < tensor.dim() - 1:
        slices, axes = slices * tensor.shape[axes], axes + 1
    if slices < 2 * ROWS:
        return
    inner = slices // tensor.shape[0]  # of one along the first axis
    others = [place for place in (int(x) for x in torch.randint(slices - 1, (8,), generator=generator))
              if place // inner != small or (inner > 1 and not small)]
    if others:
        tensor[torch.unravel_index(torch.tensor(others[0]), tensor.shape[:axes])] = 0


def shrink_slices(tensor, generator):
    """One slice of a tensor along each of its first two axes becomes small, with the outliers in it; the last ones, where
    outliers always are, do not. Returns the place of that along the first axis, 0 where there is none."""
    small = 0
    for axis in range(min(2, tensor.dim()) if tensor.dim() > 1 else 0):
        size = tensor.shape[axis]
        if size >= ROWS:
            place = int(torch.randint(size - 1, (1,), generator=generator))
            tensor.select(axis, place).mul_(SMALL.get(tensor.dtype, SMALLEST_PART))
            small = place if axis == 0 else small
    return small


def drawn_lines(tensor, axis, generator):
    """Places of lines along an axis, in the other axes: some to have their largest elements last, and as many others."""
    lines = tensor.numel() // tensor.shape[axis]
    count = min(max(1, lines // LINES), MOST_LINES)
    return [some(tensor, axis, torch.randint(lines, (count,), generator=generator)) for _ in range(2)]


def contrast(tensor, generator, last=1, guarded=False, long=False):
    """Plants in one dense tensor within its range, in place; returns why not, or "". `last`: the sign of what stands in the last
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
