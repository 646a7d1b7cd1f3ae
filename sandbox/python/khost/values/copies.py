"""Outputs whose elements are elements of the inputs or of the state, as those of a sort, a maximum or a gather: nothing
was computed, so that nothing is rounded, and an answer has the same numbers. Of others nearly all are, as of a cache with
one new entry."""

import torch

from khost.task.manifest import leaves
from khost.task.task_file import state_of
from khost.values.histogram import places

LOOKED_AT = 1 << 14    # elements of an output, spread over it
MOST_READ = 1 << 22    # elements of inputs and state that are searched
FIRST = 64             # of these, before more is looked at, ...
FIRST_SHARE = 0.75     # ... if so many of them are copies
NEARLY_ALL = 15 / 16   # of an output whose other elements are measured alone, ...
MANY = 1 << 12         # ... if it has so many elements
DIFFERENT = 4          # numbers other than 0, of which fewer say nothing: a mask has two
DISTINCT = 0.5         # of what is read; where numbers come again and again (half types, levels), what was computed meets them


def sources(sample, dtype):
    """Inputs and state of a dtype, flattened; none where they are too many to be searched."""
    tensors = [t for t in [*leaves(sample.values), *state_of(sample.model).values()]
               if isinstance(t, torch.Tensor) and t.dtype == dtype and t.numel()]
    return [t.detach().reshape(-1) for t in tensors] if sum(t.numel() for t in tensors) <= MOST_READ else []


def copied_share(output, sample):
    """Which part of what is looked at of an output stands in inputs or state of its dtype, or is 0; 0 where that says nothing.
    Places are drawn: those at a regular distance may all lie in one column."""
    read = sources(sample, output.dtype) if output.is_floating_point() and output.numel() else []
    if not read:
        return 0.0
    flat = output.detach().reshape(-1)
    numbers = flat[places(flat, LOOKED_AT)]
    numbers = numbers[numbers != 0].unique()
    if numbers.numel() < DIFFERENT:
        return 0.0
    read = torch.cat(read)
    few = torch.isin(numbers[::max(1, numbers.numel() // FIRST)], read)
    if float(few.double().mean()) < FIRST_SHARE or read.unique().numel() < DISTINCT * read.numel():
        return 0.0
    return float(torch.isin(numbers, read).double().mean())


def computed(output, exact, sample):
    """Whether an output of which all that was looked at is copied has elements that were computed, as the last entry of a
    cache: they differ from their values in double. Where double copied another element, as behind a tie, what differs is a
    copy too."""
    apart = output[output.double() != exact.double()]
    apart = apart[torch.isfinite(apart)][:LOOKED_AT]
    return apart.numel() > 0 and not bool(torch.isin(apart, torch.cat(sources(sample, output.dtype))).all())


def without_copies(output, exact):
    """An output in double, NaN where it is what the reference has, as every copy is. Among many copies the errors of the few
    elements that were computed would not show."""
    return torch.where(output.double() == exact.double(), torch.nan, exact.double())


def in_double(measure, copied, expected, exact, sample):
    """What a measure is told of an output in double: of one that is copied but for a few elements, these alone. `copied`: the
    copied_share of all its sets."""
    measure.copies = measure.copies and not computed(expected, exact, sample)
    few = copied >= NEARLY_ALL and not measure.copies and expected.numel() >= MANY
    return without_copies(expected, exact) if few else exact
