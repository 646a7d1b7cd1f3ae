"""Answers that leave work out, tried at the judge's own bound. What such an answer passes is no test of a kernel: the
bound is tightened until each is refused, and a task where that does not help is `uninformative`.

Each answer is made from what a lazy candidate could know: this call's inputs, and inputs and outputs of earlier calls; or
from this call's output with a part of it left out. One list serves the judge and the check of suites."""

import itertools
import math

import torch

from khost.values import bank_operators
from khost.values.bank_inputs import SAMPLE, first_only, float_inputs, sampled, unread, with_input
from khost.task.manifest import real, with_tensors
from khost.values.oracle import run
from khost.values.tolerance import ONE_BIN

FITTED = 1 << 18    # elements by which a line is fitted
LEAST = 16          # an axis shorter than this is not sub-sampled
CUT = 64            # an axis shorter than this is not cut
CUTS = 5            # a half to a thirty-second of an axis is kept
MOST_OPERATORS = 16
MOST_SAMPLED = 12
CAST = 0.01         # of a line's slope and offset, by which it may differ from that of a cast
MOVED = 16          # errors by which an operator must move the output
MOVED_SHARE = 0.01  # in at least this share of the elements
OUTLIERS_SHARE = 1e-5  # the same, of outliers that are ignored: few elements have one, ...
ANY = 1e-9           # ... and a single one has the last


OUTLIERS = "outliers_ignored"
LAST = OUTLIERS + "(the last)"  # lowers K where it shows, which the sign of one element may decide: it is not listed
ROUNDED = "rounded_to_"  # answers in a precision that the reference does not have: they lower K, and say nothing of work
ROUNDED_SHARE = 1e-3  # of the elements that must show it: a part of the work in a half type is less than all of it
TYPICALLY = 0.05     # of the elements, for an answer that most elements must show
MARGIN, OUTLIERS_MARGIN = 2, 4  # K for which other answers are refused is one that is so much smaller than need be
WHOLE = ("pass_through", "affine", "sub_sample", "truncated")


class Sample:
    """One set: the model, its inputs, and what it returned. Of a planted set, `plain`: what it returns on the numbers as they
    were drawn, `kinds`: what was planted (planting.py)."""

    def __init__(self, model, values, expected, plain=None, kinds=()):
        self.model, self.values, self.expected, self.plain, self.kinds = model, values, expected, plain, kinds

    def is_small(self):
        """Whether an output has so few elements that its sets are taken together."""
        return any(x.numel() < ONE_BIN for x in self.expected)


class Answer:
    """What is returned in place of the outputs of one sample; None for an output that the answer says nothing of.
    `always`: it counts on every task; else only where it moves the outputs. `whole`: it spares work only where it passes
    on all outputs, since another output needs what it leaves out."""

    def __init__(self, name, outputs, always, least=MOVED_SHARE):
        self.name, self.outputs, self.always, self.least = name, outputs, always, least
        self.whole = name.startswith(WHOLE)


def taken(output, where):
    """The elements of an answer's output at flat indices: of a tensor, or of a function of the indices, so that nothing of
    a large output's size is made for one that is told by a formula. None where the answer says nothing after all."""
    return output(where) if callable(output) else output.reshape(-1)[where]


def same_everywhere(value, like):
    return lambda where: value.to(like.dtype).expand(where.shape)


def constants(outputs):
    """The middle of an earlier call's values, and their mean."""
    middles, means = [], []
    for x in outputs:
        finite = x[torch.isfinite(x)] if x.is_floating_point() else x.reshape(-1)
        held = finite.numel() > 0
        if x.is_floating_point():
            middles.append(same_everywhere((finite.min() + finite.max()) / 2, x) if held else None)
            means.append(same_everywhere(finite.double().mean(), x) if held else None)
        else:
            middles.append(same_everywhere(finite[0], x) if held else None)
            means.append(None)
    return middles, means


def average(output):
    """The mean over the first axis of an earlier call's output: what a kernel that knows the task's statistics returns."""
    if not output.is_floating_point() or output.dim() < 2 or output.shape[0] < 2 or not output.numel():
        return None
    mean = (output if output.dtype == torch.float64 else output.float()).mean(0).reshape(-1)
    return lambda where: mean[where % mean.numel()].to(output.dtype)


