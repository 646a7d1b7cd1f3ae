"""What a task is made of, found without its memory: the task is run on fake tensors, which have shapes and no values.

Counts bytes, FLOPs and operators, finds parameters and operators that the output does not depend on, and how far the
leading dimension must shrink until the task fits a budget."""

import weakref

import torch
from torch._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode,
                                           UnsupportedFakeTensorException, UnsupportedOperatorException)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from khost.task.manifest import Layout, leaves
from khost.task.task_file import Task, call, state_of
from khost.task.task_inspection import check_value, laid_out

# Failures that say nothing about the task: a fake tensor has no values to decide by, and not every operator has a rule.
UNSUPPORTED = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException,
               NotImplementedError)
DRAWS = {torch.rand, torch.randn, torch.randint, torch.zeros, torch.ones, torch.empty, torch.full}
SMALLEST_BATCH = 2
LEAST_EVERYWHERE = 1024  # smaller numbers may be the size of something else


def bytes_of(tensors):
    seen = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        seen[storage._cdata] = storage.nbytes()
    return sum(seen.values())


class Meter(TorchDispatchMode):
    """Which operator made which storage from which, and how many bytes live at once."""

    def __init__(self, sources, most_operators=None):
        super().__init__()
        self.most_operators = most_operators
        self.storages, self.producer, self.parents, self.names = {}, {}, [], []
        self.live, self.peak, self.holders, self.elements = 0, 0, {}, 0
        for name, tensor in sources:
            node = self.node("source " + name, set())
            self.producer[self.key(tensor)] = node
            self.hold(tensor)

    def node(self, name, parents):
        self.names.append(name)
        self.parents.append(parents)
        return len(self.names) - 1

    def key(self, tensor):
        storage = tensor.untyped_storage()
        self.storages.setdefault(storage._cdata, storage)  # kept, so that no other takes its place
        return storage._cdata

    def hold(self, tensor):
        key = self.key(tensor)
        if key not in self.holders:
            self.holders[key] = 0
        if self.holders[key] == 0:
            self.live += self.storages[key].nbytes()
            self.peak = max(self.peak, self.live)
        self.holders[key] += 1
        weakref.finalize(tensor, self.let_go, key)

    def let_go(self, key):
        self.holders[key] -= 1
        if self.holders[key] == 0:
            self.live -= self.storages[key].nbytes()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        result = func(*args, **kwargs)
        if func.namespace == "prim":  # a question such as where a tensor lives
            return result
        if self.most_operators is not None and len(self.names) > self.most_operators:
            raise TooManyOperators(f"more than {self.most_operators} operators")
        made = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        parents = {self.producer[k] for k in map(self.key, given) if k in self.producer}
        if not made and not func._schema.is_mutable:
            return result  # without a result it can only raise: a check of what another operator returned
        node = self.node(func.__name__.split(".")[0], parents)
        known = {self.key(t) for t in given}
        written = list(made)
        if func._schema.is_mutable:
            written += given[:1]
        for tensor in written:
            self.producer[self.key(tensor)] = node
        for tensor in made:
            if self.key(tensor) not in known:
                self.elements += tensor.numel()
            self.hold(tensor)
        return result

    def unreached(self, outputs):
        """Names of sources and of operators that no output depends on."""
        reached, stack = set(), [self.producer[k] for k in map(self.key, outputs) if k in self.producer]
        while stack:
            node = stack.pop()
            if node not in reached:
                reached.add(node)
                stack.extend(self.parents[node])
        return [name for node, name in enumerate(self.names) if node not in reached]


class Shrunk(TorchFunctionMode):
    """Draws whose leading dimension is `batch` get `small` instead; with `everywhere`, in each dimension of that size."""

    def __init__(self, batch, small, everywhere=False):
        super().__init__()
        self.batch, self.small, self.everywhere = batch, small, everywhere

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in DRAWS:
            args = self.smaller(func, list(args), kwargs)
        return func(*args, **kwargs)

    def smaller(self, func, args, kwargs):
        if "size" in kwargs:
            kwargs["size"] = self.size(kwargs["size"])
            return args
        for place, value in enumerate(args):
            if isinstance(value, (tuple, list, torch.Size)):
                args[place] = self.size(value)
                return args
        if func is not torch.randint and func is not torch.full:  # rand(n, m, …): the numbers are the size
            args = list(self.size(args))
        return args

    def size(self, size):
        if self.everywhere:
            return tuple(self.small if n == self.batch else n for n in size)
        return (self.small, *size[1:]) if len(size) > 0 and size[0] == self.batch else tuple(size)


def draw(task, seed, shrink=None):
    if shrink is None:
        return task.inputs(seed)
    with Shrunk(*shrink):
        return task.inputs(seed)


def named_inputs(task, values):
    if isinstance(values, dict):
        return [(k, v) for k, v in values.items() if isinstance(v, torch.Tensor)]
    names = task.names(values) + [f"input_{i}" for i in range(len(values))]
    return [(name, leaf) for name, value in zip(names, values) for leaf in leaves(value)]


# An operator without a rule for fake tensors is run on real ones instead: that is for small tasks only.
MOST_REAL_BYTES = 1 << 27


class TooManyOperators(ValueError):
    pass


