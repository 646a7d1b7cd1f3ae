"""The reference in double precision, and runs on inputs that were moved by one rounding.

`InDouble` widens every floating dtype that an operator is given, so a model that casts to bfloat16 or half by itself has
an oracle too. What the task's author wrote is run as it stands; only its precision changes."""

import contextlib
import copy

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from khost.task.manifest import leaves, real, with_tensors
from khost.values import attributes
from khost.values.structure import few_values, integral
from khost.task.task_file import call, fresh, state_of

NARROW = {torch.float32, torch.float16, torch.bfloat16}  # a cast to fewer bits is what a task computes, as a rounding is
COMPLEX = {torch.complex64, torch.complex32}
WIDE, HALVES = (torch.float32, torch.float64), (torch.float16, torch.bfloat16)
READS_BITS = {torch.ops.aten.view.dtype}  # the bits of a float are another number in double
# What these say of numbers that nothing was computed on is no matter of rounding.
COMPARISONS = {"gt", "ge", "lt", "le", "eq", "ne", "bucketize", "searchsorted", "isin"}
ROUNDINGS = {"round", "floor", "ceil", "trunc"}  # exact as those are, and as are whole numbers made of an input
CONSTANTS = {"lift_fresh"}  # torch.tensor in a forward
DTYPE_OF = torch.Tensor.dtype.__get__


class AsRead:
    """Which tensors of a run in double hold numbers as the reference reads them: inputs, state and constants, and views of
    these. Comparing two of them is exact in every kernel, so it is done on the reference's own numbers, however the run
    moved them."""

    def __init__(self):
        self.own = {}  # by the memory of the tensor in double: that tensor, which so stays alive, and the reference's

    def note(self, wide, own):
        if wide.numel() and wide.dtype == torch.float64:
            self.own[wide.untyped_storage().data_ptr()] = (wide, own)

    def forget(self, tensor):
        if isinstance(tensor, torch.Tensor) and tensor.numel():
            self.own.pop(tensor.untyped_storage().data_ptr(), None)

    def original(self, tensor):
        """The reference's numbers in place of a tensor's; None where it was computed."""
        wide, own = self.own.get(tensor.untyped_storage().data_ptr(), (None, None)) if tensor.numel() else (None, None)
        if wide is None or wide.dtype != tensor.dtype:
            return None
        laid_out = own.new_empty(wide.untyped_storage().nbytes() // wide.element_size())
        laid_out.as_strided(wide.shape, wide.stride(), wide.storage_offset()).copy_(own)
        return laid_out.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def originals(self, func, args, kwargs):
        """The arguments of a comparison or a rounding with the reference's numbers; None where one of its floats was computed."""
        if func.__name__.split(".")[0] not in COMPARISONS | ROUNDINGS:
            return None
        missing, given = [], []

        def replaced(value):
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                return value
            own = self.original(value)
            (missing if own is None else given).append(value)
            return own

        replacements = tree_map(replaced, (args, kwargs))
        return replacements if given and not missing else None


class Disguised(TorchFunctionMode):
    """Tells a model that runs in double the dtype that its tensors have in the reference: a model asks for one to choose a
    branch, an epsilon (torch.finfo(x.dtype).eps) or the number that masks (torch.finfo(x.dtype).min)."""

    def __init__(self, narrow):
        super().__init__()
        self.narrow = narrow

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return self.narrow if func == DTYPE_OF and result == torch.float64 else result


def dtype_told(tensors):
    """The one dtype of float tensors of inputs and state, in which the reference computes; None where they have several,
    or are float64."""
    dtypes = {t.dtype for t in tensors if real(t)}
    return dtypes.pop() if len(dtypes) == 1 and not dtypes & {torch.float64} else None


class InDouble(TorchDispatchMode):
    """Every narrow float tensor and dtype that an operator gets becomes float64 (complex128)."""

    def __init__(self, as_read=None, default=torch.float32, told=None, result_of=None):
        """`default`: the dtype that torch's default was in the reference. `told`: that of its tensors (dtype_told).
        `result_of`: what becomes of what an operator returns."""
        super().__init__()
        self.as_read, self.default, self.told, self.result_of = as_read or AsRead(), default, told, result_of

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing here is compiled, and skipping imports the compiler: 1 s of a child

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():  # nothing is disguised here
            return self.dispatch(func, args, kwargs or {})

    def dispatch(self, func, args, kwargs):
        if func in READS_BITS:
            raise NotImplementedError(f"{func} reads the bits of a float")
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self.same_draw(func, args, kwargs)
        if self.told and func.__name__.split(".")[0].startswith("nan_to_num"):
            args, kwargs = with_largest(args, kwargs, torch.finfo(self.told).max)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if not tensors or func.__name__.split(".")[0] in CONSTANTS:
            return self.constant(func, args, kwargs)
        originals = self.as_read.originals(func, args, kwargs)
        if originals is not None:
            return tree_map(widened, func(*originals[0], **originals[1]))
        if func._schema.is_mutable:
            for tensor in tensors:
                self.as_read.forget(tensor)
        pairs = []

        def widen(value):
            wide = widened(value)
            if wide is not value and isinstance(value, torch.Tensor):
                pairs.append((value, wide))
            return wide

        result = func(*tree_map(widen, args), **tree_map(widen, kwargs))
        if func._schema.is_mutable:  # a tensor outside inputs and state may be written to
            for narrow, wide in pairs:
                narrow.copy_(wide)
        result = tree_map(widened, result)
        return tree_map(self.result_of, result) if self.result_of else result

    def same_draw(self, func, args, kwargs):
        """What the reference draws: generators give other numbers for float64, so it is drawn in the reference's dtype."""
        narrow = self.told or self.default
        dtype = kwargs.get("dtype")
        if narrow != torch.float64 and dtype in (None, torch.float64) and any(
                a.name == "dtype" for a in func._schema.arguments):
            of = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor)]
            if dtype is not None or not of or of[0].dtype == torch.float64:
                kwargs = {**kwargs, "dtype": narrow}
        elif narrow != torch.float64 and func._schema.is_mutable and args[0].dtype == torch.float64:
            return args[0].copy_(func(args[0].to(narrow), *args[1:], **kwargs))
        return tree_map(widened, func(*args, **kwargs))

    def constant(self, func, args, kwargs):
        """A tensor that is made of numbers in the code (linspace, full, tensor): the reference's, in double."""
        result = func(*args, **kwargs)
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return tree_map(widened, result)
        if result.dtype == torch.float64 and self.default != torch.float64 and kwargs.get("dtype") is None:
            dtype = any(a.name == "dtype" for a in func._schema.arguments)
            result = func(*args, **{**kwargs, "dtype": self.default}) if dtype else result.to(self.default)
        wide = widened(result)
        if wide is not result:
            self.as_read.note(wide, result)
        return wide


