"""How closely an output is compared: |got - expected| <= ulps * ulp(expected) + K * Q[octave of |expected|].

Q is measured, for each output and kind of set, on sets of that kind: the 99.9 % quantile, by octave of the expected
value, of the largest of three distances from the reference in double: that of the reference itself, and those of the
reference in double on inputs and state moved by one rounding, each element by itself and all together. An element's
bound so comes from its own neighbourhood, never from the largest elements of the output. docs/tolerance.md has the
rule with its reasons and its figures."""

import math
import secrets

import torch

OCTAVES = 256        # the biased exponent of a float32
QUANTILE = 0.999
ENOUGH = 1000        # elements of an octave from which the quantile is taken; the maximum where there are fewer
FULL = 64            # an octave with fewer elements takes the bound of its nearest fuller one
ONE_BIN = 1024       # an output with fewer elements over all its sets is one octave
RELATIVE = 128       # from this many elements one octave is bounded by its relative error as well
OWN = 64             # a reference this much farther from its double than rounded inputs are is a reduced one
STEPS = {"full": (64, 32, 16, 8), "reduced": (4, 2)}
# Planted sets say that outliers are not left out. One large term makes a plain float32 accumulator lose small ones, which
# is no fault of a kernel; how close it must come is what drawn sets say.
PLANTED_STEPS = {"full": (4096, 1024, 256, 64, 32, 16, 8), "reduced": (16, 4, 2)}
LONG_SUM = 32        # a sum of n terms of one sign in one accumulator may be off by sqrt(n) / 32 roundings times K ...
MOST_TERMS = 1 << 16  # ... and no honest accumulator has more terms
FEWEST_SHARED = 256  # elements of an output in which single ones may be beyond
TIES = 4             # elements that a share above 0 grants beside itself
SHARE = 4            # times the share of elements that the measured runs leave beyond the bound
MOST_SHARE = 0.02
WIDE = 64            # roundings by which inputs are moved to see how often a function jumps
PIECE = 1 << 22      # elements whose octaves are found at once
LOOKED_AT = 1 << 19  # elements of an output whose errors are looked at, at most
PROBED = 1 << 17     # elements by which an answer of the bank is judged
RARE = 1 << 10       # an octave with fewer elements among those is looked at as a whole
ULPS = {torch.float32: 2.0, torch.float64: 2.0, torch.float16: 1.0, torch.bfloat16: 1.0}
# Of the output's dtype: bits of the fraction, smallest normal exponent.
FORMATS = {torch.float32: (23, -126), torch.float64: (52, -1022), torch.float16: (10, -14), torch.bfloat16: (7, -126)}
LOWEST, HIGHEST = -360, 300  # powers of two between which an error is binned, by quarters of an octave
BINS = 4 * (HIGHEST - LOWEST) + 1


def places(values, most=LOOKED_AT):
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
    flat, seen = values.reshape(-1), torch.bincount(octaves(values.reshape(-1)[chosen]), minlength=OCTAVES)
    rare = seen <= RARE
    extra = [torch.nonzero(rare[octaves(flat[at:at + PIECE])]).reshape(-1) + at for at in range(0, count, PIECE)]
    return torch.cat([chosen, *extra]).unique()


def generator_on(device):
    """Randomness of the judge's own: a task may have seeded torch's."""
    return torch.Generator(device=device).manual_seed(secrets.randbits(62))


def octaves(values):
    """The biased exponent of |value| in float32, 0 to 254."""
    bits = values.float().contiguous().view(torch.int32)
    return ((bits >> 23) & 0xFF).clamp_(max=254).long()


def error_bins(error):
    """Which quarter of an octave an error lies in; 0 holds everything below 2^LOWEST."""
    quarters = (error.double().contiguous().view(torch.int64) >> 50) & 0x1FFF
    return (quarters - 4 * (1023 + LOWEST) + 1).clamp_(0, BINS - 1)


def upper_edges():
    quarters = (torch.arange(BINS, dtype=torch.int64) + 4 * (1023 + LOWEST)) << 50
    edges = quarters.view(torch.float64).clone()
    edges[0] = 0.0
    return edges


EDGES = upper_edges()


def ulp_of_octaves(dtype):
    """The step of `dtype` in each octave, float64."""
    fraction, lowest = FORMATS[dtype]
    exponents = (torch.arange(OCTAVES).clamp(min=1, max=254) - 127).clamp(min=lowest).double()
    return torch.exp2(exponents - fraction)


