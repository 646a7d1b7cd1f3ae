"""A task's tolerance: measured once, on sets of its own, apart from those that a verdict is made on.

The answer's form is the judge's (sandbox/judge/tolerance.h): for each kind of set and each output tensor the bound, what
speaks against planted sets, and which answers of the bank (bank.py) it refuses."""

import random
import secrets

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import bank
from manifest import leaves
from oracle import Coherent, Scattered, Stepped, run, run_in_double, run_moved
from planting import plant, reason_against
from room import wants_room
from task_file import seed_all
from tolerance import FloatMeasure, Rule, measure_of

LARGE = 1 << 16         # elements of every output from which one planted set says enough
MOST_ELEMENTS = 1 << 20  # of all outputs, up to which a third sample is drawn
WIDE_ELEMENTS = 1 << 18  # of all outputs, up to which inputs are also moved by many roundings
AMBIGUOUS = 0.01        # undecided elements of an integer output, beyond which no answer can be called wrong
WIDE_STEP = 64


def fresh_seed():
    return secrets.randbits(62)


def name_nan(outputs, kind=""):
    """NaN in what a reference returns: no answer equals it. ValueError with the output and the number of elements."""
    for place, value in enumerate(outputs):
        if value.is_floating_point():
            count = int(torch.isnan(value).sum())
            if count:
                raise ValueError(f"the reference returns NaN in {count} of {value.numel()} elements of output {place}"
                                 f"{kind}: no answer can equal it")


class Drawing(TorchDispatchMode):
    """Notices operators that draw from a generator."""

    drew = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.drew = True
        return func(*args, **(kwargs or {}))


def generator_states():
    states = [torch.get_rng_state(), random.getstate()]
    try:
        import numpy
        kind, keys, *rest = numpy.random.get_state()
        states.append((kind, keys.tobytes(), *rest))
    except ImportError:
        pass
    return states


def same_states(one, other):
    return torch.equal(one[0], other[0]) and one[1:] == other[1:]


def draws_anything(task, seed):
    """Whether constructor and get_inputs draw anything, also after they seeded a generator by themselves."""
    for make in (lambda: task.model(seed), lambda: task.inputs(seed)):
        seed_all(seed)
        before = generator_states()
        with Drawing() as mode:
            make()
        if mode.drew or not same_states(before, generator_states()):
            return True
    return False


def equal_sets(one, other):
    """Whether inputs and live state of two samples are the same in every bit."""
    def tensors(sample):
        return leaves(sample.values) + [t for t in sample.model.state_dict().values() if isinstance(t, torch.Tensor)]

    def plain(value):
        if isinstance(value, dict):
            return [plain(v) for v in value.values()]
        if isinstance(value, (tuple, list)):
            return [plain(v) for v in value]
        return None if isinstance(value, torch.Tensor) else repr(value)

    return plain(one.values) == plain(other.values) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        for a, b in zip(tensors(one), tensors(other)))


