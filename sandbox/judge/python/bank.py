"""Answers that leave work out, tried at the judge's own bound. What such an answer passes is no test of a kernel: the
bound is tightened until each is refused, and a task where that does not help is `uninformative`.

Each answer is made from what a lazy candidate could know: this call's inputs, and inputs and outputs of earlier calls; or
from this call's output with a part of it left out. One list serves the judge and the check of suites."""

import torch

import bank_operators
from manifest import leaves
from oracle import run

SAMPLE = 8          # sub-sample: one eighth of the elements is read
FITTED = 1 << 18    # elements by which a line is fitted
LEAST = 16          # an axis shorter than this is not sub-sampled
CUT = 64            # an axis shorter than this is not cut
CUTS = 5            # a half to a thirty-second of an axis is kept
MOST_OPERATORS = 16
MOST_SAMPLED = 6
MOVED = 16          # errors by which an operator must move the output
MOVED_SHARE = 0.01  # in at least this share of the elements


class Sample:
    """One set: the model, its inputs, and what it returned. `plain`: of a planted set, what it returns without them."""

    def __init__(self, model, values, expected, plain=None):
        self.model, self.values, self.expected, self.plain = model, values, expected, plain


class Answer:
    """What is returned in place of the outputs of one sample; None for an output that the answer says nothing of.
    `always`: it counts on every task; else only where it moves the outputs."""

    def __init__(self, name, outputs, always):
        self.name, self.outputs, self.always = name, outputs, always


def float_inputs(values):
    return [t for t in leaves(values) if t.is_floating_point()]


def constants(outputs):
    """The middle of an earlier call's values, and their mean."""
    middles = [((x.min() + x.max()) / 2 if x.is_floating_point() else x.reshape(-1)[0]).expand_as(x) if x.numel() else x
               for x in outputs]
    means = [x[torch.isfinite(x)].double().mean().to(x.dtype).expand_as(x) if x.is_floating_point() and x.numel() else
             None for x in outputs]
    return middles, means


def averages(outputs):
    """The mean over the first axis of an earlier call's output: what a kernel that knows the task's statistics returns."""
    return [x.double().mean(0, keepdim=True).to(x.dtype).expand_as(x)
            if x.is_floating_point() and x.dim() > 1 and x.shape[0] > 1 and x.numel() else None for x in outputs]


