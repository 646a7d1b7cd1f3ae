"""What the filter of synthetic tasks asks of a task: runs, deterministic, told apart by its inputs, eager time, and the
answers without work that would pass."""

import copy
import time

import torch

from bank import Sample
from check_nulls import close, published
from manifest import leaves
from task_file import Task, call, finite

TIMED_CALLS = 5


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
        "null_candidates": published(Sample(model, values, first), [Sample(model, other_values, others)]),
    }
