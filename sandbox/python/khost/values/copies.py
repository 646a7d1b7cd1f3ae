"""Outputs whose elements are elements of the inputs or of the state, as those of a sort, a maximum or a gather: nothing
was computed, so that nothing is rounded, and an answer has the same numbers."""

import torch

from khost.task.manifest import leaves
from khost.task.task_file import state_of

LOOKED_AT = 1 << 14    # elements of an output, spread over it
MOST_READ = 1 << 22    # elements of inputs and state that are searched
FIRST = 64             # of these, before more is looked at
DIFFERENT = 4          # numbers other than 0, of which fewer say nothing: a mask has two
DISTINCT = 0.5         # of what is read; where numbers come again and again (half types, levels), what was computed meets them


def copies(output, sample):
    """Whether all that is looked at of an output stands in inputs or state of its dtype, or is 0."""
    if not output.is_floating_point() or output.numel() == 0:
        return False
    sources = [t for t in [*leaves(sample.values), *state_of(sample.model).values()]
               if isinstance(t, torch.Tensor) and t.dtype == output.dtype and t.numel()]
    if not sources or sum(t.numel() for t in sources) > MOST_READ:
        return False
    flat = output.detach().reshape(-1)
    numbers = flat[::max(1, flat.numel() // LOOKED_AT)]
    numbers = numbers[numbers != 0].unique()
    if numbers.numel() < DIFFERENT:
        return False
    read = torch.cat([t.detach().reshape(-1) for t in sources])
    few = numbers[:FIRST]
    return bool(torch.isin(few, read).all()) and read.unique().numel() >= DISTINCT * read.numel() and \
        bool(torch.isin(numbers, read).all())