def with_largest(args, kwargs, largest):
    """The arguments of nan_to_num with the numbers that stand for infinities: left out, they are the dtype's largest."""
    given = dict(zip(("self", "nan", "posinf", "neginf"), args), **kwargs)
    for name, value in (("posinf", largest), ("neginf", -largest)):
        given[name] = value if given.get(name) is None else given[name]
    return (given.pop("self"),), given


def rounded(value):
    """A float64 tensor rounded to float32 in place, where its elements do not share memory."""
    if isinstance(value, torch.Tensor) and value.dtype == torch.float64 and 0 not in value.stride():
        value.copy_(value.float())
    return value


def where_inexact(value, change):
    """A float64 tensor with `change` of its elements that are no numbers of float32, where they do not share memory."""
    if isinstance(value, torch.Tensor) and value.dtype == torch.float64 and 0 not in value.stride():
        inexact = (value.float() != value) & torch.isfinite(value)
        if bool(inexact.any()):
            value.copy_(torch.where(inexact, change(value), value))
    return value


def widened(value):
    if isinstance(value, torch.Tensor):
        if value.dtype in NARROW:
            return value.double()
        return value.to(torch.complex128) if value.dtype in COMPLEX else value
    if isinstance(value, torch.dtype):
        return torch.float64 if value in NARROW else torch.complex128 if value in COMPLEX else value
    return value


def run(model, values, mode=None):
    """The output tensors of a first call, under a dispatch mode: neither the model nor the inputs are changed by it."""
    model, values = copy.deepcopy(model), fresh(values)
    with mode or contextlib.nullcontext():
        return [leaf.detach() for leaf in leaves(call(model, values))]


def constructed_in_double(task, seed):
    """The model of a task with what its constructor computes in double; None where it cannot be made so."""
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with InDouble(default=default):
            return task.drawn(task.make_model, seed)
    except Exception:
        return None
    finally:
        torch.set_default_dtype(default)


def all_halves(model, values):
    """Whether all float inputs and state are of one half type."""
    return dtype_told([*leaves(values), *state_of(model).values()]) in HALVES


def run_in_double(model, values, move=None, result_of=None):
    """The outputs in double. `move` changes each float tensor of inputs and state, which it gets in double together with
    the tensor that the reference has. `result_of` changes what each operator returns."""
    default = torch.get_default_dtype()
    change = (lambda wide, own: wide) if move is None else move
    as_read = AsRead()

    def widen(tensor, exact=None):
        exact = tensor if exact is None else exact
        if not tensor.is_floating_point():
            return exact.clone()
        wide = change(exact.double(), tensor) if real(tensor) else exact.double()
        if tensor.dtype != torch.float64 or move is not None:
            as_read.note(wide, tensor)
        return wide

    try:
        torch.set_default_dtype(torch.float64)
        wide = copy.deepcopy(model).double()
        if move is not None:
            move_state(wide, model, move)
        own = state_of(model)
        for name, tensor in state_of(wide).items():
            if tensor.is_floating_point():
                as_read.note(tensor.data, own[name].data)
        attributes.change(wide, widen, attributes.exact_of(model))
        given, told = with_tensors(values, widen), dtype_told([*leaves(values), *own.values()])
        with Disguised(told) if told else contextlib.nullcontext(), InDouble(as_read, default, told, result_of):
            outputs = call(wide, given)
        return [leaf.detach() for leaf in leaves(outputs)]
    finally:
        torch.set_default_dtype(default)


