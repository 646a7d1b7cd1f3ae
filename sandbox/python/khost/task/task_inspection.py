"""What may be wrong with a task as such, found by running it. The judge asks before it opens a task and `suite check` in its
stage "run"; each fault is a TaskFault with the name of its finding and one text, so that both say the same.

A task must return the same for the same inputs and state: in a second call, and from a Model that was constructed again and
given the same state. What it draws must have one form: sizes, dtypes and plain numbers stay, values change.
"""

import sys

import torch

from khost.task.manifest import Layout, difference, has_scalar, leaves, with_tensors
from khost.task.task_file import Task, TaskFault, call, fresh, seed_all, state_of
from khost.values.structure import elements_apart

LARGE = 1 << 28  # bytes of a set: a task beyond it is called twice and not drawn or constructed again, which would take minutes
COMPARED = (torch.float32, torch.float64, torch.float16, torch.bfloat16)  # floats that outputs may be
MORE_DRAWS = 6  # of inputs with plain numbers: two draws of a small whole number may be equal


class Inspected:
    """A task that has no fault: the model, inputs as drawn, what forward returned, and the layouts of inputs, state and
    outputs (manifest.py), in this order."""

    def __init__(self, model, values, value, layouts, changes_inputs):
        self.model, self.values, self.value = model, values, value
        self.layouts, self.changes_inputs = layouts, changes_inputs

    def inputs(self):
        """Inputs for one call more."""
        return fresh(self.values) if self.changes_inputs else self.values


def inspect_task(task, seed, live=False, draw=None):
    """Runs a task and returns what was seen of it; raises TaskFault, or whatever the task itself raises.

    live: whether weights are drawn as the judge draws them. draw: inputs of a seed, instead of task.inputs. The model is that
    of `seed`, the inputs are those of `seed + 1`."""
    draw = draw or task.inputs
    model = task.model(seed, live=live)
    values = draw(seed + 1)
    inputs = laid_out("get_inputs", lambda: Layout(plain(values), task.names(values)))
    state = laid_out("Model", lambda: Layout(state_of(model)))  # before a call, which may fill buffers by itself
    given = fresh(values)
    seed_all(seed)
    value = with_tensors(call(model, given), torch.clone)  # a later call may write into what Model keeps and returns
    outputs = laid_out("forward", lambda: Layout(value, contiguous=True))
    check_value(value)
    seen = Inspected(model, values, value, (inputs, state, outputs),
                     not same(values, given))
    del given
    check_repeats(task, seen, seed, live)
    if sum(layout.bytes for layout in seen.layouts) <= LARGE:
        check_draws(task, draw, seed, values, inputs)
        check_construction(task, seen, seed, live)
    if has_scalar(outputs.tree):
        check_form("forward returns", outputs, Layout(call(model, draw(seed + 2)), contiguous=True))
    return seen


def laid_out(who, make):
    try:
        return make()
    except TypeError as error:
        raise TaskFault("does_not_run", f"{who}: {error}") from error


def plain(values):
    """The inputs; a named tuple within them would reach a candidate as a plain one."""
    def look(value):
        if hasattr(value, "_fields"):
            raise TaskFault("does_not_run", f"get_inputs gives a {type(value).__name__}, a named tuple, which reaches a "
                                            "candidate without its names: use a tuple, a list or a dict")
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ():
            look(item)

    for item in values.values() if isinstance(values, dict) else values:
        look(item)
    return values


def check_value(value):
    """What forward returned can be judged: tensors with elements, and no NaN."""
    tensors = leaves(value)
    if not tensors:
        raise TaskFault("does_not_run", "forward returns no tensor: a number that it computes is judged as a tensor, without "
                                        ".item() or float()")
    if not any(tensor.numel() for tensor in tensors):
        raise TaskFault("no_elements", "forward returns no elements, so that every answer would be right")
    for place, tensor in enumerate(tensors):
        if tensor.is_floating_point() and tensor.dtype not in COMPARED:
            raise TaskFault("does_not_run", f"forward returns {tensor.dtype} as output {place}, which nothing is known to be "
                                            "near to: return a wider float, or its bits by .view(torch.uint8)")
        if tensor.is_floating_point():
            count = int(torch.isnan(tensor).sum())
            if count:
                raise TaskFault("returns_nan", f"forward returns NaN in {count} of {tensor.numel()} elements of output "
                                               f"{place}: NaN equals nothing, so that no answer can be judged")


def check_form(what, one, other):
    found = difference(one.manifest(), other.manifest())
    if found:
        raise varied(what, found)


def varied(what, found):
    return TaskFault("varies", f"{what} something of another form in another draw: {found}. Sizes, dtypes and plain numbers are "
                               "fixed in a task; a number that is drawn or computed belongs into a tensor")


