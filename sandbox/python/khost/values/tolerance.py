"""How closely an output is compared: |got - expected| <= ulps * ulp(expected) + K * Q[octave of |expected|].

Q is measured, for each output and kind of set, on sets of that kind: the 99.9 % quantile, by octave of the expected
value, of the largest of three distances from the reference in double: that of the reference itself, and those of the
reference in double on inputs and state moved by one rounding, each element by itself and all together. An element's
bound so comes from its own neighbourhood, never from the largest elements of the output. A second table holds the medians
of the same distances: where elements of one octave are conditioned differently, Q is that of the worst of them, and an
answer that is as far off everywhere is no right one. docs/tolerance.md has the rule with its reasons and its figures."""

import math

import torch

from khost.values.counts import Counted
from khost.values.exact import END, FAR, MOST_SHARE, UNSEEN, ExactMeasure, granted
from khost.values.groups import groupings, largest_of
from khost.values.histogram import OCTAVES, Histogram, Octaves, places, spread
from khost.values.jumps import Groups

FULL = 64            # an octave with fewer elements takes the bound of its nearest fuller one
ONE_BIN = 1024       # an output with fewer elements over all its sets is one octave
RISING = 128         # from this many elements one octave's bound rises with the size of the element
MEASURED = 1 << 21    # elements of an output whose errors are measured, at most: where one in a million is off by more
                      # than its octave, an output of a million elements has to show it
OWN = 64             # a reference this much farther from its double than rounded inputs are is a reduced one
LONG_SUM = 32        # a sum of n terms of one sign in one accumulator may be off by sqrt(n) / 32 roundings times K ...
MOST_TERMS = 1 << 16  # ... and no honest accumulator has more terms
SEQUENTIAL = 1 / 16   # of the error of a plain kernel (sums.py) is an octave's at least, ...
PLANTED_SEQUENTIAL = SEQUENTIAL / 64  # of planted sets, whose K is larger, ...
NEAR = 4              # octaves on both sides from which planted sets take it, ...
RARE_SEQUENTIAL = 1 / 32  # of the largest error of a plain kernel, and of three octaves above, is an octave of drawn sets, ...
ABOVE = 3             # ... since a tail may have one element in a million there, beside many that lie near zero
MOST_LOST = 2.0 ** -14  # ... where that is no larger part of the element and of the mean
WIDE = 64            # roundings by which inputs are moved to see how often a function jumps
ACROSS = 16          # times the error of so many roundings, what lies farther off was taken across a jump
STEADILY = 1 << 20    # elements of an output that are looked at in every set
UNTYPICAL = 0.6      # of the elements that are not zero may be beyond the second table: half are beyond their median
APART = 64           # elements have bounds of their own where their errors differ by more than so many times, ...
STEEP, FLAT = 6, 0.25  # full octaves over which the relative error is seen to grow with the value, and by more than this
STEADY = 64          # ... and most of them are of one size, within so many times, in every set
ULPS = {torch.float32: 2.0, torch.float64: 2.0, torch.float16: 1.0, torch.bfloat16: 1.0}


def taken_together(q, sizes):
    """Octaves with few elements below a full one, taken together from above until they are full: a long tail of small
    values has bounds of its own."""
    q, sizes, run = q.clone(), sizes.clone(), []
    full = torch.nonzero(sizes >= FULL).reshape(-1)
    for octave in range(int(full.max()) if full.numel() else 0, 0, -1):
        run = [*run, octave] if sizes[octave] < FULL else []
        total = sizes[run].sum() if run else 0
        if total >= FULL:
            q[run], sizes[run], run = q[run].max(), total, []
    return q, sizes


def largest_near(errors, below, above):
    """For each octave the largest of its own and of so many octaves below and above it."""
    padded = torch.nn.functional.pad(errors, (below, above))
    return padded.unfold(0, below + above + 1, 1).amax(1)


