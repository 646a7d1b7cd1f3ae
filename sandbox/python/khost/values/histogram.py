"""Octaves of expected values, and how many elements of each have an error of each size."""

import math
import secrets

import torch

OCTAVES = 256        # rows of a table; the last one stays empty
QUANTILE = 0.999
ENOUGH = 1000        # elements of an octave from which a quantile beyond the median is taken; the maximum where there are fewer
PIECE = 1 << 22      # elements whose octaves are found at once
LOOKED_AT = 1 << 19  # elements of an output whose errors are looked at, at most
RARE = 1 << 10       # an octave with fewer elements among those is looked at as a whole
# Of the output's dtype: bits of the fraction, smallest normal exponent.
FORMATS = {torch.float32: (23, -126), torch.float64: (52, -1022), torch.float16: (10, -14), torch.bfloat16: (7, -126)}
JUMPING = 0.15       # of the elements of an octave, at most, are off by a jump, ...
BETWEEN = 0.1        # ... and so many of those by less than a jump and more than the others
ROOM = 32            # octaves beyond those that were seen, on both sides, for which float64 outputs have rows


class Octaves:
    """Which row of a table an expected value has: its binary exponent less `first`, by `step` exponents a row, within 0 and
    254. Zeros and all that is smaller have row 0. The same as khost::judge::octave (sandbox/judge/values/tolerance.h)."""

    def __init__(self, first=-127, step=1):
        self.first, self.step = first, step
        rows = torch.arange(OCTAVES, dtype=torch.float64)
        self.lower = first + step * rows  # exponent of the smallest number of each row

    @staticmethod
    def of_values(values):
        """Rows for the values of an output: those of float32, or, of float64 beyond them, as many as the values need."""
        sound = values[torch.isfinite(values) & (values != 0)] if values.dtype == torch.float64 else values[:0]
        if not sound.numel():
            return Octaves()
        exponents = exponents_of(sound)
        low, high = int(exponents.min()), int(exponents.max())
        if low >= -126 and high <= 127:
            return Octaves()
        step = -(-(high - low + 1 + 2 * ROOM) // (OCTAVES - 2))
        return Octaves(low - ROOM * step, step)

    def rows(self, values):
        return torch.div(exponents_of(values) - self.first, self.step, rounding_mode="floor").clamp_(0, OCTAVES - 2)

    def scaled(self, base):
        """2^base for the lower edge of each row, as far as float64 goes."""
        return torch.exp2((self.lower + base).clamp(-1074, 1023))

    def ulp(self, dtype):
        """The step of `dtype` at the lower edge of each row, float64."""
        fraction, lowest = FORMATS[dtype]
        return torch.exp2((self.lower.clamp(min=lowest) - fraction).clamp(min=-1074))


def exponents_of(values):
    """The binary exponent of |value|; -1023 of 0 and of what float64 cannot hold normally."""
    return ((values.double().contiguous().view(torch.int64) >> 52) & 0x7FF) - 1023


def generator_on(device):
    """Randomness of the judge's own: a task may have seeded torch's."""
    return torch.Generator(device=device).manual_seed(secrets.randbits(62))


def places(values, most=LOOKED_AT, octaves=None):
    """Indices of the elements that are looked at: all of a small output; of a large one, one at random of each run of
    elements of equal length, and all elements of octaves that are rare."""
    count = values.numel()
    if count <= most:
        return torch.arange(count, device=values.device)
    start = torch.arange(most, device=values.device, dtype=torch.float64)
    chosen = ((start + torch.rand(most, device=values.device, dtype=torch.float64, generator=generator_on(
        values.device))) * (count / most)).long().clamp_(max=count - 1)
    if not values.is_floating_point():
        return chosen
    rows = (octaves or Octaves()).rows
    flat, seen = values.reshape(-1), torch.bincount(rows(values.reshape(-1)[chosen]), minlength=OCTAVES)
    rare = seen <= RARE
    extra = [torch.nonzero(rare[rows(flat[at:at + PIECE])]).reshape(-1) + at for at in range(0, count, PIECE)]
    return torch.cat([chosen, *extra]).unique()


class Histogram:
    """How many elements of each octave have an error of each size, by quarters of an octave. Errors below 2^lowest count
    as none."""

    def __init__(self, lowest=-360, highest=300):
        self.lowest = lowest
        self.bins = 4 * (highest - lowest) + 1
        self.counts = torch.zeros(OCTAVES * self.bins, dtype=torch.int64)
        quarters = torch.arange(self.bins, dtype=torch.int64)
        exponents, quarter = torch.div(quarters, 4, rounding_mode="floor") + lowest, quarters % 4
        self.edges = torch.exp2(exponents.double()) * (1 + quarter.double() / 4)  # upper ones
        self.edges[0] = 0.0

    def add(self, octave, error):
        quarters = (error.double().contiguous().view(torch.int64) >> 50) & 0x1FFF
        binned = (quarters - 4 * (1023 + self.lowest) + 1).clamp_(0, self.bins - 1)
        size = OCTAVES * self.bins
        self.counts += torch.bincount(octave * self.bins + binned, minlength=size).cpu()

    def table(self):
        return self.counts.view(OCTAVES, self.bins)

    def quantiles(self, part=QUANTILE, steps=None):
        """For each octave the error that this part of its elements does not exceed, and the number of elements. `steps`: of
        each octave, one rounding; errors that are jumps by it (without_jumps) are then left out."""
        table = self.table() if steps is None else self.without_jumps(steps)
        sizes = table.sum(1)
        wanted = torch.where(sizes >= (ENOUGH if part > 0.5 else 1), (sizes.double() * part).ceil().long(),
                             sizes).clamp(min=1)
        first = (table.cumsum(1) >= wanted[:, None]).long().argmax(1)
        return torch.where(sizes > 0, self.edges[first], 0.0), sizes

    def without_jumps(self, steps):
        """The table without the errors of elements that were taken across a jump. They are told by a gap: most elements of
        the octave are off by little, at most JUMPING of them by far more, and hardly any by something between."""
        table = self.table()
        (high, sizes), (middle, _) = self.quantiles(), self.quantiles(0.5)
        near, far = 16 * torch.maximum(middle, steps), high / 4
        edges, count = self.edges[None, :], sizes.double()
        top = (table * (edges > far[:, None])).sum(1)
        between = (table * ((edges > near[:, None]) & (edges <= far[:, None]))).sum(1)
        jumps = (sizes >= ENOUGH) & (far > 4 * near) & (top <= JUMPING * count) & (between <= BETWEEN * top)
        return table * ~(jumps[:, None] & (edges > near[:, None]))

    def certainly_beyond(self, bounds):
        """The table without elements whose error may be within the bound of their octave."""
        lower = torch.cat([torch.zeros(1, dtype=torch.float64), self.edges[:-1]])
        return self.table() * (lower[None, :] > bounds[:, None])

    def beyond(self, bounds):
        """Share of all elements whose error certainly exceeds the bound of their octave."""
        total = int(self.counts.sum())
        return float(self.certainly_beyond(bounds).sum()) / total if total else 0.0

    def errors_beyond(self, bounds):
        """Pairs (error, count) of what exceeds the bounds, errors as the upper edges of their bins, ascending."""
        counts = self.certainly_beyond(bounds).sum(0)
        return [(float(self.edges[i]), int(counts[i])) for i in torch.nonzero(counts).reshape(-1).tolist()]


def spread(values):
    """The largest part of the smallest; infinite where that is 0."""
    low, high = min(values), max(values)
    return high / low if low > 0 else math.inf
