"""The rule of one output, from what was measured of it, and whether an answer keeps to it."""

import math

import torch

from khost.values.histogram import places, spread
from khost.values.jumps import MARGIN, MOST
from khost.values.tolerance import ONE_BIN, ExactMeasure

STEPS = {"full": (64, 32, 16, 8), "reduced": (4, 2)}
# Planted sets say that outliers are not left out. One large term makes a plain float32 accumulator lose small ones, which
# is no fault of a kernel; how close it must come is what drawn sets say.
PLANTED_STEPS = {"full": (4096, 1024, 256, 64, 32, 16, 8), "reduced": (16, 4, 2)}
FEWEST_SHARED = 256  # elements of an output in which single ones may be beyond
TIES = 4             # elements that a share above 0 grants beside itself
PROBED = 1 << 17     # elements by which an answer of the bank is judged
LONG = 32            # of long sums K is no smaller for the sake of outliers and half types: their floor is made for 64
OVER = 1e-3          # of a step, by which an element that is off by whole ones may be off beside them
ALIKE, FEW, MANY = 1.5, 4, 16  # jumps of one size, how many of them say so, and how many say what others are like


def allowed(share, elements):
    """How many of `elements` may lie beyond."""
    return int(math.floor(share * elements))


def workable(share, elements, rare=0.0, groups=None):
    """A share with room for chance where it is above 0 at all and the output is not small. It was counted on a few sets, and
    a verdict looks at dozens: three standard deviations of such a count are added, and a few elements, since a tie is no
    fault. `rare`: the share that jumps make of which none was met; a single one may be. `groups`: what jumps take along,
    where that is many elements."""
    if elements < FEWEST_SHARED:
        return share
    size = groups.size if groups and groups.are() else 1
    few, own = (min(TIES, elements // FEWEST_SHARED), share) if share > 0 else (1, rare)
    found = own + 3 * math.sqrt(own / elements) + (few + 1e-4) / elements if own > 0 else 0.0
    if size == 1:
        return found
    by_group = share + 3 * math.sqrt(share * size / elements) + (few + size + 1e-4) / elements if share > 0 else 0.0
    return max(found, min(by_group, MOST), groups.share(elements) + 1e-4 / elements)


def few_of(share, elements):
    """A share of a small output, with room for chance."""
    return min(1.0, share + 3 * math.sqrt(share / elements) + (2 + 1e-4) / elements)


def cap_of(jumps):
    """How far off an element may be that the share excuses, from pairs (distance, count) of the jumps that were seen: twice
    the largest, four times where they are of different sizes. None, no cap, where too few were seen to tell."""
    seen = sum(count for _, count in jumps)
    if not jumps or seen < FEW:
        return None
    different = spread([size for size, _ in jumps])
    if different <= ALIKE:
        return 2 * max(size for size, _ in jumps)
    return None if seen < MANY else (2 if different <= 4 else 4) * max(size for size, _ in jumps)


def beside_infinity(got, wanted, pole):
    """Where one of both is an infinity and the other of at least this size."""
    return (torch.isinf(got) | torch.isinf(wanted)) & (torch.minimum(got.abs(), wanted.abs()) >= pole)


class Rule:
    """What holds for one output in sets of one kind. `counts` of an answer: its elements beyond the bound at each K."""

    def __init__(self, measure, elements, steps=STEPS, elsewhere=None):
        """`elsewhere`: the rule of this output in sets of another kind."""
        full = elsewhere is not None and elsewhere.precision == "full"
        self.elsewhere, self.measure, self.exact = elsewhere, measure, isinstance(measure, ExactMeasure)
        self.elements = elements  # of the output in one set
        self.precision = "full" if self.exact or full else measure.precision()
        self.steps = steps[self.precision]
        self.k = self.steps[0]
        self.q, self.typical, self.by_element = None, None, False
        self.steep_end = None if self.exact else measure.steep_end()
        if self.exact:
            self.shares, self.caps = [workable(measure.share(), elements, measure.rare_share(), measure.groups)], [cap_of(measure.jumps())]
            if measure.counted.granted():  # some of them may be off by a few steps
                self.shares, self.caps = [few_of(measure.counted.share(), elements)], [measure.counted.granted()]
            self.shares, self.caps = self.shares * len(self.steps), self.caps * len(self.steps)
            return
        granted = measure.counted.granted()
        # What one rounding changes of what counts are whole steps, which are no error of the other elements.
        self.q = measure.rounding() * measure.octaves.scaled(0) if granted else measure.table()
        self.by_element = not granted and measure.by_element()
        if steps is STEPS and self.precision == "full" and elements >= ONE_BIN and not measure.copies:
            self.typical = measure.typical()
        self.shares = [workable(measure.share(self.q, k), elements, measure.rare_share(self.q, k), measure.groups)
                       for k in self.steps]
        self.caps, cap = [], None
        for k, share in zip(self.steps, self.shares):  # what wide bounds say of jumps holds for tighter ones
            found = cap_of(measure.jumps(self.q, k)) if share > 0 and not measure.endless else None
            cap = found if cap is None or found is not None and found < cap else cap
            self.caps.append(cap)
        if granted:  # of what counts as a float, some elements may be off by a few steps, and by what all may
            share = few_of(measure.counted.share(), elements)
            self.shares = [max(share, other) for other in self.shares]
            self.caps = [max(granted * (1 + OVER), cap or 0.0) for cap in self.caps]

    def probe(self, expected):
        """The elements of one expected output by which answers are judged, and their bounds."""
        return Probe(self, expected)

    def rows(self, expected, where=None):
        """Which row of the tables each element has."""
        if self.by_element:
            return torch.arange(expected.numel(), device=expected.device) if where is None else where
        return self.measure.octaves.rows(expected)

    def allowance(self, expected, rows, k, typical=False):
        """How far off elements may be at K, by this rule's rows for them."""
        table = self.typical if typical else self.q
        if not self.exact and self.measure.copies:
            return self.measure.bounds(table, 0).to(rows.device)[rows]
        if self.by_element:
            step = self.measure.octaves.ulp(self.measure.dtype).to(rows.device)[self.measure.octaves.rows(expected)]
            return self.measure.bounds(table, k).to(rows.device)[rows] + self.measure.ulps * step + \
                k * self.measure.relative_part() * expected.double().abs()
        return self.measure.limits(table, k).to(rows.device)[rows]

    def may_have(self, index):
        """Whether a step of K is wide enough for what sums in one accumulator lose."""
        return self.exact or self.precision != "full" or self.steps[index] >= LONG or not self.measure.roundings()

    def jumps(self):
        """How many jumps a set of an honest answer has, on average and at most; None where that is not known. Ties are seen by
        the share of what was measured alone, seldom jumps by inputs moved far; what counts has a rule of its own."""
        groups, share = self.measure.groups, self.measure.seen_across(self.q, self.k)
        return None if groups.over or not groups.roundings or self.measure.counted.granted() else \
            max(groups.expected(), MARGIN * share * self.elements / groups.size)

    def always(self):
        """How many elements the reference leaves undecided in every set, and whether at the ends; `elsewhere` says it of sets
        of another kind, of which more were measured."""
        own = self.measure.always(self.q, self.k)
        return max(own, self.elsewhere.always() if self.elsewhere else (0, False))

    def pole(self, k):
        """The size from which a number may stand for an infinity, and an infinity for it: that at which the relative error would
        be one. None where none may."""
        if self.steep_end is None:
            return None
        size, q, steps = self.steep_end
        pole = max(size, size * size / (k * q + steps))
        return pole if pole < torch.finfo(self.measure.dtype).max else None

    def place(self):
        return self.steps.index(self.k)

    def entry(self):
        """The judge's JSON (sandbox/judge/values/tolerance.h)."""
        share, cap = self.shares[self.place()], self.caps[self.place()]
        always, at_ends = self.always() if share > 0 else (0, False)
        common = {"share": share, "cap": cap if share > 0 else None, "k": self.k, "precision": self.precision,
                  "jumps": self.jumps() if share > 0 else None,
                  "always": always, "at_ends": at_ends}
        if self.exact:
            return {"rule": "exact", **common}
        octaves, copies = self.measure.octaves, self.measure.copies
        return {"rule": "table", **common, "ulps": 0 if copies else self.measure.ulps, "by": "element" if self.by_element else "octave",
                "bounds": self.measure.bounds(self.q, 0 if copies else self.k).tolist(),
                "rtol": 0 if copies else self.k * self.measure.relative_part(),
                "first": octaves.first, "step": octaves.step, "pole": self.pole(self.k),
                "typical": None if self.typical is None else self.measure.bounds(self.typical, self.k).tolist(),
                "typical_share": 1.0 if self.typical is None else self.measure.typical_share()}


def verdict_by(rule, got, expected, k=None):
    """Of whole tensors, as the judge counts: (elements beyond the bound, those beyond the cap or NaN, those beyond the
    second table)."""
    probe = Probe(rule, expected, expected.numel())
    place = rule.place() if k is None else rule.steps.index(k)
    return probe.count(got.to(expected.dtype).reshape(-1), rule.steps[place], rule.caps[place])


class Probe:
    """Judges answers to one expected output as the judge does, by at most `most` of its elements."""

    def __init__(self, rule, expected, most=PROBED):
        self.rule, self.shape = rule, expected.shape
        self.where = places(expected, most, None if rule.exact else rule.measure.octaves)
        self.wanted = expected.reshape(-1)[self.where]
        if not rule.exact:
            self.rows = rule.rows(self.wanted, self.where)
            self.finite = torch.isfinite(self.wanted)
            self.doubled = self.wanted.double()

    def taken(self, output):
        """What an answer says of these elements (a tensor, or a function of flat indices); None where it says nothing;
        NaN everywhere where its shape is another."""
        if callable(output):
            return output(self.where)
        if output.shape != self.shape:
            return self.wanted + 1 if self.rule.exact and self.wanted.dtype != torch.bool else \
                ~self.wanted if self.rule.exact else torch.full_like(self.wanted, float("nan"))
        return output.reshape(-1)[self.where]

    def beyond(self, got, k, typical=False):
        """Which elements lie beyond the bound at K."""
        got = got.to(self.wanted.dtype)
        differ = got != self.wanted
        if self.rule.exact:
            return differ
        bounds = self.rule.allowance(self.wanted, self.rows, k, typical)
        beyond = differ & ~(((got.double() - self.doubled).abs() <= bounds) & self.finite)
        pole = self.rule.pole(k)
        return beyond if pole is None else beyond & ~beside_infinity(got, self.wanted, pole)

    def out(self, got, beyond, cap):
        """How many of the elements beyond their bound are farther off than the cap, or NaN."""
        distance = (got[beyond].double() - self.wanted[beyond].double()).abs()
        return int((distance.isnan() | (distance > (math.inf if cap is None else cap))).sum())

    def count(self, got, k, cap):
        """(elements beyond the bound, those farther off than the cap or NaN, those beyond the second table)."""
        beyond = self.beyond(got, k)
        untypical = 0 if self.rule.typical is None else int((self.beyond(got, k, True) | beyond).sum())
        return int(beyond.sum()), self.out(got, beyond, cap), untypical

    def refuses(self, got, k, place, least=0.0, typically=0.0):
        """Whether the judge refuses these elements at K, which may be another than the place's: by a margin."""
        got, count, rule = got.to(self.wanted.dtype), self.where.numel(), self.rule
        beyond = self.beyond(got, k)
        if int(beyond.sum()) > allowed(rule.shares[place] + least, count) or self.out(got, beyond, rule.caps[place]):
            return True
        return rule.typical is not None and int((self.beyond(got, k, True) | beyond).sum()) > allowed(
            rule.measure.typical_share() + typically, count)

    def refusals(self, answer, least=0.0, margin=1, typically=0.0):
        """For each K of the rule, whether the elements are refused: by a share `least` of them more than need be, at a bound
        `margin` times as wide, by a share `typically` more beyond the second table. What a wide bound refuses, all tighter
        ones do."""
        found = []
        for place, k in enumerate(self.rule.steps):
            if found and (self.rule.exact or found[-1] and self.rule.shares[place] <= self.rule.shares[place - 1]):
                found.append(found[-1])
            else:
                found.append(self.refuses(answer, k * margin, place, least, typically))
        return found

    def moved_share(self, answer, times):
        """Share of the elements that lie farther off than `times` the error of their octave."""
        beyond = self.beyond(answer, times)
        return float((beyond if self.rule.exact else beyond & self.finite).double().mean())