def check_outputs(tensors, others):
    """What forward returned for one draw has the sizes and dtypes of what it returned for another."""
    for place, (one, other) in enumerate(zip(tensors, others)):
        if one.shape != other.shape or one.dtype != other.dtype:
            raise varied("forward returns", f"output {place} is {one.dtype} of size {list(one.shape)}, then {other.dtype} of size "
                                            f"{list(other.shape)}")
    if len(tensors) != len(others):
        raise varied("forward returns", f"{len(tensors)} tensors, then {len(others)}")


def check_draws(task, draw, seed, values, inputs):
    """The same seed gives the same inputs, and other seeds give inputs of the same form."""
    if not same(values, draw(seed + 1)):
        raise TaskFault("not_seeded", "get_inputs draws from something that no seed reaches: the same seed gives other inputs. "
                                      "Draw with the functions of torch, numpy.random or random themselves")
    for more in range(2, 2 + (MORE_DRAWS if has_scalar(inputs.tree) else 1)):
        other = draw(seed + more)
        check_form("get_inputs draws", inputs, laid_out("get_inputs", lambda other=other: Layout(other, task.names(other))))


def check_repeats(task, seen, seed, live):
    """A second call returns the same."""
    seed_all(seed + 1)
    if near(seen.value, call(seen.model, seen.inputs())):
        return
    again = task.model(seed, live=live)
    seed_all(seed + 2)
    if near(seen.value, call(again, seen.inputs())):
        raise TaskFault("stateful", "Model keeps a state from call to call: the second call with the same inputs returns "
                                    "something else than the first")
    raise TaskFault("not_deterministic", "the task is not deterministic: two calls with the same inputs differ")


def check_construction(task, seen, seed, live):
    """A Model that is constructed again and given the same state returns the same."""
    other = loaded_again(task)
    second = other.model(seed + 1, live=live)
    check_form("Model draws", seen.layouts[1], Layout(state_of(second)))
    mine = state_of(seen.model)
    for name, tensor in state_of(second).items():
        if elements_apart(tensor):
            tensor.data.copy_(mine[name].data)
        else:  # a buffer that `expand` made
            tensor.data = mine[name].data
    if not near(seen.value, call(second, seen.inputs())):
        names = drawn_outside(task, other, seen.model, second)
        raise TaskFault("hidden_state", f"Model depends on what is drawn outside of its state dict ({names}), which no "
                                        "candidate is given: make it a parameter, use register_buffer, or put modules in nn.ModuleList")


def loaded_again(task):
    """The file executed with another seed; the task itself where it cannot be executed twice in one process."""
    try:
        return Task(task.source, task.seed + 1, task.device)
    except Exception:
        return task
    finally:
        sys.modules[task.module.__name__] = task.module


def drawn_outside(task, other, model, second):
    """Names of attributes of the modules, and of the file's own variables, that differ between two constructions."""
    found, usual = [], set(vars(torch.nn.Module()))
    modules = dict(second.named_modules())
    for prefix, module in model.named_modules():
        twin = vars(modules[prefix]) if prefix in modules else {}
        found += [f"{prefix}.{key}" if prefix else key for key, value in vars(module).items()
                  if key not in usual and key in twin and unequal(value, twin[key])]
    theirs = vars(other.module)
    found += [f"{key} of the file" for key, value in vars(task.module).items()
              if not key.startswith("__") and key in theirs and unequal(value, theirs[key])]
    return ", ".join(repr(name) for name in found[:8]) or "no attribute of it differs"


def unequal(one, other, depth=3):
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape != other.shape or not torch.equal(one, other)
    if depth and isinstance(one, torch.nn.Module) and isinstance(other, torch.nn.Module):  # in a list that is no ModuleList
        return unequal(state_of(one), state_of(other), depth)
    if isinstance(one, (bool, int, float, str)) and isinstance(other, (bool, int, float, str)):
        return one != other
    if depth and isinstance(one, dict) and isinstance(other, dict):
        return any(unequal(value, other[key], depth - 1) for key, value in one.items() if key in other)
    if depth and isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return any(unequal(a, b, depth - 1) for a, b in zip(one, other))
    if type(one).__module__ == "numpy" and type(other).__module__ == "numpy":
        return not bool((one == other).all()) if getattr(one, "shape", None) == getattr(other, "shape", None) else True
    return False


def same(one, other):
    """Whether two nested values hold equal tensors; NaN equals NaN here."""
    mine, theirs = leaves(one), leaves(other)
    return len(mine) == len(theirs) and all(
        a.shape == b.shape and (torch.equal(a, b) or a.is_floating_point() and torch.allclose(a, b, 0, 0, equal_nan=True))
        for a, b in zip(mine, theirs))


def near(one, other):
    """Equal but for the last roundings, which may depend on where memory lies."""
    mine, theirs = leaves(one), leaves(other)
    return len(mine) == len(theirs) and all(
        a.shape == b.shape and (torch.equal(a, b) or a.is_floating_point() and torch.allclose(
            a, b, rtol=1e-5, atol=1e-6, equal_nan=True)) for a, b in zip(mine, theirs))
