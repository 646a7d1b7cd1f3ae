"""Questions that come up about a task while one of its candidates is judged; each in a child of its own."""

import copy
import time

import torch

from khost.task.manifest import Layout, leaves, mapped, real
from khost.values.planting import Reach, plant, plant_state
from khost.task.task_file import Task, call, state_of

LINE = 16         # elements that are changed together, about what a core reads at once
PROBES = 24       # places of a tensor where that is tried, one after the other
FAR = 8           # times its largest element
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


def changes(tensor, place, generator):
    """Other numbers for the elements from a place on: larger than all of a float tensor, then smaller, since a maximum and a
    relu show one of them only; and for whole numbers some that the tensor has elsewhere, which as indices stay in range."""
    line = slice(place, place + LINE)
    flat = tensor.reshape(-1)
    if tensor.dtype == torch.bool:
        return line, [flat[line].logical_not()]
    if real(tensor):
        far = FAR * float(flat.abs().nan_to_num(posinf=0.0).max()) + 1.0
        return line, [torch.full_like(flat[line], far), torch.full_like(flat[line], -far)]
    return line, [flat[torch.randint(flat.numel(), flat[line].shape, generator=generator).to(flat.device)]]


def share_that_matters(tensor, outputs, answer):
    """Of the lines of a cache that a tensor takes, the share that changes an output: all where each that was tried does, else
    half of what was seen. A table of which few rows are looked up need not be read, nor what is before a last step."""
    if not tensor.numel() or not tensor.is_contiguous():
        return 0.0
    generator = torch.Generator().manual_seed(tensor.numel())
    kept, flat, hits = tensor.clone(), tensor.reshape(-1), 0
    try:
        for _ in range(PROBES):
            place = int(torch.randint(max(1, flat.numel() - LINE + 1), (1,), generator=generator))
            line, others = changes(kept, place, generator)
            for other in others:
                flat[line] = other
                if not all(torch.equal(a, b) for a, b in zip(outputs, answer())):
                    hits += 1
                    break
            flat[line] = kept.reshape(-1)[line]
    except Exception:  # an index out of its range: nothing can be said
        return 0.0
    finally:
        tensor.copy_(kept)
    return 1.0 if hits == PROBES else 0.5 * hits / PROBES


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
        total += share_that_matters(tensor, outputs, answer) * tensor.numel() * tensor.element_size()
    return {"bytes": total}
