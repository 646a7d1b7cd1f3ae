"""How closely an output of integers or booleans is compared: exactly, but for the share of its elements that the reference
leaves undecided (a threshold, ties); and what share follows from what was measured, of any output."""

import torch

from khost.values.counts import Counted
from khost.values.jumps import Groups

SHARE = 4            # times the share of elements that the measured runs leave beyond the bound
MOST_SHARE = 0.02     # by that factor and by wide moves; ...
MORE, MOST = 1.25, 0.2  # ... of a share that is counted well, so much of it and MORE_ROOM, and at most so many
MORE_ROOM = 0.005
SCARCE = 0.005      # more than this share of integers changed by many roundings says nothing of single ties
FAR = 4096           # roundings by which they are moved to see whether it jumps at all, ...
END = 16             # first or last elements of an output (repeated.h)
UNSEEN = 3           # ... where no measured element did: this many of all that were measured may be expected to, at most


def granted(measured):
    """The share of elements that may lie beyond, from that which the measured runs leave there."""
    return min(max(min(SHARE * measured, MOST_SHARE), MORE * measured + MORE_ROOM if measured > MORE_ROOM else 0.0), MOST)


class ExactMeasure:
    """Elements of an integer or boolean output that the reference itself leaves undecided."""

    def __init__(self, elements):
        self.elements, self.differ, self.differ_wide, self.differ_far, self.distances = 0, 0, 0, 0.0, {}
        self.counted, self.groups = Counted(elements), Groups()
        self.ever, self.sets = None, 0  # undecided in every set

    def add(self, expected, exact, moved, wide=None):
        self.elements += expected.numel()
        self.counted.add(exact, moved)
        runs = ([] if exact is None else [exact]) + list(moved)
        undecided = torch.zeros(expected.shape, dtype=torch.bool, device=expected.device)
        for other in runs:
            undecided |= self.differing(other, expected)
        self.differ += int(undecided.sum())
        self.ever, self.sets = undecided if self.ever is None else self.ever & undecided, self.sets + 1
        if wide is not None:
            self.differ_wide += int(self.differing(wide, expected).sum())

    def add_far(self, expected, exact, far):
        self.counted.add_far(exact, far)
        self.differ_far = float((far.to(expected.dtype) != expected).double().mean()) if expected.numel() else 0.0

    def always(self, _table, _k):
        """How many elements are undecided in every set, more than chance explains, and whether some of these are among the
        first or last."""
        if self.sets < 2:
            return 0, False
        count = max(0, int(self.ever.sum()) - int(2 * self.undecided() ** self.sets * self.ever.numel()))
        flat = self.ever.reshape(-1)
        return count, count > 0 and bool(flat[:END].any() or flat[-END:].any())

    def may_jump(self):
        return self.differ > 0 or self.differ_wide > 0 or self.differ_far > 0

    @staticmethod
    def across(exact, other, roundings):
        return other != exact

    def rare_share(self):
        return min(self.differ_far / FAR, UNSEEN / self.elements) if self.elements else 0.0

    def differing(self, other, expected):
        """Where another run decides otherwise; the distances are kept."""
        differ = other.to(expected.dtype) != expected
        if not expected.is_complex():
            sizes, counts = (other[differ].double() - expected[differ].double()).abs().unique(return_counts=True)
            for size, count in zip(sizes.tolist(), counts.tolist()):
                self.distances[size] = self.distances.get(size, 0) + count
        return differ

    def jumps(self):
        return sorted(self.distances.items())

    def seen_across(self, _table, _k):
        return self.undecided()

    def undecided(self):
        return self.differ / self.elements if self.elements else 0.0

    def share(self):
        if not self.elements:
            return 0.0
        wide, near = self.differ_wide / self.elements, granted(self.undecided())
        # Where many roundings change more than any share grants, as in a sort, they say nothing of single ties.
        return near if wide > SCARCE else max(near, min(wide, MOST_SHARE))