class Histogram:
    """How many elements of each octave have an error of each size."""

    def __init__(self):
        self.counts = torch.zeros(OCTAVES * BINS, dtype=torch.int64)

    def add(self, octave, error):
        index = octave * BINS + error_bins(error)
        self.counts += torch.bincount(index, minlength=OCTAVES * BINS).cpu()

    def table(self):
        return self.counts.view(OCTAVES, BINS)

    def quantiles(self):
        """For each octave the error that 99.9 % of its elements do not exceed, and the number of elements."""
        table = self.table()
        sizes = table.sum(1)
        wanted = torch.where(sizes >= ENOUGH, (sizes.double() * QUANTILE).ceil().long(), sizes).clamp(min=1)
        first = (table.cumsum(1) >= wanted[:, None]).long().argmax(1)
        return torch.where(sizes > 0, EDGES[first], 0.0), sizes

    def beyond(self, bounds):
        """Share of all elements whose error certainly exceeds the bound of their octave."""
        lower = torch.cat([torch.zeros(1, dtype=torch.float64), EDGES[:-1]])
        table = self.table()
        total = int(table.sum())
        return float((table * (lower[None, :] > bounds[:, None])).sum()) / total if total else 0.0


class FloatMeasure:
    """Errors of one float output over the sets of one kind."""

    def __init__(self, dtype, terms=1):
        """`terms`: elements of float inputs for each element of the output."""
        self.dtype, self.ulps, self.terms = dtype, ULPS.get(dtype, 1.0), min(terms, MOST_TERMS)
        self.every, self.own, self.moved, self.wide = Histogram(), Histogram(), Histogram(), None
        self.elements, self.relative, self.floor = 0, 0.0, 0.0

    def add(self, expected, exact, moved, wide=None):
        """`exact` None: no oracle, the distances are from `expected`, and half a step of the reference is its own."""
        self.elements += expected.numel()
        where = places(expected)

        def seen(values):
            return values.reshape(-1)[where].double()

        narrow = expected.reshape(-1)[where]
        octave, ours = octaves(narrow), narrow.double()
        double = ours if exact is None else seen(exact)
        own = (ours - double).abs()
        if exact is None:
            own = torch.exp2(octave.double() - 128) * torch.finfo(self.dtype).eps
        sound = torch.isfinite(ours) & torch.isfinite(double)
        conditioned = torch.zeros_like(own)
        for other in moved:
            distance = (seen(other) - double).abs()
            conditioned = torch.maximum(conditioned, torch.where(torch.isfinite(distance), distance, 0.0))
        far = None if wide is None else (seen(wide) - double).abs()
        if not bool(sound.all()):
            octave, own, conditioned, ours = octave[sound], own[sound], conditioned[sound], ours[sound]
            far = None if far is None else far[sound]
        every = torch.maximum(own, conditioned)
        self.every.add(octave, every)
        self.own.add(octave, own)
        self.moved.add(octave, conditioned)
        if every.numel():
            size = ours.abs()
            self.relative = max(self.relative, float(torch.where(size > 0, every / size, float("inf")).max()))
        if far is not None:
            self.wide = self.wide or Histogram()
            held = torch.isfinite(far)
            self.wide.add(octave[held], far[held])

    def precision(self):
        """`reduced` where the reference's own error is far larger than what rounded inputs explain."""
        (own, sizes), (moved, _) = self.own.quantiles(), self.moved.quantiles()
        step = 0.51 * ulp_of_octaves(torch.float32 if self.dtype != torch.float64 else self.dtype)
        poor = own > OWN * torch.maximum(moved, step)
        poor[0] = False  # exact zeros, as of a relu, tell nothing
        return "reduced" if int(sizes[poor].sum()) * 4 > int(sizes[1:].sum()) > 0 else "full"

    def table(self):
        """Q for each octave, and at least what a long sum of terms of one sign is off by."""
        table = self.measured()
        roundings = math.sqrt(self.terms) / LONG_SUM
        if roundings > 1 and self.dtype != torch.float64:
            table = torch.maximum(table, roundings * torch.exp2(torch.arange(OCTAVES).double() - 127 - 24))
        return table

    def measured(self):
        q, sizes = self.every.quantiles()
        if self.elements < ONE_BIN:
            table = torch.full((OCTAVES,), float(q.max()), dtype=torch.float64)
            if self.elements >= RELATIVE and math.isfinite(self.relative):
                table = torch.minimum(table, self.relative * torch.exp2(torch.arange(OCTAVES).double() - 126))
            return table
        full = torch.nonzero(sizes >= FULL).reshape(-1)
        if full.numel() == 0:
            return torch.full((OCTAVES,), float(q.max()), dtype=torch.float64)
        result = torch.zeros(OCTAVES, dtype=torch.float64)
        for octave in range(OCTAVES):
            nearest = int(full[(full - octave).abs().argmin()])
            if nearest >= octave:
                result[octave] = max(float(q[nearest]), float(q[octave]))
            else:
                result[octave] = max(math.ldexp(float(q[nearest]), octave - nearest), float(q[octave]))
        # Exact zeros, and what float32 cannot tell from them, take the lowest full octave's absolute error.
        above = full[full > 0]
        if above.numel() and above[0] > 0 and sizes[0] > 0:
            result[0] = max(float(result[0]), float(q[int(above[0])]))
        return result

    def bounds(self, table, k):
        """K Q; below sixteen times the smallest normal number, what a flush to zero changes."""
        bounds = k * table
        if self.dtype in (torch.float32, torch.bfloat16):
            bounds[:5] = bounds[:5].clamp(min=2.0 ** -122)
        return bounds.clamp(max=1e300)

    def share(self, table, k):
        """Share of elements that may lie beyond the bound: 0 unless moved inputs take elements beyond it by themselves,
        as those of a function that jumps."""
        bounds = self.bounds(table, k) + self.ulps * ulp_of_octaves(self.dtype)
        share = SHARE * self.every.beyond(bounds)
        if self.wide is not None:
            share = max(share, self.wide.beyond(WIDE * bounds))
        return min(share, MOST_SHARE)