def run_moved(model, values, move):
    """The outputs in the reference's own precision, inputs and state changed by `move`."""
    other = copy.deepcopy(model)
    move_state(other, model, move)
    attributes.change(other, lambda t, _: t if t.is_complex() else move(t.clone(), t))
    changed = with_tensors(values, lambda t: move(t.clone(), t) if real(t) else t.clone())
    return [leaf.detach() for leaf in leaves(call(other, changed))]


def move_state(model, original, move):
    own, done = state_of(original), set()
    for name, tensor in state_of(model).items():
        if real(own[name]) and tensor.data_ptr() not in done:
            done.add(tensor.data_ptr())  # tied parameters are moved once
            tensor.data.copy_(move(tensor.data, own[name].data))


def held(tensor):
    """Whether a tensor is not moved: whole numbers (labels, masks), and a few values over and over, since a jump at one of them
    is no rounding's."""
    return tensor.numel() == 0 or integral(tensor) or few_values(tensor)


class Scattered:
    """x (1 + u xi) with xi of 1 and -1; within the tensor's own range, so that a probability stays one. Of half types xi is
    drawn once per value, so that equal elements stay equal: they have many, and which of them comes first is no matter of
    rounding. Of others it is drawn per element: their few equal elements are what a sort leaves open."""

    def __init__(self, u, seed):
        self.u, self.seed, self.generators = u, seed, {}

    def signs(self, tensor):
        """1 or -1 for each element: drawn, or, of half types, a mix of the bits of its value and of the seed."""
        if tensor.dtype in WIDE:
            device = str(tensor.device)
            if device not in self.generators:
                self.generators[device] = torch.Generator(device=tensor.device).manual_seed(self.seed)
            drawn = torch.randint(0, 2, tensor.shape, dtype=torch.int8, generator=self.generators[device],
                                  device=tensor.device)
            return drawn.mul_(2).sub_(1)
        return self.by_value(tensor)

    def by_value(self, tensor):
        mixed = tensor.double().contiguous().view(torch.int64) ^ self.seed
        for shift, factor in ((32, -0x61C8864680B583EB), (29, -0x40A7B892E31B1A47), (32, 1)):
            mixed = (mixed ^ ((mixed >> shift) & ((1 << (64 - shift)) - 1))) * factor
        return mixed.bitwise_and_(1).mul_(2).sub_(1).to(torch.int8)

    def inexact(self, value):
        """What an operator returned, moved where float32 does not hold it; equal numbers stay equal. Kernels compute half types
        in float32, where a product of two such numbers is exact, and so is what a task makes of it (a half that is rounded)."""
        return where_inexact(value, lambda x: self.by_value(x).double().mul_(self.u).add_(1).mul_(x))

    def __call__(self, wide, own):
        if held(own):
            return wide
        return within(self.signs(own).double().mul_(self.u).add_(1).mul_(wide), wide)


class Coherent:
    """x (1 + u), or towards zero where that leaves the tensor's range."""

    def __init__(self, u):
        self.u = u

    def inexact(self, value):
        return where_inexact(value, lambda x: x * (1 + self.u))

    def __call__(self, wide, own):
        return wide if held(own) else within(wide * (1 + self.u), wide)


class Stepped:
    """Each element moved to a neighbour in its own dtype: for a reference that does not run in double."""

    def __init__(self, seed=None):
        self.signs = Scattered(0.0, seed).signs if seed is not None else None

    def __call__(self, mine, own):
        if held(own):
            return mine
        if own.dtype in (torch.float32, torch.float64):
            up = torch.full_like(mine, float("inf"))
            target = up if self.signs is None else up * self.signs(mine).to(mine.dtype)
            return within(torch.nextafter(mine, target), own)
        eps = torch.finfo(own.dtype).eps
        sign = 1.0 if self.signs is None else self.signs(mine).float()
        return within((own.float() * (1 + eps * sign)).to(own.dtype), own)


def within(moved, original):
    """`moved` within the range of the original's finite elements; what is not finite stays."""
    low, high = original.aminmax()
    if bool(torch.isfinite(low)) and bool(torch.isfinite(high)):
        return moved.clamp_(low, high)
    sound = torch.isfinite(original)
    if not bool(sound.any()):
        return original
    low, high = original[sound].aminmax()
    return torch.where(sound, moved.clamp(low, high), original)
