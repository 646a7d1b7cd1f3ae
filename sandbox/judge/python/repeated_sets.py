"""Whether a task's inputs and state are ever the same twice: an answer that was given for them could then be given again."""

import random

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from manifest import leaves
from task_file import seed_all, state_of

FEW = 1 << 12  # elements of inputs and state; larger ones are the same twice where nothing is drawn, and not by chance
DRAWS = 32      # of them are looked at


class Drawing(TorchDispatchMode):
    """Notices operators that draw from a generator."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing here is compiled, and skipping imports the compiler: 1 s of a child

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
        return leaves(sample.values) + list(state_of(sample.model).values())

    def plain(value):
        if isinstance(value, dict):
            return [plain(v) for v in value.values()]
        if isinstance(value, (tuple, list)):
            return [plain(v) for v in value]
        return None if isinstance(value, torch.Tensor) else repr(value)

    return plain(one.values) == plain(other.values) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        for a, b in zip(tensors(one), tensors(other)))


def few_values(task, first, seed):
    """Whether inputs and state take so few values that they come again by chance (a number from 1 to 4): of many draws
    several are the same, and not all. `first`: a sample of the task."""
    if sum(t.numel() for t in leaves(first.values) + list(state_of(first.model).values())) > FEW:
        return False
    seen = set()
    for number in range(DRAWS):
        model, values = task.model(seed + 2 * number, live=True), task.inputs(seed + 2 * number + 1)
        drawn = leaves(values) + list(state_of(model).values())
        seen.add(b"".join(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for t in drawn))
    return 1 < len(seen) <= DRAWS - 2
