"""A task's tolerance: measured once, on sets of its own, apart from those that a verdict is made on.

The answer's form is the judge's (sandbox/judge/values/tolerance.h): for each kind of set and each output tensor the bound, what
speaks against planted sets, and which answers of the bank (bank.py) it refuses."""

import functools
import time

import torch

from khost.values import attributes, bank
from khost.values.copies import copied_share, in_double
from khost.values.forms import TextbookForms
from khost.values.jumps import look_at_groups
from khost.values.oracle import (Coherent, Scattered, Stepped, all_halves, constructed_in_double, rounded, run, run_in_double,
                                 run_moved)
from khost.process.out_of_memory import is_out_of_memory
from khost.values.planted_sample import Unplantable, fresh_seed, planted_from
from khost.values.planting import BOLD, LONG, NOWHERE, USUAL, Reach, plant
from khost.values.repeated_sets import draws_anything, equal_sets, few_values, same_inputs
from khost.values.rule import PLANTED_STEPS, STEPS, Rule
from khost.values.sums import Sums
from khost.values.ties import OtherTies
from khost.task.task_file import fresh
from khost.task.task_inspection import check_outputs, check_value
from khost.values.tolerance import FAR, FloatMeasure, measure_of

LARGE = 1 << 16         # elements of every output from which one planted set says enough
MOST_ELEMENTS = 1 << 20  # of all outputs, up to which a third sample is drawn
SIGNS, MEASURED = 4, 2   # patterns of the signs of outliers; planted sets of small outputs that are measured
WIDE_ELEMENTS = 1 << 18  # of all outputs, up to which inputs are also moved by many roundings
AMBIGUOUS = 0.15        # undecided elements of an integer output, beyond which no answer can be called wrong
WIDE_STEP = 64
COARSE, FINE = 2.0 ** -24, 2.0 ** -53  # roundings of what is computed in float32, in float64
# Kinds that are left out, one after the other, where a model does not bear all of them.
LEFT_OUT = (("extremes",), ("state",), ("extremes", "state"), ("extremes", "zeros", "state"),
            ("extremes", "arranged", "zeros", "state"), ("extremes", "outliers", "zeros", "state"))
TAILS = 0.01            # of the elements are outliers where the errors of a tail are measured
SLOW_S = 5.0            # a run in double that takes longer is done on one set of each kind only


def otherwise(sample, mode):
    """The outputs under a mode that runs operators in another way; None where it has none of them to run."""
    try:
        outputs = run(sample.model, sample.values, mode)
    except Exception:  # an operator was called in a way that the mode does not know
        return None
    return outputs if mode.used and [x.shape for x in outputs] == [x.shape for x in sample.expected] else None


def differing(one, other):
    """Share of the elements of two tensors that differ."""
    return float((one != other).double().mean()) if one.numel() else 0.0


