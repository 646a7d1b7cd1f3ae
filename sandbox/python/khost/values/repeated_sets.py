"""Whether a task's inputs and state are ever the same twice: an answer that was given for them could then be given again."""

import hashlib
import random
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from khost.task.manifest import codes, leaves, real
from khost.task.task_file import seed_all, state_of

FEW = 1 << 12  # elements of inputs and state that are drawn again in no time
DRAWS = 32     # that are looked at, ...
HASHED = 1 << 16  # elements of a tensor by which two draws are told apart, spread over it
DRAWS_S = 0.3  # ... of larger ones as many as this leaves time for, at least one


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


def same_inputs(one, other):
    """Whether the inputs of two samples hold tensors, and the same ones in every bit."""
    return bool(leaves(one.values)) and equal_inputs(one, other)


def equal_inputs(one, other):
    return plain(one.values) == plain(other.values) and all(map(same, leaves(one.values), leaves(other.values)))


def equal_sets(one, other):
    """Whether inputs and live state of two samples are the same in every bit."""
    return equal_inputs(one, other) and all(
        map(same, state_of(one.model).values(), state_of(other.model).values()))


def same(one, other):
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not real(one):
        return torch.equal(codes(one), codes(other))
    return torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def plain(value):
    """What is no tensor in a tree of values."""
    if isinstance(value, dict):
        return [plain(v) for v in value.values()]
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return None if isinstance(value, torch.Tensor) else repr(value)


def few_values(task, first, seed):
    """Whether inputs take so few values that they come again by chance (a number from 1 to 4, one of eight batches): of many
    draws some are the same, and not all. The state counts too where the draws are small. `first`: a sample of the task."""
    small = sum(t.numel() for t in leaves(first.values) + list(state_of(first.model).values())) <= FEW
    seen, count, end = set(), 0, time.monotonic() + DRAWS_S
    while count < DRAWS and (small or time.monotonic() < end):
        values = task.inputs(seed + 2 * count + 1)
        drawn = leaves(values) + (list(state_of(task.model(seed + 2 * count, live=True)).values()) if small else [])
        digest = hashlib.blake2b(digest_size=16)
        for tensor in drawn:
            some = tensor.detach().reshape(-1)[::max(1, tensor.numel() // HASHED)].contiguous()
            digest.update(some.cpu().view(torch.uint8).numpy())
        seen.add(digest.digest())
        count += 1
    # Two of 32 small draws may be the same by chance, of a number with 10 bits; of large ones none are.
    return 1 < len(seen) <= count - (2 if small else 1)
