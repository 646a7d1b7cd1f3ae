"""Jumps that take many elements along. Where one code of a quantised row or the place of one maximum changes, so does a
whole row of the output: elements beyond their bounds come in groups, and what chance brings is a number of groups. So how
large a group is and how often one is met is looked at in runs on inputs that were moved by one rounding and by more, until
some are met."""

import itertools
import math
import time

MOVES = ((1, 3), (8, 3), (64, 3), (512, 2), (4096, 2))  # roundings by which inputs are moved, and in how many runs
ENOUGH = 6       # groups that say how large one is and how often it comes
ENOUGH_SINGLES = 24  # elements that say that they come one by one
FILLED = 1 / 16  # of a line's elements, and at least FEWEST of them, from which they are one group
MOST = 0.25      # of an output; where jumps move more, they are not told apart, nor may an answer be off there
FEWEST = 4
MARGIN = 4       # times as often as inputs that were moved by one rounding does an honest kernel meet a jump
CHANCE = 1e-5    # with which a set has more groups than are granted
MANY, DEVIATIONS = 100.0, 5.0
LOOKING_S = 3.0


class Groups:
    """What was seen of one output. `size`: elements of the largest group, 1 where they come one by one; `met` and `singles`: how
    many groups and single elements there were in runs of so many `roundings` in all."""

    def __init__(self):
        self.size, self.met, self.singles, self.roundings, self.over = 1, 0, 0, 0, False

    def add(self, moved, roundings):
        """`moved`: which elements of the output were taken across a jump in a run, of its shape."""
        count = int(moved.sum())
        if count > MOST * moved.numel():
            self.over = True
            return
        groups, elements = groups_in(moved) if count else (0, 0)
        self.roundings, self.met, self.singles = self.roundings + roundings, self.met + groups, self.singles + count - elements
        if groups:
            self.size = max(self.size, math.ceil(elements / groups))

    def known(self):
        return self.over or self.met >= ENOUGH or self.met == 0 and self.singles >= ENOUGH_SINGLES

    def are(self):
        return self.met > 0

    def expected(self):
        """Jumps in a set, of an honest kernel, at most."""
        return MARGIN * (self.met + self.singles + 1) / self.roundings if self.roundings else 0.0

    def share(self, elements):
        """Of an output's elements in one set, by as many groups as chance may bring; 0 where that is no small part."""
        if not self.are():
            return 0.0
        share = most_by_chance(MARGIN * self.met / self.roundings) * self.size / elements
        return share if share <= MOST else 0.0


def groups_in(moved):
    """(groups, elements in them): lines or planes along some of the axes of which a good part was moved, along those axes by
    which most of the moved elements fill most of such lines."""
    best, found = 0.0, (0, 0)
    for length in range(1, moved.dim()):
        for axes in itertools.combinations(range(moved.dim()), length):
            in_line, size = moved.sum(axes), math.prod(moved.shape[axis] for axis in axes)
            whole = in_line >= max(FEWEST, FILLED * size)
            groups, elements = int(whole.sum()), int(in_line[whole].sum())
            if groups and elements * elements / (groups * size) >= best:
                best, found = elements * elements / (groups * size), (groups, elements)
    return found


def most_by_chance(expected):
    """The number of groups that so many expected ones exceed with CHANCE at most (Poisson)."""
    if expected > MANY:  # nearly normal, and exp would be lost
        return math.ceil(expected + DEVIATIONS * math.sqrt(expected))
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
