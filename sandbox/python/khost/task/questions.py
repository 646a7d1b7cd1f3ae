"""Questions that come up about a task while one of its candidates is judged; each in a child of its own."""

import copy
import time

import torch

from khost.task.manifest import Layout, leaves, mapped
from khost.values.planting import Reach, plant, plant_state
from khost.task.task_file import Task, call, state_of

BLOCKS = 4        # places of a tensor that are changed, one after the other
BUDGET_S = 20     # tensors that were not asked for by then count for nothing


def mixed(request, region):
    """Writes what the reference returns for the inputs of one set and the weights of another."""
    task = Task(request["source"])
    model = task.model(request["state_seed"], live=True)
    values = task.inputs(request["inputs_seed"] + 1)
    reach = Reach.of(model, values)
    if request["plant"]:  # by the seeds that reference.py takes
        plant(values, request["inputs_seed"] + 2, request["kinds"], reach, task=task)
    if request["plant_state"]:
        plant_state(model, request["state_seed"] + 2, request["kinds"], reach, task)
    Layout(call(model, values), contiguous=True).write(mapped(region), 0)
    return {}


def changed(tensor, block):
    """The tensor with one of its blocks changed."""
    result = tensor.clone()
    flat = result.reshape(-1)
    size = max(1, flat.numel() // BLOCKS)
    part = flat[block * size:(block + 1) * size]
    if tensor.dtype == torch.bool:
        part.logical_not_()
    elif tensor.is_floating_point():
        part.mul_(1.5).add_(0.25)
    else:
        part.copy_(part.flip(0))
    return result.reshape(tensor.shape)


def matters(tensor, outputs, answer):
    """Whether every block of a tensor changes an output."""
    if tensor.numel() < BLOCKS or not tensor.is_contiguous():
        return False
    kept = tensor.clone()
    try:
        for block in range(BLOCKS):
            tensor.copy_(changed(kept, block))
            if all(torch.equal(a, b) for a, b in zip(outputs, answer())):
                return False
        return True
    except Exception:  # an index out of its range: nothing can be said
        return False
    finally:
        tensor.copy_(kept)


def compulsory(request):
    """Bytes of inputs and weights without which the answer would be another."""
    task = Task(request["source"])
    model = task.model(request["seed"], live=True)
    values = task.inputs(request["seed"] + 1)

    def answer():
        return leaves(call(model, copy.deepcopy(values)))

    outputs, seen, total, end = answer(), set(), 0, time.perf_counter() + BUDGET_S
    for tensor in leaves(values) + [t.data for t in state_of(model).values()]:
        if tensor.data_ptr() in seen or time.perf_counter() > end:
            continue
        seen.add(tensor.data_ptr())
        if matters(tensor, outputs, answer):
            total += tensor.numel() * tensor.element_size()
    return {"bytes": total}