def fitted(before, output):
    """Slope and offset of the line by which `output` follows `before`, by least squares."""
    step = max(1, before.numel() // FITTED)
    x, y = before.reshape(-1)[::step].double(), output.reshape(-1)[::step].double()
    mean_x, mean_y = x.mean(), y.mean()
    variance = (x - mean_x).square().mean()
    slope = ((x - mean_x) * (y - mean_y)).mean() / variance if variance > 0 else torch.zeros(())
    return float(slope), float(mean_y - slope * mean_x)


def affine(sample, earlier):
    """One of the inputs times a number plus a number, both learnt from an earlier call; and the input itself."""
    for place, (now, before) in enumerate(zip(float_inputs(sample.values), float_inputs(earlier.values))):
        fits = [x.shape == now.shape and x.is_floating_point() and x.numel() > 0 for x in sample.expected]
        if any(fits):
            yield Answer(f"pass_through(input {place})", [now if fit else None for fit in fits], True)
            lines = [fitted(before, old) if fit else None for fit, old in zip(fits, earlier.expected)]
            yield Answer(f"affine(input {place})", [(now.double() * line[0] + line[1]).to(x.dtype) if line else None
                                                    for line, x in zip(lines, sample.expected)],
                         not is_affine(sample, place, lines))


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
            scale = abs(line[1]) + float(got[torch.isfinite(got)].abs().mean())
            if not torch.allclose(now * line[0] + line[1], got, rtol=1e-3, atol=1e-3 * scale):
                return False
    return True


def largest_half(outputs):
    """The larger half of what is not zero; the rest 0."""
    result = []
    for x in outputs:
        sizes = x.abs()[(x != 0) & torch.isfinite(x)] if x.is_floating_point() and x.numel() > 1 else None
        if sizes is None or sizes.numel() < 2:
            result.append(None)
            continue
        step = max(1, sizes.numel() // FITTED)
        median = sizes[::step].float().median().to(x.dtype)
        result.append(torch.where(x.abs() > median, x, 0.0).to(x.dtype) if bool((x.abs() > median).any()) else None)
    return result


def cut(output, axis, kept):
    changed = output.clone()
    changed.narrow(axis, kept, output.shape[axis] - kept).zero_()
    return changed


def tails(sample, exact):
    """Elements beyond a part of an axis are 0. What is 0 in double too is no tail: it is the task's own padding."""
    longest = max((x.dim() for x in sample.expected if x.is_floating_point()), default=0)
    for axis in range(longest):
        for halvings in range(1, CUTS + 1):
            answers = []
            for place, x in enumerate(sample.expected):
                answers.append(None)
                if not x.is_floating_point() or axis >= x.dim() or x.shape[axis] < CUT:
                    continue
                kept = x.shape[axis] >> halvings
                double = x if exact is None else exact[place]
                if bool((double.narrow(axis, kept, x.shape[axis] - kept) != 0).any()):
                    answers[-1] = cut(x, axis, kept)
            if any(a is not None for a in answers):
                yield Answer(f"tail_cut(axis {axis}, 1/{1 << halvings} kept)", answers, True)


def sampled(tensor, axis):
    """The first eighth along an axis, repeated until it fills the axis."""
    size = tensor.shape[axis]
    index = torch.arange(size, device=tensor.device) % max(1, size // SAMPLE)
    return tensor.index_select(axis, index)


def half_only(tensor, axis):
    """The first half along an axis, and the mean of that in place of the rest."""
    kept = tensor.shape[axis] // 2
    changed = tensor.clone()
    changed.narrow(axis, kept, tensor.shape[axis] - kept).fill_(tensor.narrow(axis, 0, kept).mean())
    return changed


def with_input(values, place, change):
    """Copies of the inputs, one of their float tensors changed."""
    count = -1

    def copied(value):
        nonlocal count
        if isinstance(value, torch.Tensor):
            count += value.is_floating_point()
            return change(value) if value.is_floating_point() and count == place else value
        if isinstance(value, dict):
            return {key: copied(item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(copied(item) for item in value)
        return value

    return copied(values)


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
                ways[", half"] = half_only
            for way, change in ways.items():
                if tried == MOST_SAMPLED:
                    return
                tried += 1
                try:
                    got = run(sample.model, with_input(sample.values, place, lambda t: change(t, axis)))
                except Exception:
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
            yield Answer("truncated", run(sample.model, with_input(sample.values, 0, change)), True)
        except Exception:
            return


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


def answers(sample, earlier, exact=None, constant=False):
    """All answers on one sample. `earlier`: samples of the same kind from other seeds. `exact`: the outputs in double."""
    outputs = sample.expected
    yield Answer("zeros", [torch.zeros_like(x) for x in outputs], True)
    for other in earlier[:1]:
        middles, means = constants(other.expected)
        yield Answer("constant", middles, True)
        yield Answer("mean", means, True)
        yield Answer("mean_over_first_axis", averages(other.expected), True)
        if not constant:
            yield Answer("previous_output", other.expected, True)
        yield from affine(sample, other)
    if len(earlier) > 1 and not constant:
        yield Answer("mean_of_earlier", [((a.double() + b.double()) / 2).to(a.dtype) if a.is_floating_point() else None
                                         for a, b in zip(earlier[0].expected, earlier[1].expected)], True)
    yield Answer("largest_half", largest_half(outputs), True)
    yield from tails(sample, exact)
    if sample.plain is not None:
        yield Answer("outliers_ignored", sample.plain, False)
    yield from sub_samples(sample)
    yield from truncated(sample)
    yield from operators(sample)


class Verdicts:
    """What became of every answer on every output of one sample of a kind."""

    def __init__(self, rules, sample):
        self.rules = rules
        self.probes = [rule.probe(x) if x.numel() else None for rule, x in zip(rules, sample.expected)]
        self.refused = [{} for _ in rules]  # of an output, by answer: for each K, whether it is refused
        self.idle = {}                       # answers that moved no output

    def add(self, answer):
        moves = False
        for place, (probe, got) in enumerate(zip(self.probes, answer.outputs)):
            if got is None or probe is None:
                continue
            if not answer.always and (answer.name.startswith("affine") or
                                      probe.moved_share(got, MOVED) < MOVED_SHARE):
                continue
            moves = True
            self.refused[place][answer.name] = probe.refusals(got)
        if not moves and any(got is not None for got in answer.outputs):
            self.idle[answer.name] = True

    def choose(self, place, refused_elsewhere=()):
        """The largest K at which every answer is refused that the tightest one refuses, those apart that sets of another
        kind refuse."""
        rule = self.rules[place]
        needed = [steps for name, steps in self.refused[place].items() if steps[-1] and name not in refused_elsewhere]
        for index, k in enumerate(rule.steps):
            if all(steps[index] for steps in needed):
                rule.k = k
                return
        rule.k = rule.steps[-1]

    def refuses(self, place, name):
        steps = self.refused[place].get(name)
        return None if steps is None else steps[self.rules[place].steps.index(self.rules[place].k)]