class Calibration:
    """Of one task. `want_planted`: whether planted sets are wanted at all. `settle`: where the device has no room for the
    oracle, do without; else that error is raised."""

    def __init__(self, task, want_planted=True, settle=True):
        self.task, self.settle = task, settle
        self.oracle_error, self.planting = "", "" if want_planted else "not wanted"
        self.verdicts, self.samples, self.exact = {}, {}, {}

    def sample(self, seed=None, planted=False):
        seed = fresh_seed() if seed is None else seed
        model, values = self.task.model(seed, live=True), self.task.inputs(seed + 1)
        expected = run(model, values)
        name_nan(expected)
        if not planted:
            return bank.Sample(model, values, expected)
        why = plant(values, seed + 2)
        if why:
            raise Unplantable(why)
        try:
            outlying = run(model, values)
        except Exception as error:
            raise Unplantable(f"the model does not bear outliers: {type(error).__name__}: {error}"[:200]) from None
        why = reason_against(expected, outlying)
        if why:
            raise Unplantable(why)
        return bank.Sample(model, values, outlying, expected)

    def draw(self):
        first, second = self.sample(), self.sample()
        drawn = [first, second]
        if sum(x.numel() for x in first.expected) <= MOST_ELEMENTS:
            drawn.append(self.sample())
        self.samples["drawn"] = drawn
        if self.planting:
            return
        large = all(x.numel() >= LARGE for x in first.expected)
        try:
            self.samples["planted"] = [self.sample(planted=True) for _ in range(1 if large else 2)]
        except Unplantable as error:
            self.planting = " ".join(str(error).split())

    def measures(self, kind):
        """The errors of each output over the samples of a kind."""
        samples = self.samples[kind][:2]
        measures = [measure_of(x) for x in samples[0].expected]
        for number, sample in enumerate(samples):
            exact, moved, wide = self.runs(sample, fresh_seed(), number == 0)
            for place, measure in enumerate(measures):
                measure.add(sample.expected[place], None if exact is None else exact[place], [m[place] for m in moved],
                            None if wide is None else wide[place])
            if number == 0:
                self.exact[kind] = exact
        return measures

    def runs(self, sample, seed, widely):
        """The outputs in double (None without an oracle), those of the moved runs, and one moved widely."""
        floats = [x for x in sample.expected if x.is_floating_point()]
        u = 2.0 ** -53 if floats and all(x.dtype == torch.float64 for x in floats) else 2.0 ** -24
        if not self.oracle_error:
            try:
                exact = run_in_double(sample.model, sample.values)
                if [x.shape for x in exact] != [x.shape for x in sample.expected]:
                    raise ValueError("the outputs have other shapes in double")
                moves = [Scattered(u, seed), Coherent(u)]
                jumps = len(floats) < len(sample.expected) or sum(
                    x.numel() for x in sample.expected) <= WIDE_ELEMENTS
                if widely and jumps:
                    moves.append(Scattered(WIDE_STEP * u, seed + 1))
                others = [self.attempt(sample, move) for move in moves]
                wide = others.pop() if len(moves) > 2 else None
                return exact, [o for o in others if o is not None], wide
            except Exception as error:  # the model does not run in double
                if wants_room(error) and not self.settle:
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

    def attempt(self, sample, move):
        try:
            moved = run_in_double(sample.model, sample.values, move)
        except Exception as error:  # outside its domain by one rounding
            if wants_room(error):
                raise
            return None
        return moved if [x.shape for x in moved] == [x.shape for x in sample.expected] else None

    def judge(self, kind, constant):
        """The rules of a kind, each answer of the bank tried on its first sample."""
        measures = self.measures(kind)
        samples = self.samples[kind]
        rules = [Rule(measure, x.numel()) for measure, x in zip(measures, samples[0].expected)]
        verdicts = bank.Verdicts(rules, samples[0])
        earlier = samples[1:] or self.samples["drawn"]
        for answer in bank.answers(samples[0], earlier, self.exact[kind], constant):
            verdicts.add(answer)
        for place in range(len(rules)):
            drawn = self.verdicts.get("drawn")
            verdicts.choose(place, [name for name in drawn.refused[place] if drawn.refuses(place, name)] if drawn else ())
        self.verdicts[kind] = verdicts
        return measures

    def ambiguous(self, measures):
        for place, measure in enumerate(measures):
            if not isinstance(measure, FloatMeasure) and measure.undecided() > AMBIGUOUS:
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
            for name in dict.fromkeys(names):
                label = f"{name} [output {place}]" if several else name
                kinds = [kind for kind, v in self.verdicts.items() if v.refuses(place, name)]
                if kinds:
                    refused_by[label] = kinds[0]
                elif steady[place] and not all(steady):
                    idle.add(label)  # this output is the same in every set
                else:
                    passing.append(label)
        for verdicts in self.verdicts.values():
            idle |= {name for name in verdicts.idle
                     if not any(name in v.refused[p] for v in self.verdicts.values() for p in range(len(drawn.rules)))}
        return refused_by, passing, sorted(idle)

    def answer(self):
        self.draw()
        drawn = self.samples["drawn"]
        if not leaves(drawn[0].expected):
            raise ValueError("forward returns no tensor")
        if all(x.numel() == 0 for x in drawn[0].expected):
            return self.empty()
        equal = equal_sets(*drawn[:2])
        constant = equal and not draws_anything(self.task, fresh_seed())
        ambiguous = self.ambiguous(self.judge("drawn", equal))
        if "planted" in self.samples:
            ambiguous = ambiguous or self.ambiguous(self.judge("planted", equal))
        refused_by, passing, idle = self.outcome(equal)
        uninformative = f"an answer that leaves the work out passes: {', '.join(passing[:4])}" if passing else ""
        return {"kinds": {"drawn": self.entries("drawn"), "planted": self.entries("planted")},
                "planting": self.planting, "constant": constant, "equal_sets": equal and not constant,
                "uninformative": uninformative, "ambiguous": ambiguous, "unobservable": idle, "bank": refused_by,
                "oracle_error": self.oracle_error}

    def entries(self, kind):
        return [rule.entry() for rule in self.verdicts[kind].rules] if kind in self.verdicts else None

    def empty(self):
        entries = [Rule(measure_of(x), 0).entry() for x in self.samples["drawn"][0].expected]
        return {"kinds": {"drawn": entries, "planted": None}, "planting": "no elements", "constant": False,
                "equal_sets": False, "uninformative": "every output has no elements: every answer is right",
                "ambiguous": "", "unobservable": [], "bank": {}, "oracle_error": ""}


class Unplantable(Exception):
    """Planted sets are given up; the text says why."""


def calibrate(task, want_planted=True, settle=True):
    """The judge's JSON for one task. ValueError where the task itself is at fault."""
    return Calibration(task, want_planted, settle).answer()