def fitted(before, output):
    """Slope and offset of the line by which `output` follows `before`, by least squares."""
    step = max(1, before.numel() // FITTED)
    x, y = before.reshape(-1)[::step].double(), output.reshape(-1)[::step].double()
    sound = torch.isfinite(x) & torch.isfinite(y)
    x, y = x[sound], y[sound]
    if x.numel() == 0:
        return 0.0, 0.0
    mean_x, mean_y = x.mean(), y.mean()
    variance = (x - mean_x).square().mean()
    slope = ((x - mean_x) * (y - mean_y)).mean() / variance if variance > 0 else torch.zeros(())
    return float(slope), float(mean_y - slope * mean_x)


def affine(sample, earlier):
    """One of the inputs times a number plus a number, both learnt from an earlier call; and the input itself."""
    for place, (now, before) in enumerate(zip(float_inputs(sample.values), float_inputs(earlier.values))):
        fits = [x.shape == now.shape and x.is_floating_point() and x.numel() > 0 for x in sample.expected]
        if any(fits):
            lines = [fitted(before, old) if fit else None for fit, old in zip(fits, earlier.expected)]
            # The input in another dtype is no short cut: it takes the kernel that casts.
            lines = [None if line and x.dtype != now.dtype and abs(line[0] - 1) + abs(line[1]) < CAST else line
                     for line, x in zip(lines, sample.expected)]
            same = [fit and x.dtype == now.dtype for fit, x in zip(fits, sample.expected)]
            if any(same):
                yield Answer(f"pass_through(input {place})", [now if fit else None for fit in same], True)
            yield Answer(f"affine(input {place})", [on_line(now, line, x) for line, x in zip(lines, sample.expected)],
                         not is_affine(sample, place, lines))


def on_line(now, line, like):
    if line is None:
        return None
    return lambda where: (now.reshape(-1)[where].double() * line[0] + line[1]).to(like.dtype)


def is_affine(sample, place, lines):
    """Whether the lines hold far outside of the task's inputs too: then they are the task, and no short cut."""
    wide = with_input(sample.values, place, lambda t: t * 3)
    try:
        outputs = run(sample.model, wide)
    except Exception:
        return False
    now = float_inputs(wide)[place]
    step = max(1, now.numel() // FITTED)
    now = now.reshape(-1)[::step].double()
    for line, x in zip(lines, outputs):
        if line is not None:
            got = x.reshape(-1)[::step].double()
            sound = torch.isfinite(got) & torch.isfinite(now)
            held, told = got[sound], now[sound] * line[0] + line[1]
            if held.numel() == 0 or not torch.allclose(told, held, rtol=1e-3, atol=1e-3 * float(held.abs().mean())):
                return False
    return True


def largest_half(output):
    """The larger half of what is not zero; the rest 0."""
    if not output.is_floating_point() or output.numel() < 2:
        return None
    flat = output.reshape(-1)
    sizes = flat[::max(1, flat.numel() // FITTED)].abs()
    sizes = sizes[(sizes != 0) & torch.isfinite(sizes)].float()
    if sizes.numel() < 2:
        return None
    median = sizes.median()
    if not bool((sizes > median).any()):
        return None

    def taken_at(where):
        values = flat[where]
        return torch.where(values.abs().float() > median, values, torch.zeros_like(values))

    return taken_at


def tail_cut(output, double, axis, kept):
    """Elements beyond a part of an axis are 0. What is 0 in double too is no tail: it is the task's own padding."""
    stride, size = math.prod(output.shape[axis + 1:]), output.shape[axis]

    def taken_at(where):
        values, beyond = output.reshape(-1)[where], (where // stride) % size >= kept
        if not bool((double.reshape(-1)[where][beyond] != 0).any()):
            return None
        return torch.where(beyond, torch.zeros_like(values), values)

    return taken_at


def tails(sample, exact):
    longest = max((x.dim() for x in sample.expected if x.is_floating_point()), default=0)
    for axis in range(longest):
        for halvings in range(1, CUTS + 1):
            answers = [tail_cut(x, x if exact is None else exact[place], axis, x.shape[axis] >> halvings)
                       if x.is_floating_point() and axis < x.dim() and x.shape[axis] >= CUT else None
                       for place, x in enumerate(sample.expected)]
            if any(a is not None for a in answers):
                yield Answer(f"tail_cut(axis {axis}, 1/{1 << halvings} kept)", answers, True)


def sub_samples(sample):
    """The model on a part of its input, along each axis that the outputs do not have: the part that is left out costs
    nothing to leave out."""
    tried = 0
    for place, tensor in enumerate(float_inputs(sample.values)):
        for axis in range(tensor.dim()):
            if tensor.shape[axis] < LEAST or any(x.dim() > 0 and x.numel() >= tensor.numel() for x in sample.expected):
                continue  # where the output is as large as the input, leaving elements out is no saving
            ways = {"": sampled}
            if all(axis >= x.dim() or x.shape[axis] != tensor.shape[axis] for x in sample.expected):
                ways[", half"] = lambda t, a: first_only(t, a, 2)
                ways[", first"] = first_only
                ways[", last"] = lambda t, a: first_only(t.flip(a), a).flip(a)
            for way, change in ways.items():
                if tried == MOST_SAMPLED:
                    return
                tried += 1

                def change_axis(t, change=change, axis=axis):
                    return change(t, axis)

                try:
                    got = run(sample.model, with_input(sample.values, place, change_axis))
                except Exception:
                    continue
                if unread(sample, got, place, change_axis):
                    continue
                yield Answer(f"sub_sample(input {place}, axis {axis}{way})", got, True)


def truncated(sample):
    """The elements beyond the first eighth of the last axis are their mean."""
    inputs = float_inputs(sample.values)
    if len(inputs) == 1 and inputs[0].dim() > 0 and inputs[0].shape[-1] >= CUT:
        def change(tensor):
            changed = tensor.clone()
            kept = tensor.shape[-1] // SAMPLE
            changed[..., kept:] = tensor[..., :kept].mean()
            return changed

        try:
            got = run(sample.model, with_input(sample.values, 0, change))
        except Exception:
            return
        if not unread(sample, got, 0, change):
            yield Answer("truncated", got, True)


def operators(sample, most=MOST_OPERATORS):
    """The model with one of its operators left out or reducing over half of its axis; spread over all of them where there
    are more than `most`."""
    names = bank_operators.changes(sample.model, sample.values)
    count = len(names)
    chosen = range(count) if count <= most else sorted({i * (count - 1) // (most - 1) for i in range(most)})
    for which in chosen:
        got = bank_operators.changed(sample.model, sample.values, which)
        if got is not None:
            yield Answer(f"operator {names[which]}", got, False)


def without_the_last(sample):
    """The model without the last element of each input, where planted sets have an outlier: what a kernel returns that
    leaves out the rest of a division by its width."""
    def cut(tensor):
        if not real(tensor) or tensor.numel() < LEAST or 0 in tensor.stride():
            return tensor
        changed = tensor.clone()
        changed[(-1,) * tensor.dim()] = 0
        return changed

    try:
        yield Answer(LAST, run(sample.model, with_tensors(sample.values, cut)), False, ANY)
    except Exception:
        return


def without_the_output(sample, earlier, constant=False):
    """Answers that nothing of this call's output is needed for. `earlier`: samples of the same kind from other seeds;
    `constant`: they are all the same, so that an earlier output is the right one."""
    outputs = sample.expected
    yield Answer("zeros", [same_everywhere(x.new_zeros(()), x) for x in outputs], True)
    for other in earlier[:1]:
        middles, means = constants(other.expected)
        yield Answer("constant", middles, True)
        yield Answer("mean", means, True)
        yield Answer("mean_over_first_axis", [average(x) for x in other.expected], True)
        if not constant:
            yield Answer("previous_output", other.expected, True)
    if len(earlier) > 1 and not constant:
        yield Answer("mean_of_earlier", [((a.double() + b.double()) / 2).to(a.dtype) if a.is_floating_point() else None
                                         for a, b in zip(earlier[0].expected, earlier[1].expected)], True)
    for other in earlier[:1]:
        yield from affine(sample, other)
    yield from sub_samples(sample)
    yield from truncated(sample)


def answers(sample, earlier, exact=None, constant=False):
    """All answers on one sample. `exact`: the outputs in double."""
    yield from without_the_output(sample, earlier, constant)
    yield Answer("largest_half", [largest_half(x) for x in sample.expected], True)
    yield from tails(sample, exact)
    if sample.plain is not None:
        yield Answer(OUTLIERS, sample.plain, False, OUTLIERS_SHARE)
        yield from without_the_last(sample)
    yield from operators(sample)


def rounded(sample, rules):
    """This output in a half type; nothing of outputs that are in one, or whose reference computes in one."""
    for dtype in (torch.bfloat16, torch.float16):
        outputs = [x.to(dtype) if not rule.exact and rule.precision == "full" and x.dtype in (torch.float32, torch.float64)
                   else None for rule, x in zip(rules, sample.expected)]
        if any(x is not None for x in outputs):
            yield Answer(ROUNDED + str(dtype).removeprefix("torch."), outputs, True)


def kind_of(name):
    """Of an answer: whether it leaves out work, one operator, or no work at all."""
    return "soft" if name.startswith((OUTLIERS, ROUNDED)) else "operator" if "#" in name else "work"


class Verdicts:
    """What became of every answer on every output, over samples of one kind: an answer must pass on all of them."""

    def __init__(self, rules):
        self.rules = rules
        self.refused = [{} for _ in rules]  # of an output, by answer: for each K, whether a sample refuses it
        self.hidden = [set() for _ in rules]  # operators whose absence is no larger than what a plain kernel loses
        self.told, self.moving = set(), set()  # answers that say anything, and those that move an output

    @property
    def idle(self):
        """Answers that moved no output."""
        return self.told - self.moving

    def try_on(self, sample, earlier, exact, constant):
        """All answers on one sample."""
        probes = [rule.probe(x) if x.numel() else None for rule, x in zip(self.rules, sample.expected)]
        for answer in itertools.chain(answers(sample, earlier, exact, constant), rounded(sample, self.rules)):
            for place, (probe, got) in enumerate(zip(probes, answer.outputs)):
                got = None if got is None or probe is None else probe.taken(got)
                if got is not None:
                    self.told.add(answer.name)
                    self.add(answer, place, probe, got)

    def add(self, answer, place, probe, got):
        if not answer.always and (answer.name.startswith("affine") or probe.moved_share(got, MOVED) < answer.least):
            return
        self.moving.add(answer.name)
        refusals = probe.refusals(got, **self.margins(answer))
        if not refusals[-1]:
            refusals = probe.refusals(got)
        before = self.refused[place].get(answer.name)
        self.refused[place][answer.name] = [a or b for a, b in zip(refusals, before)] if before else refusals

    @staticmethod
    def margins(answer):
        """By how much an answer has to be refused, so that chance does not let it pass on other sets."""
        if answer.name.startswith(ROUNDED):
            return {"least": ROUNDED_SHARE, "typically": TYPICALLY}
        return {"margin": OUTLIERS_MARGIN if answer.name.startswith(OUTLIERS) else MARGIN}

    def choose(self, place, refused_elsewhere=(), honest=None):
        """The largest K at which every answer is refused that the tightest one refuses, those apart that sets of another
        kind refuse. Answers that leave out no work (a half type, outliers) lower it only as far as `honest` passes, which
        returns the output of another honest way, or None; and a small operator that is left out, too: what a plain kernel
        loses hides it. What would pass there all the same lowers it not at all."""
        rule, index = self.rules[place], 0
        needed = {name: steps for name, steps in self.refused[place].items()
                  if steps[-1] and name not in refused_elsewhere}
        for kind in ("work", "operator", "soft"):
            wanted = [steps for name, steps in needed.items() if kind_of(name) == kind]
            last = index
            while last + 1 < len(rule.steps) and not all(steps[last] for steps in wanted):
                if kind == "soft" and not rule.may_have(last + 1):
                    break
                if kind != "work" and not self.passes(honest, place, last + 1):
                    break
                last += 1
            wanted = [steps for steps in wanted if steps[last]]
            while not all(steps[index] for steps in wanted):
                index += 1
        rule.k = rule.steps[index]
        self.hidden[place] = {name for name, steps in needed.items()
                              if kind_of(name) == "operator" and not steps[index]}

    def passes(self, honest, place, index):
        """Whether an honest way is right at one step of K; also where there is none."""
        found = honest() if honest else None
        if found is None:
            return True
        sample, outputs = found
        probe = self.rules[place].probe(sample.expected[place])
        return not probe.refuses(probe.taken(outputs[place]), self.rules[place].steps[index] / MARGIN, index)

    def refuses(self, place, name):
        steps = self.refused[place].get(name)
        return None if steps is None else steps[self.rules[place].steps.index(self.rules[place].k)]
