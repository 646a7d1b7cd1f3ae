"""What the filter of synthetic tasks asks of a task: runs, deterministic, told apart by its inputs, eager time, and the
answers without work that would pass."""

import copy
import time

import torch

from manifest import leaves
from task_file import Task, call, finite

CLOSE = 1e-2  # the paper's tolerance: what passes here would pass the loosest class
TIMED_CALLS = 5


def close(a, b):
    return a.shape == b.shape and a.is_floating_point() and torch.allclose(a.double(), b.double(), CLOSE, CLOSE)


def null_candidates(values, outputs, others):
    """Names of the answers that do no work and pass on every output. `others` are the outputs for other inputs."""
    answers = {
        "zeros": torch.zeros_like,
        "constant": lambda x: x.mean().expand_as(x) if x.is_floating_point() else x * 0,
    }
    passing = [name for name, make in answers.items() if all(close(make(x), x) for x in outputs)]
    if all(close(other, x) for x, other in zip(outputs, others)):
        passing.append("previous_output")
    for value in leaves(values):
        if all(close(value, x) for x in outputs):
            passing.append("pass_through")
            break
    return passing


def eager_seconds(model, values):
    times = []
    for _ in range(TIMED_CALLS):
        begin = time.perf_counter()
        call(model, values)
        times.append(time.perf_counter() - begin)
    return sorted(times)[TIMED_CALLS // 2]


def admit(source):
    task = Task(source)
    model = task.model(1)
    values, other_values = task.inputs(2), task.inputs(3)
    first = leaves(call(model, copy.deepcopy(values)))
    again = leaves(call(model, copy.deepcopy(values)))
    others = leaves(call(model, other_values))
    return {
        "runs": True,
        "finite": finite(first),
        "deterministic": all(torch.equal(a, b) for a, b in zip(first, again)),
        "constant_output": all(x.numel() > 1 and bool((x == x.reshape(-1)[0]).all()) for x in first),
        "same_across_inputs": all(close(a, b) for a, b in zip(first, others)),
        "eager_s": eager_seconds(model, values),
        "bytes": sum(t.untyped_storage().nbytes() for t in leaves(values) + first),
        "null_candidates": null_candidates(values, first, others),
    }
