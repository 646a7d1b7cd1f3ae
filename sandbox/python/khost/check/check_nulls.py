"""Answers that do no work, tried on a task: what such an answer passes, nobody should be trained or judged on.

The answers are the judge's (bank.py), and so is the bound: what passes there makes the task uninformative for a verdict
too. Those that are made without this call's output are also held to the tolerance of published comparisons, which is
looser."""

import torch

from khost.values import bank
from khost.values.calibration import passing
from khost.values.oracle import run
from khost.values.histogram import places

CLOSE = 1e-2   # the paper's tolerance, the loosest that counts
PUBLISHED = ("zeros", "constant", "previous_output", "mean_of_earlier", *bank.WHOLE)
MOST_ON_CPU = 1 << 26  # elements of inputs and outputs up to which the judge's bound is measured on a processor
STEADY = ("zeros", "constant", "previous_output", "mean_of_earlier")
WITHOUT = {"mean_of_earlier": ("previous_output",), "affine": ("pass_through",), "sub_sample": STEADY,
           "truncated": STEADY}  # what says nothing new where one of these passes
PART = 1 << 25  # elements that are compared at once: a comparison takes memory of its own


def parts(*tensors):
    """The tensors of one shape piece by piece, so that what is made of them needs little memory."""
    if tensors[0].numel() <= PART:
        yield tensors
        return
    flat = [t.reshape(-1) for t in tensors]
    for at in range(0, flat[0].numel(), PART):
        yield [t[at:at + PART] for t in flat]


def all_close(one, other, rtol, atol):
    """As torch.allclose, and without its temporaries of the tensors' size; the first piece that differs ends it."""
    return all(torch.allclose(a, b, rtol, atol) for a, b in parts(one, other))


def close(answer, expected):
    if answer.shape != expected.shape:
        return False
    if not expected.is_floating_point():
        return torch.equal(answer.to(expected.dtype), expected)
    return all_close(answer.to(expected.dtype), expected, CLOSE, CLOSE)


def passes(answers, outputs):
    return all(close(a, x) for a, x in zip(answers, outputs))


def published(sample, earlier):
    """Names of the answers that pass the paper's tolerance on every output."""
    where = [places(x, PART >> 3) for x in sample.expected]
    wanted = [x.reshape(-1)[at] for x, at in zip(sample.expected, where)]
    found = []
    for answer in bank.without_the_output(sample, earlier):
        if not answer.name.startswith(PUBLISHED) or any(name.startswith(WITHOUT.get(answer.name.split("(")[0], ()))
                                                        for name in found):
            continue
        got = [None if output is None or not callable(output) and output.shape != x.shape else bank.taken(output, at)
               for output, x, at in zip(answer.outputs, sample.expected, where)]
        if all(g is not None for g in got) and passes(got, wanted):
            found.append(answer.name)
    return found


def null_candidates(model, values, outputs, earlier):
    """Names of the answers without work that pass on every output. `earlier`: pairs (inputs, outputs) of other calls."""
    sample = bank.Sample(model, values, outputs)
    others = [bank.Sample(model, *pair) for pair in earlier]
    found = published(sample, others)
    if found or not measurable(sample):
        return found
    try:
        return passing([sample, *others]) if passes(run(model, values), outputs) else []
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        return []  # a child of a check has little memory: the judge finds it


def measurable(sample):
    tensors = [*bank.float_inputs(sample.values), *sample.expected]
    return not any(bool(torch.isnan(x).any()) for x in sample.expected if x.is_floating_point()) and (
        sample.expected[0].is_cuda or sum(t.numel() for t in tensors) <= MOST_ON_CPU)
