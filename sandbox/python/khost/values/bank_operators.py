"""The task's own operators, one of them left out or reducing over half of its axis: what a kernel that skips work returns.

The model runs as it stands, under a dispatch mode that counts the operators that may be changed and changes one."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from khost.values.oracle import run

# Operators that move, copy or make values without computing any.
PASSIVE = {"view", "_unsafe_view", "detach", "alias", "clone", "contiguous", "expand", "_to_copy", "copy_", "empty_like",
           "lift_fresh", "t", "transpose", "permute", "reshape", "unsqueeze", "squeeze", "slice", "select", "fill_",
           "zeros_like", "ones_like", "full_like", "new_zeros", "new_empty", "new_full", "_reshape_alias", "as_strided",
           "zero_", "rand_like", "randn_like", "scalar_tensor", "native_dropout", "bernoulli_", "_reshape_copy"}
# Reductions whose first operand is reduced along the axes that their second one names (all of them where it is absent).
REDUCTIONS = {"sum", "mean", "var", "std", "amax", "amin", "max", "min", "prod", "logsumexp", "norm",
              "linalg_vector_norm", "var_mean", "std_mean", "argmax", "argmin"}
# Products: (place of the operand whose last axis is contracted).
PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "mv": 0, "dot": 0, "addmv": 1, "linear": 0}
SAME_SHAPE = {"native_group_norm", "native_batch_norm", "_native_batch_norm_legit_no_training", "_batch_norm_impl_index",
              "cumsum", "cumprod", "tril", "triu", "flip", "roll", "sort", "logcumsumexp", "cudnn_batch_norm",
              "native_batch_norm_legit", "_scaled_dot_product_flash_attention_for_cpu", "glu_backward"}
NORMALISED = {"_softmax", "_log_softmax", "native_layer_norm", "_fused_rms_norm"}
LEAST_AXIS = 16


def name_of(func):
    return func.__name__.split(".")[0]


def floats(args):
    return [a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]


def first_tensor(result):
    if isinstance(result, (tuple, list)) and result:
        result = result[0]
    return result if isinstance(result, torch.Tensor) else None


class Changing(TorchDispatchMode):
    """Changes the `wanted`-th of the changes that the model's operators allow; `found` names all that it met."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing here is compiled, and skipping imports the compiler: 1 s of a child

    def __init__(self, wanted=-1):
        super().__init__()
        self.wanted, self.found, self.names = wanted, [], {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = name_of(func)
        if name in PASSIVE or not floats(args):
            return func(*args, **kwargs)
        changed = None
        for way, change in self.ways(func, name, args, kwargs):
            if len(self.found) == self.wanted and changed is None:
                changed = change
            self.found.append(f"{name}#{self.names.get(name, 0)} {way}")
        self.names[name] = self.names.get(name, 0) + 1
        return func(*args, **kwargs) if changed is None else changed()

    def ways(self, func, name, args, kwargs):
        """Pairs (name, function that returns what the operator then does)."""
        found = []
        axis_of = halved_axes(name, args, kwargs)
        if axis_of is not None:
            place, axes = axis_of
            if any(args[place].shape[a] >= LEAST_AXIS for a in axes):
                found.append(("over half of its axis", lambda: func(*with_half(args, place, axes, name), **kwargs)))
        shape = shape_of_result(func, args, kwargs, name)
        for order, operand in enumerate(floats(args)[:2]):
            if shape is not None and operand.shape == shape and not (order and operand is floats(args)[0]):
                way = "left out" if order == 0 else "left out, its second operand kept"
                found.append((way, lambda kept=operand: left_out(func, args, kwargs, kept)))
        return found


def shape_of_result(func, args, kwargs, name):
    """The shape that an operator is expected to return: what is left out must have that of the result, which
    `left_out` makes sure of."""
    first = floats(args)[0]
    if name in NORMALISED or func._schema.is_mutable and isinstance(args[0], torch.Tensor):
        return first.shape
    if name in REDUCTIONS or name in PRODUCTS and name not in ("mm", "bmm"):
        return None
    if name in SAME_SHAPE or all(f.shape == first.shape for f in floats(args)):
        return first.shape
    try:
        return torch.broadcast_shapes(*[f.shape for f in floats(args)])
    except RuntimeError:
        return None


def left_out(func, args, kwargs, kept):
    if func._schema.is_mutable and isinstance(args[0], torch.Tensor):
        return args[0] if kept is args[0] else args[0].copy_(kept)
    result = func(*args, **kwargs)
    like = first_tensor(result)
    if like is None or like.shape != kept.shape:
        raise ValueError("the result has another shape")
    kept = kept.to(like.dtype).clone()
    return kept if isinstance(result, torch.Tensor) else type(result)([kept, *result[1:]])


def halved_axes(name, args, kwargs):
    """Which operand is reduced, and along which axes; None for operators that reduce nothing."""
    if name in PRODUCTS:
        operand = args[PRODUCTS[name]]
        return (PRODUCTS[name], [operand.dim() - 1]) if isinstance(operand, torch.Tensor) and operand.dim() else None
    if name not in REDUCTIONS | {"convolution"} or not isinstance(args[0], torch.Tensor) or args[0].dim() == 0:
        return None
    if name == "convolution":
        return (1, [1]) if args[1].shape[1] >= LEAST_AXIS else None
    where = 2 if name in ("norm", "linalg_vector_norm") else 1
    dims = kwargs.get("dim", args[where] if len(args) > where else None)
    if dims is None or isinstance(dims, (list, tuple)) and not dims:
        return 0, list(range(args[0].dim()))
    if isinstance(dims, (torch.Tensor, bool, float)):
        return None
    return 0, [d % args[0].dim() for d in (dims if isinstance(dims, (list, tuple)) else [dims])]


def with_half(args, place, axes, name):
    """The arguments with half of the longest axis reduced: the first half twice (a sample of a sum or a mean), or, of a
    product, the second half as zeros."""
    operand = args[place]
    axis = max(axes, key=lambda a: operand.shape[a])
    size = operand.shape[axis]
    if name in PRODUCTS or name == "convolution":
        changed = operand.clone()
        changed.narrow(axis, size // 2, size - size // 2).zero_()
    else:
        index = torch.arange(size, device=operand.device) % (size - size // 2)
        changed = operand.index_select(axis, index)
    return [*args[:place], changed, *args[place + 1:]]


def changes(model, values):
    """Names of the changes that the model's operators allow, in the order in which they run."""
    mode = Changing()
    run(model, values, mode)
    return mode.found


def changed(model, values, which):
    """What the model returns with one change; None where it then does not run."""
    try:
        return run(model, values, Changing(which))
    except Exception:
        return None
