"""Jumps that take many elements along. Where one code of a quantised row or the place of one maximum changes, so does a
whole row of the output: elements beyond their bounds come in groups, and what chance brings is a number of groups. So how
large a group is and how often one is met is looked at in runs on inputs that were moved by one rounding and by more, until
some are met."""

import itertools
import math
import time

MOVES = ((1, 3), (8, 3), (64, 3), (512, 2), (4096, 2))  # roundings by which inputs are moved, and in how many runs
ENOUGH = 6       # groups that say how large one is and how often it comes
FILLED = 0.25    # of a line's elements, from which those of one line are one group
MOST = 0.25      # of an output; where jumps move more, they are not told apart, nor may an answer be off there
FEWEST = 4       # elements of a group; what comes by fewer is counted by element
MARGIN = 4       # times as often as inputs that were moved by one rounding does an honest kernel meet a jump
CHANCE = 1e-5    # with which a set has more groups than are granted
LOOKING_S = 3.0


class Groups:
    """What was seen of one output. `size`: elements of the largest group, 1 where they come one by one."""

    def __init__(self):
        self.size, self.met, self.roundings, self.over = 1, 0.0, 0, False

    def add(self, moved, roundings):
        """`moved`: which elements of the output were taken across a jump in a run, of its shape."""
        count = int(moved.sum())
        if count > MOST * moved.numel():
            self.over = True
            return
        self.roundings += roundings
        if count:
            size = size_of(moved)
            self.met += count / size
            self.size = max(self.size, math.ceil(size))

    def known(self):
        return self.over or self.met >= ENOUGH

    def are(self):
        return self.size >= FEWEST and self.met > 0

    def expected(self):
        """In a set, of an honest kernel, at most."""
        return MARGIN * (self.met + 1) / self.roundings if self.roundings else 0.0

    def share(self, elements):
        """Of an output's elements in one set, by as many groups as chance may bring; 0 where that is no small part."""
        share = most_by_chance(self.expected()) * self.size / elements
        return share if self.are() and share <= MOST else 0.0


def size_of(moved):
    """Elements of a group: of the axes whose lines, or planes, are either touched nowhere or filled well, those of the
    largest ones."""
    count, best = int(moved.sum()), 1.0
    for length in range(1, moved.dim() + 1):
        for axes in itertools.combinations(range(moved.dim()), length):
            lines = int(touched(moved, axes).sum())
            if count >= FILLED * lines * math.prod(moved.shape[axis] for axis in axes):
                best = max(best, count / lines)
    return best


def touched(moved, axes):
    for axis in sorted(axes, reverse=True):
        moved = moved.any(axis)
    return moved


def most_by_chance(expected):
    """The number of groups that so many expected ones exceed with CHANCE at most (Poisson)."""
    most, term, below = 0, math.exp(-expected), math.exp(-expected)
    while 1 - below > CHANCE:
        most += 1
        term *= expected / most
        below += term
    return most


def look_at_groups(measures, exact, run):
    """Shows the measures of outputs that jump what their jumps take along. `exact`: the outputs in double, None where there
    are none. `run(roundings)`: the same on inputs moved by so many, None where the model does not bear it."""
    left, begin = [place for place, measure in enumerate(measures) if measure.may_jump()], time.monotonic()
    for roundings, times in MOVES if exact is not None else ():
        for _ in range(times):
            if not left or time.monotonic() - begin > LOOKING_S:
                return
            outputs = run(roundings)
            for place in left if outputs else ():
                measures[place].groups.add(measures[place].across(exact[place], outputs[place], roundings), roundings)
        left = [place for place in left if not measures[place].groups.known()]
