"""Which elements of a small output share a bound of their own."""

import math

import torch

from khost.values.histogram import OCTAVES

SEPARATE = 64  # an output of at most so many elements, or places along an axis, may have a bound for each of them


def groupings(shape):
    """For each way of giving elements of a small output bounds of their own the group of each element: every one by itself,
    or, where these are too many, those of one place along an axis, such as [x.mean(1), x.var(1)] stacked."""
    count = math.prod(shape)
    if count <= SEPARATE:
        return [torch.arange(count)] if count > 1 else []
    if count >= OCTAVES:
        return []
    return [torch.arange(size).reshape([size if a == axis else 1 for a in range(len(shape))]).expand(shape).reshape(-1)
            for axis, size in enumerate(shape) if 1 < size <= SEPARATE]


def largest_of(values, groups):
    """For each element the largest of its group."""
    most = torch.zeros(int(groups.max()) + 1, dtype=values.dtype)
    return most.scatter_reduce(0, groups, values, "amax")[groups]
