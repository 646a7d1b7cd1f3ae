"""What get_init_inputs returns, as the positional and named arguments of a class: whoever makes Model or ModelNew uses this."""

import inspect


def arguments(init, made_of):
    """(positional, named) for the class `made_of`: a list, a dict of named ones, or both as [[...], {...}] where the class
    takes that so."""
    if isinstance(init, dict):
        return [], init
    if not isinstance(init, (list, tuple)):
        return [init], {}
    return (list(init[0]), init[1]) if are_both(init, made_of) else (list(init), {})


def are_both(init, made_of):
    """Also where the class would take a list and a dict, but the dict's keys are the names of its own arguments."""
    if len(init) != 2 or not isinstance(init[0], (list, tuple)) or not isinstance(init[1], dict):
        return False
    return takes(made_of, init[0], init[1]) and (not takes(made_of, init, {}) or bool(init[1]))


def takes(made_of, args, kwargs):
    try:
        inspect.signature(made_of).bind(*args, **kwargs)
        return True
    except (TypeError, ValueError):
        return False