class Calibration:
    """Of one task. `want_planted`: whether planted sets are wanted at all. `settle`: where the device has no room for the
    oracle, do without; else that error is raised."""

    def __init__(self, task, want_planted=True, settle=True):
        self.task, self.settle = task, settle
        self.ties = ""
        self.oracle_error, self.planting = "", "" if want_planted else "not wanted"
        self.verdicts, self.samples, self.exact, self.slow, self.kinds = {}, {}, {}, False, USUAL
        self.narrow = set()  # places of float64 outputs that are computed in float32

    def sample(self, planted=False, number=0):
        seed = fresh_seed()
        model, values = self.task.model(seed, live=True), self.task.inputs(seed + 1)
        attributes.know(model, lambda: constructed_in_double(self.task, seed))
        sample = bank.Sample(model, values, run(model, values))
        check_value(sample.expected)
        return planted_from(sample, self.kinds, number, self.task) if planted else sample

    def draw(self):
        first, second = self.sample(), self.sample()
        drawn = [first, second]
        if first.is_small() or sum(x.numel() for x in first.expected) <= MOST_ELEMENTS:
            drawn.append(self.sample())
        for other in drawn[1:]:
            check_outputs(first.expected, other.expected)
        self.samples["drawn"] = drawn
        if self.planting:
            return
        self.plant()

    def plant(self, kinds=USUAL):
        """Samples with what is planted, or why there are none. Where the model does not bear all kinds, fewer are tried; where
        nothing new can be had, what there was stays. Returns whether there are new samples."""
        error = self.refusal(kinds)
        met = set(error.kinds) if error and "bold" not in kinds else set()
        for left_out in map(set, LEFT_OUT):
            rest = [k for k in kinds if k not in left_out] + ["within"] * ("outliers" in left_out)
            if left_out & met and (met - left_out or "within" in rest) and not self.refusal(tuple(rest)):
                return True
        if error and "planted" not in self.samples:
            self.planting = " ".join(str(error).split())
        return error is None

    def refusal(self, kinds):
        """Takes samples with these kinds planted; where there can be none, all stays and the reason is returned."""
        large = all(x.numel() >= LARGE for x in self.samples["drawn"][0].expected)
        before, self.kinds = self.kinds, kinds
        try:
            # A model must bear all signs that a verdict's sets have in turn; fewer sets are measured.
            self.samples["planted"] = [self.sample(True, number) for number in range(SIGNS)][:1 if large else MEASURED]
            self.planting = ""
            return None
        except Unplantable as error:
            self.kinds = before
            return error

    def add_signs(self, passing):
        """Where answers pass, adds planted samples of small outputs with the signs that were not measured: a product shows its
        largest element only where both factors have one sign. Returns whether there are any."""
        planted = self.samples.get("planted", ())
        if not passing or len(planted) != MEASURED or not planted[0].is_small():
            return False
        try:
            planted += [self.sample(True, number) for number in range(MEASURED, SIGNS)]
        except Unplantable:
            return False
        return True

    def plant_boldly(self, passing):
        """Where it is worth leaving what may be the domain of tensors of one sign, plants outliers in them. Returns whether there
        are new samples."""
        planted = self.samples.get("planted")
        bare = "outliers" not in planted[0].kinds if planted else self.planting.startswith(NOWHERE)
        return bare and bool(passing or self.reduces()) and self.plant(BOLD)

    def measures(self, kind):
        """The errors of each output over the samples of a kind. A float64 output whose own error is that of float32 is
        measured again as one that is computed there."""
        measures = self.measured(kind)
        reduced = [place for place, measure in enumerate(measures) if isinstance(measure, FloatMeasure) and
                   measure.precision() == "reduced"]
        fine = {place for place in reduced if measures[place].computed == torch.float64}
        if fine:
            self.narrow |= fine
            return self.measures(kind)
        self.round_inside(kind, [(place, measures[place]) for place in reduced])
        return measures

    def round_inside(self, kind, measures):
        """Shows measures that look like those of reduced references what roundings between operators do."""
        sample, exact = self.samples[kind][0], self.exact[kind]
        outputs = self.attempt(sample, result_of=rounded) if measures and exact is not None else None
        for place, measure in measures if outputs else ():
            measure.add_inside(sample.expected[place], exact[place], outputs[place])

    def measured(self, kind):
        samples = self.samples[kind][:1 if self.slow else 3 if self.samples[kind][0].is_small() else 2]
        terms = sum(t.numel() for t in bank.float_inputs(samples[0].values))
        measures = [measure_of(x, terms / max(1, x.numel()), place in self.narrow)
                    for place, x in enumerate(samples[0].expected)]
        copied = [min(copied_share(sample.expected[place], sample) for sample in samples) for place in range(len(measures))]
        for measure, share in zip(measures, copied):
            measure.copies = share == 1
        for number, sample in enumerate(samples):
            if number and self.slow:
                break
            exact, moved, wide = self.runs(sample, fresh_seed(), number == 0)
            moved += self.other_ties(sample)
            looks_far = number == 0 and exact is not None and not self.slow
            far = self.moved(sample, lambda u: Scattered(FAR * u, fresh_seed())) if looks_far else None
            told = exact and [in_double(*one, sample) for one in zip(measures, copied, sample.expected, exact)]
            for place, measure in enumerate(measures):
                measure.add(sample.expected[place], told and told[place], [m[place] for m in moved], wide and wide[place])
                if far is not None:
                    measure.add_far(sample.expected[place], told[place], far[place])
            sequential, used = self.sequential(sample)
            self.add_sequential(measures, sample.expected, sequential, told, kind)
            if number == 0:
                self.exact[kind] = exact
                if kind == "planted" and used & TextbookForms.named() and not self.slow:
                    self.measure_tails(measures)
        exact = None if self.slow else self.exact[kind]
        look_at_groups(measures, exact, lambda r: self.moved(samples[0], lambda u: Scattered(r * u, fresh_seed())))
        return measures

    @staticmethod
    def add_sequential(measures, expected, sequential, exact, kind):
        for place, measure in enumerate(measures if sequential else ()):
            if isinstance(measure, FloatMeasure):
                measure.add_sequential(expected[place], sequential[place], exact and exact[place], kind == "planted")

    def measure_tails(self, measures):
        """What textbooks' forms of functions lose far out. A planted set has so few outliers that most octaves of a tail hold none
        of them and many elements from near zero; here one element in a hundred is an outlier."""
        model, values = self.samples["drawn"][0].model, fresh(self.samples["drawn"][0].values)
        if plant(values, fresh_seed(), self.kinds, Reach.of(model, values), TAILS).why:
            return
        try:
            sample = bank.Sample(model, values, run(model, values))
            exact = self.attempt(sample) if not self.oracle_error else None
        except Exception:  # the model does not bear so many
            return
        self.add_sequential(measures, sample.expected, self.sequential(sample)[0], exact, "planted")

    def roundings(self, outputs):
        """For each output the rounding by which inputs are moved; that of float64 where it is computed in it."""
        fine = {place for place, x in enumerate(outputs) if x.dtype == torch.float64} - self.narrow
        floats = {place for place, x in enumerate(outputs) if x.is_floating_point()}
        return [FINE if place in fine or not floats - fine and floats else COARSE for place in range(len(outputs))]

    def moved(self, sample, move):
        """The outputs in double on inputs moved by `move` of a rounding, each from those moved by its own; None where a run
        fails."""
        steps = self.roundings(sample.expected)
        runs = {u: self.attempt(sample, move(u)) for u in set(steps)}
        if any(run is None for run in runs.values()):
            return None
        outputs = [runs[u][place] for place, u in enumerate(steps)]
        whole = [place for place, x in enumerate(sample.expected) if not x.is_floating_point()]
        if whole and all_halves(sample.model, sample.values):  # what float32 holds is decided, however close it is
            decided = self.attempt(sample, result_of=move(COARSE).inexact)
            for place in whole if decided else ():
                outputs[place] = decided[place]
        return outputs

    def runs(self, sample, seed, widely):
        """The outputs in double (None without an oracle), those of the moved runs, and one moved widely."""
        if not self.oracle_error:
            try:
                begin = time.monotonic()
                exact = run_in_double(sample.model, sample.values)
                if exact[0].is_cuda:
                    torch.cuda.synchronize()
                self.slow = self.slow or time.monotonic() - begin > SLOW_S
                if [x.shape for x in exact] != [x.shape for x in sample.expected]:
                    raise ValueError("the outputs have other shapes in double")
                moved = [self.moved(sample, move) for move in (lambda u: Scattered(u, seed), Coherent)]
                jumps = any(not x.is_floating_point() for x in sample.expected) or sum(
                    x.numel() for x in sample.expected) <= WIDE_ELEMENTS
                wide = self.moved(sample, lambda u: Scattered(WIDE_STEP * u, seed + 1)) if widely and jumps else None
                return exact, [outputs for outputs in moved if outputs is not None], wide
            except Exception as error:  # the model does not run in double
                if is_out_of_memory(error) and not self.settle:
                    raise
                self.oracle_error = " ".join(f"{type(error).__name__}: {error}".split())[:250] + \
                    "; errors are those of moved inputs and of rounding, in the reference's own precision"
        moved = []
        for move in (Stepped(seed), Stepped()):
            try:
                moved.append(run_moved(sample.model, sample.values, move))
            except Exception:
                continue
        return None, moved, None

    @staticmethod
    def sequential(sample):
        """The outputs of a plain kernel, None where it has no sum and no function of another form, and the names of those."""
        mode = Sums()
        outputs = otherwise(sample, mode)
        return outputs, mode.used if outputs else set()

    def other_ties(self, sample):
        """The outputs, as a list of one, with another order among equal elements; empty where no operator chooses one. Where it
        decides many elements (tokens that are sorted by their expert), no answer can be called wrong."""
        mode = OtherTies()
        outputs = otherwise(sample, mode)
        for place, (one, other) in enumerate(zip(outputs or (), sample.expected)):
            share = differing(one, other)
            if share > AMBIGUOUS:
                self.ties = (f"the order of equal elements, which {mode.named()} leaves open, decides {share:.0%} of output "
                             f"{place}: no answer can be called wrong. stable=True, or keys that differ, would decide it")
        return [outputs] if outputs else []

    def attempt(self, sample, move=None, result_of=None):
        try:
            moved = run_in_double(sample.model, sample.values, move, result_of)
        except Exception as error:  # outside its domain by one rounding
            if is_out_of_memory(error):
                raise
            return None
        return moved if [x.shape for x in moved] == [x.shape for x in sample.expected] else None

    def judge(self, kind, constant):
        """The rules of a kind, each answer of the bank tried on its first sample."""
        measures = self.measures(kind)
        samples = self.samples[kind]
        steps = PLANTED_STEPS if kind == "planted" else STEPS
        drawn = self.verdicts.get("drawn") if kind == "planted" else None
        # Beside an outlier a sum in float32 loses its small terms, which must not be taken for a half type.
        rules = [Rule(measure, x.numel(), steps, drawn.rules[place] if drawn else None)
                 for place, (measure, x) in enumerate(zip(measures, samples[0].expected))]
        verdicts = bank.Verdicts(rules)
        # Of small outputs chance may let an answer pass on one sample.
        for number, sample in enumerate(samples if samples[0].is_small() else samples[:1]):
            others = [other for other in samples if other is not sample] or self.samples["drawn"]
            verdicts.try_on(sample, others, self.exact[kind] if number == 0 else None, constant)

        @functools.cache
        def honest():
            outputs, _ = self.sequential(samples[0])
            return None if outputs is None else (samples[0], outputs)

        for place in range(len(rules)):
            refused = [name for name in drawn.refused[place] if drawn.refuses(place, name)] if drawn else []
            verdicts.choose(place, refused, honest)
        self.verdicts[kind] = verdicts
        return measures

    def reduces(self):
        """Whether each output is of many elements, so that a few that are left out show only where they are outliers."""
        first = self.samples["drawn"][0]
        read = sum(t.numel() for t in bank.float_inputs(first.values))
        return all(LONG * x.numel() <= read for x in first.expected)

    def ambiguous(self, measures):
        if self.ties:
            return self.ties
        for place, measure in enumerate(measures):
            if not isinstance(measure, FloatMeasure) and not measure.counted.granted() and measure.undecided() > AMBIGUOUS:
                return (f"{measure.differ} of {measure.elements} elements of output {place} change when the inputs are "
                        f"rounded: no answer can be called wrong")
        return ""

    def steady(self):
        """Outputs that are the same whatever is drawn."""
        first, second = self.samples["drawn"][:2]
        return [torch.equal(a, b) for a, b in zip(first.expected, second.expected)]

    def outcome(self, constant):
        """Which kind refuses each answer, and the answers that pass."""
        drawn = self.verdicts["drawn"]
        several, refused_by, passing, idle = len(drawn.rules) > 1, {}, [], set()
        steady = [False] * len(drawn.rules) if constant else self.steady()
        for place in range(len(drawn.rules)):
            names = [name for v in self.verdicts.values() for name in v.refused[place]]
            for name in dict.fromkeys(name for name in names if name != bank.LAST):
                label = f"{name} [output {place}]" if several else name
                places = range(len(drawn.rules)) if name.startswith(bank.WHOLE) else [place]
                kinds = [kind for kind, v in self.verdicts.items() if any(v.refuses(p, name) for p in places)]
                if kinds:
                    refused_by[label] = kinds[0]
                elif steady[place] and not all(steady) or bank.kind_of(name) == "soft" or any(
                        name in v.hidden[place] for v in self.verdicts.values()):
                    idle.add(label)  # the output is the same in every set, or shows neither this nor what a kernel loses
                else:
                    passing.append(label)
        for verdicts in self.verdicts.values():
            idle |= {name for name in verdicts.idle
                     if not any(name in v.refused[p] for v in self.verdicts.values() for p in range(len(drawn.rules)))}
        return refused_by, passing, sorted(idle - {bank.LAST})

    def answer(self):
        self.draw()
        drawn = self.samples["drawn"]
        equal = equal_sets(*drawn[:2])
        few = few_values(self.task, drawn[0], fresh_seed())
        seeded = equal and not few and draws_anything(self.task, fresh_seed())
        constant = few or not seeded and (equal or same_inputs(*drawn[:2]))
        equal = equal or few  # an earlier output may be the right one
        ambiguous = self.ambiguous(self.judge("drawn", equal))
        if "planted" in self.samples:
            ambiguous = ambiguous or self.ambiguous(self.judge("planted", equal))
        refused_by, passing, idle = self.outcome(equal)
        for add in (self.add_signs, self.plant_boldly):
            if add(passing):
                ambiguous = ambiguous or self.ambiguous(self.judge("planted", equal))
                refused_by, passing, idle = self.outcome(equal)
        uninformative = f"an answer that leaves the work out passes: {', '.join(passing[:4])}" if passing else ""
        return {"kinds": {"drawn": self.entries("drawn"), "planted": self.entries("planted")},
                "planting": self.planting, "planted_kinds": list(self.kinds), "constant": constant, "equal_sets": seeded,
                "uninformative": uninformative, "ambiguous": ambiguous, "unobservable": idle, "bank": refused_by,
                "oracle_error": self.oracle_error}

    def entries(self, kind):
        return [rule.entry() for rule in self.verdicts[kind].rules] if kind in self.verdicts else None


def passing(samples):
    """Names of the answers of the bank that pass at the judge's bound, on samples of one task that were drawn elsewhere."""
    calibration = Calibration(None)
    calibration.samples["drawn"] = samples
    equal = equal_sets(*samples[:2])
    calibration.judge("drawn", equal)
    _, names, _ = calibration.outcome(equal)
    alone = tuple(k for k in USUAL if k != "state")  # the model is that of the samples
    for kinds in (alone, tuple(k for k in alone if k != "extremes"), BOLD):
        planted = calibration.samples.get("planted")
        if not names or planted and "outliers" in planted[0].kinds:
            break
        first = samples[0]
        try:
            calibration.samples["planted"] = [
                planted_from(bank.Sample(first.model, fresh(first.values), first.expected), kinds, number)
                for number in range(SIGNS if first.is_small() else 1)]
        except Unplantable:
            continue
        calibration.judge("planted", equal)
        _, names, _ = calibration.outcome(equal)
    return names


def calibrate(task, want_planted=True, settle=True):
    """The judge's JSON for one task. ValueError where the task itself is at fault."""
    return Calibration(task, want_planted, settle).answer()