def fake_run(source, shrink=None, most_operators=None):
    """Without real memory where every operator has a rule; else with it, when the task is small. A task of more than
    `most_operators` raises: a recurrent layer is one for each step of its sequence."""
    meters = []
    try:
        return fake_run_by(source, shrink, False, meters, most_operators)
    except (UnsupportedOperatorException, NotImplementedError) as error:
        if meters and meters[0].peak > MOST_REAL_BYTES:
            raise TooLargeToTry(f"no rule for {error}") from error
    return fake_run_by(source, shrink, True, [], most_operators)


class TooLargeToTry(NotImplementedError):
    pass


def fake_run_by(source, shrink, real, meters, most_operators=None):
    """`meters`: gets what measures the run, which stays when the run fails."""
    mode = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=real)
    with mode, torch.no_grad():
        task = Task(source)
        model = task.model(1)
        values = draw(task, 2, shrink)
        inputs, state = named_inputs(task, values), list(state_of(model).items())
        meter = Meter(inputs + state, most_operators)
        meters.append(meter)
        flops = FlopCounterMode(display=False)
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with flops, meter:
                value = call(model, values)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)
        outputs = leaves(value)
        if not outputs:
            laid_out("forward", lambda: Layout(value))
            check_value(value)
        return task, inputs, state, outputs, meter, flops.get_total_flops()


def described(name, tensor):
    return {"name": name, "size": list(tensor.shape), "dtype": str(tensor.dtype)[6:]}


def budget_of(facts, limits):
    return max(facts["peak_bytes"] / limits["most_bytes"], facts["flops"] / limits["most_flops"],
               facts["elements"] / limits["most_elements"])


def facts_of(run):
    _, inputs, state, outputs, meter, flops = run
    parameters = {"source " + name for name, tensor in state if isinstance(tensor, torch.nn.Parameter)}
    arguments = {"source " + name for name, _ in inputs}
    unreached = meter.unreached(outputs)
    return {
        "inputs": [described(*pair) for pair in inputs], "outputs": [described("", t) for t in outputs],
        "input_bytes": bytes_of(t for _, t in inputs), "state_bytes": bytes_of(t for _, t in state),
        "output_bytes": bytes_of(outputs), "peak_bytes": meter.peak, "flops": flops, "elements": meter.elements,
        "operators": len([n for n in meter.names if not n.startswith("source ")]),
        "unused_inputs": [n[7:] for n in unreached if n in arguments],
        "unused_parameters": [n[7:] for n in unreached if n in parameters],
        "dead_operators": [n for n in unreached if not n.startswith("source ") and n not in QUIET],
    }


QUIET = {"detach", "view", "alias", "_unsafe_view", "expand", "t", "transpose", "permute", "lift_fresh", "empty",
         "empty_like", "slice", "select", "unsqueeze", "squeeze", "stack", "cat"}


def shrink_for(source, facts, limits):
    """[batch, small], or [batch, small, True] for every dimension of that size, with which the task keeps within the
    limits; None when no such is found."""
    sizes = [i["size"] for i in facts["inputs"] if i["size"]]
    if not sizes:
        return None
    batch = sizes[0][0]
    least = max(SMALLEST_BATCH, int(batch / budget_of(facts, limits)))
    for everywhere in ([], [True]) if batch >= LEAST_EVERYWHERE else ([],):
        for small in (least, max(SMALLEST_BATCH, least // 4), SMALLEST_BATCH):
            if small >= batch:
                continue
            try:
                smaller = facts_of(fake_run(source, (batch, small, *everywhere)))
            except Exception:  # the leading dimension is no batch, or no batch alone
                break
            if budget_of(smaller, limits) <= 1:
                return [batch, small, *everywhere]
    return None


def smaller_facts(source, limits):
    """Facts on a smaller batch, with the batch as `shrink`; None when none works."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        task = Task(source)
        sizes = [list(t.shape) for _, t in named_inputs(task, draw(task, 2)) if t.dim()]
    for small in (256, 32, SMALLEST_BATCH):
        if sizes and small < sizes[0][0]:
            try:
                facts = facts_of(fake_run(source, (sizes[0][0], small)))
            except Exception:  # too large still, or no batch
                continue
            if budget_of(facts, limits) <= 1:
                return {**facts, "too_large": True, "shrink": [sizes[0][0], small]}
    return None


def structure(source, limits):
    """Facts of a task; `too_large` when it exceeds the limits, then with `shrink` if a smaller batch fits."""
    names = names_of(source)
    try:
        facts = facts_of(fake_run(source))
    except TooLargeToTry as error:
        facts = smaller_facts(source, limits)
        if facts is None:
            return {"dry_run": f"{error}"[:300], "arguments": names}
        return {**facts, "arguments": names}
    except TooManyOperators:
        raise
    except Exception as error:
        if not isinstance(error, UNSUPPORTED):
            run_for_real(source)
        return {"dry_run": f"{type(error).__name__}: {error}"[:300], "arguments": names}
    facts["arguments"] = names
    facts["too_large"] = budget_of(facts, limits) > 1
    if facts["too_large"]:
        facts["shrink"] = shrink_for(source, facts, limits)
    return facts


def run_for_real(source):
    """Raises what the task itself raises: not all that a task may do can be done with fake tensors."""
    task = Task(source)
    with torch.no_grad():
        call(task.model(1), task.inputs(2))


def names_of(source):
    """Loads the source once outside of fake tensors, so that its own errors come first."""
    return Task(source).names()
