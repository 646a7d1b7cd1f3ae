"""Tensors that modules keep as plain attributes, tables and caches, which `.double()` and a state dict leave out. No kernel is
given them: one that needs a table computes it by itself, so that the table's rounding belongs to what is allowed."""

import weakref

import torch

from khost.task.manifest import leaves, real, with_tensors

OF_MODULES = set(vars(torch.nn.Module()))  # what every module has, its parameters, buffers and modules among it
ALIKE = 1e-2  # of the largest: a table that is further off was not made by the same computation

exact_tables = weakref.WeakKeyDictionary()  # by model: its tables as computed in double, in the order of holders()


def numbers(tensor):
    return real(tensor) or tensor.is_complex()


def holders(model):
    """The dicts of attributes and the keys in them that hold float or complex tensors: of modules, and of objects of the
    task's own classes that a module keeps, such as a cache."""
    def look(owner):
        for key, value in list(vars(owner).items()):
            if key in OF_MODULES:
                continue
            if any(numbers(t) for t in leaves(value)):
                yield vars(owner), key
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if type(one).__module__ == own and hasattr(one, "__dict__") and not isinstance(one, torch.nn.Module):
                    yield from look(one)

    own = type(model).__module__
    for module in model.modules():
        yield from look(module)


def tensors(model):
    return [t for held, key in holders(model) for t in leaves(held[key]) if numbers(t)]


def know(model, construct):
    """Keeps what the tables of a model are in double; `construct` makes the model so, and is called if there are any."""
    mine = tensors(model)
    other = construct() if mine else None
    theirs = tensors(other) if other is not None else []
    if mine and len(mine) == len(theirs) and all(alike(a, b) for a, b in zip(mine, theirs)):
        exact_tables[model] = theirs


def alike(own, exact):
    if own.shape != exact.shape or own.is_complex() != exact.is_complex():
        return False
    apart = (own.to(exact.dtype) - exact.to(own.device)).abs()
    return not own.numel() or bool((apart[torch.isfinite(apart)] <= ALIKE * exact.abs().max()).all())


def exact_of(model):
    return exact_tables.get(model)


def change(model, change_one, exact=None):
    """Replaces each of these tensors by what `change_one` makes of it and of the same table in double, None where that is not
    known."""
    rest = iter(exact) if exact else None

    def changed(tensor):
        return change_one(tensor, next(rest) if rest else None) if numbers(tensor) else tensor

    for held, key in list(holders(model)):
        held[key] = with_tensors(held[key], changed)