class FloatMeasure:
    """Errors of one float output over the sets of one kind."""

    def __init__(self, like, terms=1, narrow=False):
        """`like`: the output of one set. `terms`: elements of float inputs for each element of the output. `narrow`: a
        float64 output that the reference computes in float32."""
        self.dtype, self.ulps, self.terms = like.dtype, ULPS.get(like.dtype, 1.0), min(terms, MOST_TERMS)
        self.computed = torch.float64 if like.dtype == torch.float64 and not narrow else torch.float32
        self.octaves = Octaves.of_values(like.reshape(-1))
        self.every, self.own, self.moved = self.histogram(), self.histogram(), self.histogram()
        self.wide = self.long = self.far = None  # of inputs moved by many roundings; of a plain kernel; moved far
        self.rare = False  # whether the largest errors of a plain kernel count, as those at outliers
        self.elements, self.zeros, self.seen, self.sets = 0, 0, 0, 0
        self.groupings = groupings(like.shape)
        self.each = torch.zeros(like.numel(), dtype=torch.float64) if self.groupings else None
        self.sizes = []  # of the same elements, in each set
        self.least = self.rows = None  # of each element the least distance in any set, and its row in the first
        self.copies = False  # whether every element is one of the inputs' or of the state's, as of a sort
        self.endless = False  # a moved run had an infinity where the reference has a number, or the other way round
        self.infinite = False  # the reference has an infinity in double too
        self.counted, self.groups = Counted(like.numel()), Groups()

    def histogram(self):
        return Histogram(-1074, 1023) if self.dtype == torch.float64 else Histogram()

    def add(self, expected, exact, moved, wide=None):
        """`exact` None: no oracle, the distances are from `expected`, and half a step of the reference is its own."""
        self.elements += expected.numel()
        self.counted.add(exact, moved)
        where = places(expected, MEASURED, octaves=self.octaves)

        largest = torch.finfo(self.dtype).max

        def looked_at(values):
            values = values.reshape(-1)[where].double()
            return torch.where(torch.isinf(values), values, values.clamp(-largest, largest))

        ours = looked_at(expected)
        octave = self.octaves.rows(ours)
        double = ours if exact is None else looked_at(exact)
        own = (ours - double).abs()
        if exact is None:
            own = self.octaves.scaled(-1).to(ours.device)[octave] * torch.finfo(self.dtype).eps
        sound = torch.isfinite(ours) & torch.isfinite(double)
        self.infinite = self.infinite or bool((torch.isinf(ours) & torch.isinf(double)).any())
        conditioned = torch.zeros_like(own)
        for other in moved:
            distance = (looked_at(other) - double).abs()
            self.endless = self.endless or bool(torch.isinf(distance).any())
            conditioned = torch.maximum(conditioned, torch.where(torch.isfinite(distance), distance, 0.0))
        far = None if wide is None else (looked_at(wide) - double).abs()
        every = torch.maximum(own, conditioned)
        if self.each is not None:
            self.keep_each(torch.where(sound, every, 0.0))
            self.sizes.append(ours.abs().cpu())
        self.keep_least(expected, double if exact is None else exact, moved)
        if not bool(sound.all()):
            octave, own, conditioned, ours, every = (x[sound] for x in (octave, own, conditioned, ours, every))
            far = None if far is None else far[sound]
        self.every.add(octave, every)
        self.own.add(octave, own)
        self.moved.add(octave, conditioned)
        if every.numel():
            size = ours.abs()
            self.seen, self.zeros = self.seen + size.numel(), self.zeros + int((size == 0).sum())
        if far is not None:
            self.wide = self.wide or self.histogram()
            held = torch.isfinite(far)
            self.endless = self.endless or bool(torch.isinf(far).any())
            self.wide.add(octave[held], far[held])

    def add_far(self, expected, exact, far):
        self.counted.add_far(exact, far)
        where = places(expected, octaves=self.octaves)
        ours, double, other = (x.reshape(-1)[where].double() for x in (expected, exact, far))
        held = torch.isfinite(ours) & torch.isfinite(double) & torch.isfinite(other)
        self.far = self.histogram()
        self.far.add(self.octaves.rows(ours[held]), (other - double)[held].abs())

    def keep_least(self, expected, exact, moved):
        """The least distance in any set of the same elements, of a large output every so manieth."""
        step = max(1, expected.numel() // STEADILY)
        ours, double, *others = (x.reshape(-1)[::step].double() for x in (expected, exact, *moved))
        errors = torch.stack([(x - double).abs() for x in (ours, *others)]).amax(0)
        errors = torch.where(torch.isfinite(errors), errors, 0.0).cpu()
        self.least = errors if self.rows is None else torch.minimum(self.least, errors)
        self.rows = self.octaves.rows(ours).cpu() if self.rows is None else self.rows
        self.sets, self.every_nth = self.sets + 1, step

    def always(self, table, k):
        """How many elements lie beyond their bound in every set, more than chance explains, and whether some of these are
        among the first or last: places that are computed from the shape alone, as those of a resize, are the same in each."""
        if self.sets < 2 or self.by_element():
            return 0, False
        beyond, share = self.least > self.limits(table, k)[self.rows], self.share(table, k)
        count = max(0, int(beyond.sum()) - int(2 * share ** self.sets * self.rows.numel())) * self.every_nth
        return count, count > 0 and bool(beyond[:END].any() or beyond[-END:].any())

    def keep_each(self, errors):
        if self.each is not None and errors.numel() == self.each.numel():
            self.each = torch.maximum(self.each, errors.cpu())

    def add_sequential(self, expected, sequential, exact=None, planted=False):
        """What a plain kernel is off by, a part of it. Elements that are off by far more have been taken across a jump, or are
        of a reduced reference: they say nothing of the others."""
        if self.dtype not in (torch.float32, torch.float64):
            return
        where = places(expected, octaves=self.octaves)
        narrow = expected.reshape(-1)[where]
        double = narrow.double() if exact is None else exact.reshape(-1)[where].double()
        error, size = (sequential.reshape(-1)[where].double() - double).abs() * SEQUENTIAL, double.abs()
        held = torch.isfinite(error) & torch.isfinite(narrow)
        if not bool(held.any()):
            return
        usual = size.clamp(min=float(size[held].mean()))
        error = torch.where(held & (error <= MOST_LOST * usual), error, 0.0)
        self.keep_each(error)
        error, octave = error[held], self.octaves.rows(narrow[held])
        self.long = self.long or self.histogram()
        self.rare = self.rare or planted
        self.long.add(octave, error * (PLANTED_SEQUENTIAL / SEQUENTIAL) if planted else error)

    def add_inside(self, expected, exact, rounded):
        """What roundings of float32 between operators explain, as where large numbers cancel."""
        double, other = exact.reshape(-1).double(), rounded.reshape(-1).double()
        held = torch.isfinite(double) & torch.isfinite(other) & torch.isfinite(expected.reshape(-1))
        self.moved.add(self.octaves.rows(expected.reshape(-1)[held]), (other - double)[held].abs())

    def precision(self):
        """`reduced` where the reference's own error is far larger than what rounded inputs and results explain."""
        if self.copies:
            return "full"
        step = self.computed_ulp()
        (own, sizes), (moved, _) = self.own.quantiles(steps=step), self.moved.quantiles()
        poor = own > OWN * torch.maximum(moved, 0.51 * step)
        poor[0] = False  # exact zeros, as of a relu, tell nothing
        return "reduced" if int(sizes[poor].sum()) * 4 > int(sizes[1:].sum()) > 0 else "full"

    def computed_ulp(self):
        """The step of the dtype in which kernels compute, by octave."""
        return self.octaves.ulp(self.computed)

    def own_bounds(self):
        """Q of each element of a small output that has bounds of its own, alone or with those at its place along an axis:
        their errors are of different sizes, and what one measures is much the same in each set. None where that is not so."""
        best, apart = None, APART
        for groups in self.groupings:
            each = largest_of(self.each, groups)
            if float(each.max()) == 0 or spread(each.tolist()) <= apart:
                continue
            sizes = torch.stack([largest_of(size, groups) for size in self.sizes])
            if float((sizes.amax(0) / sizes.amin(0).clamp(min=5e-324)).nan_to_num(1.0).median()) <= STEADY:
                best, apart = each, spread(each.tolist())
        return best

    def by_element(self):
        return self.own_bounds() is not None

    def roundings(self):
        """What a long sum of terms of one sign is off by, as a part of itself; 0 where that is less than a rounding."""
        roundings = math.sqrt(self.terms) / LONG_SUM
        return roundings * self.rounding() if roundings > 1 else 0.0

    def rounding(self):
        """Of the dtype in which kernels compute, as a part of a value."""
        return 2.0 ** -53 if self.computed == torch.float64 else 2.0 ** -24

    def relative_part(self):
        """Of bounds by element: what any element may be off by, as a part of itself, over K."""
        return max(self.roundings(), self.rounding()) if self.by_element() else 0.0

    def table(self):
        """Q for each octave, and at least what a long sum of terms of one sign is off by; or Q for each element. What is copied is
        off by the one rounding by which it was moved, or is another element."""
        if self.copies:
            return 2 * self.rounding() * self.octaves.scaled(0)
        own = self.own_bounds()
        if own is not None:
            return torch.cat([own, torch.zeros(OCTAVES - own.numel(), dtype=torch.float64)])
        q, sizes = self.quantiles()
        return self.with_long_sums(self.one_octave(q, sizes) if self.elements < ONE_BIN else self.filled(q, sizes))

    def typical(self):
        """The same of the medians; None where there are too few elements to say what is typical."""
        if self.elements < ONE_BIN or self.seen == self.zeros or self.computed == torch.float64:
            return None  # half of the moves by a rounding of float64 are lost in it, so that its medians are of nothing
        return self.with_long_sums(self.filled(*self.quantiles(0.5)))

    def typical_share(self):
        """Share of the elements that may lie beyond the second table."""
        return UNTYPICAL * (1 - self.zeros / self.seen)

    def with_long_sums(self, table):
        return torch.maximum(table, self.roundings() * self.octaves.scaled(0)) if self.roundings() else table

    def quantiles(self, *part):
        q, sizes = self.every.quantiles(*part, steps=self.computed_ulp())
        if self.long is None:
            return q, sizes
        if part:
            return torch.maximum(q, self.long.quantiles(*part)[0]), sizes
        # Outliers and tails are few: one of another set may lie in an octave where none was measured.
        seen = self.long.quantiles(1.0)[0]
        if self.rare:
            return torch.maximum(q, largest_near(seen, NEAR, NEAR)), sizes
        rare = largest_near(seen, 0, ABOVE) * (RARE_SEQUENTIAL / SEQUENTIAL)
        return torch.maximum(q, torch.maximum(self.long.quantiles()[0], rare)), sizes

    def one_octave(self, q, sizes):
        """The largest error of the elements that are no larger, or of the smallest FULL of them: a sum that cancels does not
        gain digits where its result happens to be small. Of few elements it is the largest error of all. Where no element
        was measured, above the largest or between two, it grows with the size from the next smaller one."""
        table = torch.full((OCTAVES,), float(q.max()), dtype=torch.float64)
        seen = torch.nonzero(sizes).reshape(-1)
        if not seen.numel():
            return table
        pooled = torch.nonzero(sizes.cumsum(0) >= FULL)
        first = int(seen[-1])
        if self.elements >= RISING and pooled.numel():
            first = int(pooled.min())
            table = q.cummax(0).values
            table[:first] = table[first]
        rows = torch.arange(OCTAVES)
        below = seen[(torch.searchsorted(seen, rows, right=True) - 1).clamp(min=0)]
        grown = torch.where(rows > seen[-1], q.max(), q[below]) * torch.exp2(((rows - below) * self.octaves.step).clamp(min=0, max=1000).double())
        return torch.where((rows > first) & (sizes == 0), torch.maximum(table, grown), table)

    def filled(self, q, sizes):
        """What was measured in each octave, octaves with few elements by their nearest fuller one."""
        q, sizes = taken_together(q, sizes)
        full = torch.nonzero(sizes >= FULL).reshape(-1)
        if full.numel() == 0:
            return torch.full((OCTAVES,), float(q.max()), dtype=torch.float64)
        if int(full.max()) == 0:
            return self.seldom(q, sizes)
        result = torch.zeros(OCTAVES, dtype=torch.float64)
        growth = 1 + self.growth(q, full)
        above = full[full > 0]  # what is off at exact zeros says nothing of other numbers
        for octave in range(OCTAVES):
            known = above if octave else full
            nearest = int(known[(known - octave).abs().argmin()])
            up = max(0, octave - nearest) * self.octaves.step * growth
            result[octave] = max(min(float(q[nearest]) * 2.0 ** min(up, 1000), 1e300), float(q[octave]))
        # Octaves below the lowest full one hold few elements each: what one of them shows may happen in all, and at zero.
        low = int(above[0])
        pooled = torch.where((sizes[:low] > 0), q[:low], 0.0).max() if low > 1 and int(sizes[1:low].sum()) else 0.0
        result[:low] = result[:low].clamp(min=float(pooled))
        if sizes[0] > 0:  # exact zeros, and what float32 cannot tell from them, take that octave's absolute error
            result[0] = max(float(result[0]), float(q[low]))
        return result

    def growth(self, q, full):
        """By how many octaves the relative error grows with each octave of the value, over the largest full ones, from 0 to 1:
        near the poles of a quotient it does as the value, and larger elements than any that was measured are off by more.
        Q of few elements scatters, so a growth that is well seen counts half as much again."""
        top = full[full > 0][-STEEP:]
        if top.numel() < STEEP or not bool((q[top] > 0).all()):
            return 0.0
        places, errors = (top * self.octaves.step).double(), torch.log2(q[top]) - top * self.octaves.step
        places = places - places.mean()
        slope = float((places * errors).sum() / places.square().sum())
        return min(1.0, 1.5 * slope) if slope > FLAT else 0.0

    def seldom(self, q, sizes):
        """Of an output of zeros with few other elements, as of relu(x @ w - 72): what one of these is off by may any be, and
        larger ones in proportion."""
        seen = torch.nonzero(sizes[1:]).reshape(-1) + 1
        if not seen.numel():
            return torch.full((OCTAVES,), float(q[0]), dtype=torch.float64)
        above = (torch.arange(OCTAVES) - seen[-1]).clamp(min=0) * self.octaves.step
        return torch.maximum(q[seen].max() * torch.exp2(above.clamp(max=1000).double()), q[0]).clamp(max=1e300)

    def bounds(self, table, k):
        """K Q; below sixteen times the smallest normal number, what a flush to zero changes."""
        bounds = k * table
        if self.dtype in (torch.float32, torch.bfloat16) and not self.by_element():
            bounds[:5] = bounds[:5].clamp(min=2.0 ** -122)
        return bounds.clamp(max=1e300)

    def limits(self, table, k):
        """The bounds with the steps of the dtype, by octave."""
        return self.bounds(table, k) + self.ulps * self.octaves.ulp(self.dtype)

    def steep_end(self):
        """Of the largest full octave its size, its Q and what steps of the dtype grant there, where the relative error grows as
        the value, as near the poles of a quotient. None where it does not, or where infinities are decided."""
        if self.elements < ONE_BIN or self.by_element() or self.infinite or self.copies:
            return None
        q, sizes = taken_together(*self.quantiles())
        full = torch.nonzero(sizes >= FULL).reshape(-1)
        if not full.numel() or not self.growth(q, full):
            return None
        top = int(full[-1])
        return tuple(float(table[top]) for table in (self.octaves.scaled(0), q, self.ulps * self.octaves.ulp(self.dtype)))

    def share(self, table, k):
        """Share of elements that may lie beyond the bound: 0 unless moved inputs take elements beyond it by themselves,
        as those of a function that jumps."""
        if self.by_element():
            return 0.0
        bounds = self.limits(table, k)
        share = granted(self.every.beyond(bounds))
        return share if self.wide is None else max(share, min(self.wide.beyond(WIDE * bounds), MOST_SHARE))

    def seen_across(self, table, k):
        """Share of the measured elements that lie beyond the bound."""
        return self.every.beyond(self.limits(table, k))

    def rare_share(self, table, k):
        """The share that jumps of a function make where none of the measured elements met one: so rare are they."""
        if self.by_element() or self.far is None or not self.elements:
            return 0.0
        return min(self.far.beyond(FAR * self.limits(table, k)) / FAR, UNSEEN / self.elements)

    def may_jump(self):
        """Whether any run showed elements that were taken across a jump."""
        if self.by_element() or self.far is None:
            return False
        table = self.table()
        return self.every.beyond(self.limits(table, WIDE)) > 0 or any(
            seen is not None and seen.beyond(self.limits(table, ACROSS * roundings)) > 0
            for seen, roundings in ((self.wide, WIDE), (self.far, FAR)))

    def across(self, exact, other, roundings):
        """Which elements a run on inputs moved by so many roundings took across a jump."""
        table = self.limits(self.table(), max(WIDE, ACROSS * roundings)).to(exact.device)
        limits = table[self.octaves.rows(exact.double())]
        return (other.double() - exact.double()).abs() > limits

    def jumps(self, table, k):
        """Pairs (distance, count) of what was seen beyond the bounds."""
        bounds = self.limits(table, k)
        seen = ((self.every, 1), (self.wide, WIDE)) if self.share(table, k) > 0 else ((self.far, FAR),)
        return [pair for histogram, times in seen if histogram is not None for pair in histogram.errors_beyond(times * bounds)]


def measure_of(expected, terms=1, narrow=False):
    return FloatMeasure(expected, terms, narrow) if expected.is_floating_point() else ExactMeasure(expected.numel())
