"""What a task has and does not need: inputs and parameters that change nothing, memory that nobody filled, outputs that
are somebody else's memory. All by trying it."""

import copy
import time

import torch

from khost.check.check_nulls import parts
from khost.task.manifest import leaves, real
from khost.task.task_file import call

NOTHING = 1e-4      # of an output's spread: changes below it are rounding
TRIED_SECONDS = 2.0
SKETCH = 64         # values of each output that a sketch has


def same(one, other):
    """Equal but for rounding."""
    for a, b in zip(one, other):
        if not a.is_floating_point():
            if not torch.equal(a, b):
                return False
            continue
        spread = float(a.float().std(unbiased=False)) if a.numel() > 1 else float(a.float().abs().sum())
        most = NOTHING * spread + 1e-7
        if a.numel() and not all(bool(((x.float() - y.float()).abs() <= most).all()) for x, y in parts(a, b)):
            return False
    return True


def idle_inputs(task, model, values, outputs, other):
    """Names of inputs for which others can be put without the output changing. One that is drawn to be the same each
    time says nothing."""
    names = task.names(values)
    items = list(values.items()) if isinstance(values, dict) else list(enumerate(values))
    found = []
    for place, (key, value) in enumerate(items):
        drawn = other[key]
        if not isinstance(value, torch.Tensor) or torch.equal(value, drawn):
            continue
        changed = copy.deepcopy(values)
        changed = {**changed, key: drawn.clone()} if isinstance(values, dict) else \
            [drawn.clone() if i == key else v for i, v in enumerate(changed)]
        if same(outputs, leaves(call(model, changed))):
            found.append(str(key) if isinstance(values, dict) else (names + [f"input_{place}"] * (place + 1))[place])
    return found


def idle_parameters(task, values):
    """Names of parameters that can be changed a lot without the output changing; as many as two seconds allow."""
    model = task.model(1, live=True)
    outputs = leaves(call(model, copy.deepcopy(values)))
    found, begin = [], time.perf_counter()
    for name, parameter in model.named_parameters():
        if time.perf_counter() - begin > TRIED_SECONDS:
            break
        data = parameter.data
        if not real(data) or data.numel() == 0:
            continue
        kept = data.clone()
        size = max(float(data.abs().max()), 0.5)
        data.add_((torch.rand_like(data) - 0.5).mul_(size))
        if same(outputs, leaves(call(model, copy.deepcopy(values)))):
            found.append(name)
        data.copy_(kept)
    return found


def reads_unfilled_memory(model, values, outputs):
    """Whether memory that torch.empty gives shows in the output: it is filled with NaN for one call."""
    fill, deterministic = torch.utils.deterministic.fill_uninitialized_memory, torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(True, warn_only=True)
        filled = leaves(call(model, copy.deepcopy(values)))
    except RuntimeError:  # an operator that has no deterministic form here
        return False
    finally:
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = fill
    return any(a.is_floating_point() and bool((torch.isfinite(a) & ~torch.isfinite(b)).any())
               for a, b in zip(outputs, filled))


def returns_given_memory(model, values):
    """Whether each output is a view of an input or of a parameter that came back as it was."""
    given = copy.deepcopy(values)
    theirs = [*leaves(given), *model.parameters(), *model.buffers()]
    kept = [t.clone() for t in theirs]
    outputs = leaves(call(model, given))
    places = {t.untyped_storage().data_ptr() for t in theirs}
    return all(x.untyped_storage().data_ptr() in places for x in outputs) and all(
        torch.equal(a, b) for a, b in zip(theirs, kept))


def sketch(outputs):
    """Some values of each output, by which another process sees whether it gets the same."""
    result = []
    for x in outputs:
        flat = x.detach().reshape(-1)
        step = max(1, flat.numel() // SKETCH)
        result.append([float(v) for v in torch.nan_to_num(flat[::step][:SKETCH].double().cpu())])
    return result
