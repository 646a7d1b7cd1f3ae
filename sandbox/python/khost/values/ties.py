"""Another order among equal elements. Which of them an operator takes first is its own choice: a router's top two of bfloat16
numbers are equal in a few rows of a hundred. argmax, max and stable sorts say that the first comes first."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Operators, and the places of `dim` among their arguments.
CHOOSING = {"topk": 2, "sort": 1, "argsort": 1, "kthvalue": 2, "median": 1, "mode": 1}
RUNNING = {"cummax": torch.gt, "cummin": torch.lt}  # of equal elements these take the last one


def first_of_equals(func, args, kwargs, better):
    """A running maximum or minimum whose index is that of the first element that reaches it."""
    values, _ = func(*args, **kwargs)
    axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    if values.dim() == 0:
        return func(*args, **kwargs)
    axis %= values.dim()
    places = torch.arange(values.shape[axis], device=values.device).reshape([-1] + [1] * (values.dim() - 1 - axis))
    new = torch.ones_like(values, dtype=torch.bool)
    length = values.shape[axis] - 1
    new.narrow(axis, 1, length).copy_(better(values.narrow(axis, 1, length), values.narrow(axis, 0, length)))
    return values, torch.where(new, places, 0).cummax(axis).values


class OtherTies(TorchDispatchMode):
    """Runs these operators on the axis turned around, so that the last of equal elements comes first. `used`: those that
    ran."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing here is compiled, and skipping imports the compiler: 1 s of a child

    def __init__(self):
        super().__init__()
        self.used = set()

    def named(self):
        return " and ".join(sorted(self.used))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, overload = [*func.__name__.split("."), "default"][:2]
        if name in RUNNING and isinstance(args[0], torch.Tensor) and args[0].numel():
            self.used.add(name)
            return first_of_equals(func, args, kwargs, RUNNING[name])
        if name not in CHOOSING or name == "median" and overload == "default" or kwargs.get("stable"):
            return func(*args, **kwargs)
        x, place = args[0], CHOOSING[name]
        axis = kwargs.get("dim", args[place] if len(args) > place else -1)
        if x.dim() == 0 or not isinstance(axis, int):
            return func(*args, **kwargs)
        unsorted = name == "topk" and not kwargs.get("sorted", args[4] if len(args) > 4 else True)
        self.used.add("topk(sorted=False)" if unsorted else name)
        result = func(x.flip(axis), *args[1:], **kwargs)
        last = x.shape[axis] - 1
        if isinstance(result, torch.Tensor):
            return last - result
        return type(result)((result[0], last - result[1])) if len(result) == 2 else result