class ExactMeasure:
    """Elements of an integer or boolean output that the reference itself leaves undecided."""

    def __init__(self):
        self.elements, self.differ, self.differ_wide = 0, 0, 0

    def add(self, expected, exact, moved, wide=None):
        self.elements += expected.numel()
        runs = ([] if exact is None else [exact]) + list(moved)
        undecided = torch.zeros(expected.shape, dtype=torch.bool, device=expected.device)
        for other in runs:
            undecided |= other.to(expected.dtype) != expected
        self.differ += int(undecided.sum())
        if wide is not None:
            self.differ_wide += int((wide.to(expected.dtype) != expected).sum())

    def undecided(self):
        return self.differ / self.elements if self.elements else 0.0

    def share(self):
        if not self.elements:
            return 0.0
        return min(max(SHARE * self.differ, self.differ_wide) / self.elements, MOST_SHARE)


def measure_of(expected, terms=1):
    return FloatMeasure(expected.dtype, terms) if expected.is_floating_point() else ExactMeasure()


def allowed(share, elements):
    """How many of `elements` may lie beyond."""
    return int(math.floor(share * elements))


def workable(share, elements):
    """A share with room for chance where it is above 0 at all and the output is not small. It was counted on a few sets, and
    a verdict looks at dozens: three standard deviations of such a count are added, and a few elements, since a tie is no
    fault."""
    if share <= 0 or elements < FEWEST_SHARED:
        return share
    few = min(TIES, elements // FEWEST_SHARED)
    return share + 3 * math.sqrt(share / elements) + (few + 1e-4) / elements


class Rule:
    """What holds for one output in sets of one kind. `counts` of an answer: its elements beyond the bound at each K."""

    def __init__(self, measure, elements, steps=STEPS):
        self.measure, self.exact = measure, isinstance(measure, ExactMeasure)
        self.elements = elements  # of the output in one set
        self.precision = "full" if self.exact else measure.precision()
        self.steps = steps[self.precision]
        self.q = None if self.exact else measure.table()
        self.shares = [workable(measure.share() if self.exact else measure.share(self.q, k), elements)
                       for k in self.steps]
        self.k = self.steps[0]

    def probe(self, expected):
        """The elements of one expected output by which answers are judged, and their bounds."""
        return Probe(self, expected)

    def bounds_of(self, k):
        return self.measure.bounds(self.q, k) + self.measure.ulps * ulp_of_octaves(self.measure.dtype)

    def entry(self):
        """The judge's JSON (sandbox/judge/tolerance.h)."""
        if self.exact:
            return {"rule": "exact", "ulps": 0.0, "share": self.shares[0], "k": self.k, "precision": "full",
                    "bounds": [0.0] * OCTAVES}
        place = self.steps.index(self.k)
        return {"rule": "table", "ulps": self.measure.ulps, "share": self.shares[place], "k": self.k,
                "precision": self.precision, "bounds": self.measure.bounds(self.q, self.k).tolist()}


class Probe:
    """Judges answers to one expected output as the judge does, by at most PROBED of its elements."""

    def __init__(self, rule, expected):
        self.rule, self.shape = rule, expected.shape
        self.where = places(expected, PROBED)
        self.wanted = expected.reshape(-1)[self.where]
        if not rule.exact:
            self.octave = octaves(self.wanted)
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

    def beyond(self, got, k):
        """Which elements lie beyond the bound at K."""
        got = got.to(self.wanted.dtype)
        differ = got != self.wanted
        if self.rule.exact:
            return differ
        bounds = self.rule.bounds_of(k).to(got.device)[self.octave]
        return differ & ~(((got.double() - self.doubled).abs() <= bounds) & self.finite)

    def refusals(self, answer):
        """For each K of the rule, whether the elements are refused. What the widest bound refuses, all others do."""
        steps, count = self.rule.steps, self.where.numel()
        found = []
        for k, share in zip(steps, self.rule.shares):
            if self.rule.exact and found or any(found) and share <= self.rule.shares[len(found) - 1]:
                found.append(found[-1])
            else:
                found.append(int(self.beyond(answer, k).sum()) > allowed(share, count))
        return found

    def moved_share(self, answer, times):
        """Share of the elements that lie farther off than `times` the error of their octave."""
        beyond = self.beyond(answer, times)
        return float((beyond if self.rule.exact else beyond & self.finite).double().mean())
