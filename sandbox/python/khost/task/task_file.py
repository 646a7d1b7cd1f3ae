"""A task file: how it is executed, and how its model and inputs are drawn. Whoever needs a task uses this; what may be wrong
with one stands in task_inspection.py.

Everything random is seeded by the judge, anew for each set. Parameters and normalisation statistics are inputs: they
are drawn again for each set, and what an initialiser leaves constant gets noise, so that no candidate can keep what it
derived from older weights.
"""

import copy
import inspect
import linecache
import random
import sys
import types

import torch

from khost.task.init_inputs import arguments
from khost.task.manifest import leaves, real, with_tensors

FILE = "model.py"  # what tracebacks and torch.jit call the file
BYTE_ORDER_MARK = "\ufeff"
compile_model = torch.compile  # for whoever compiles a task's model on purpose
copy._deepcopy_dispatch[types.ModuleType] = lambda module, _: module  # of `self.xp = torch`
torch.jit.ScriptFunction.__deepcopy__ = lambda function, _: function  # which nothing can change, nor copy
LARGE = 1 << 28  # bytes of parameters beyond which a model is not constructed once more than need be


class TaskFault(ValueError):
    """A fault of the task: `name` is that of the finding (scripts/suites/health.lua), the text says what is wrong and what
    helps. Check and judge say the same text."""

    def __init__(self, name, text):
        super().__init__(text)
        self.name = name


def seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        import numpy
        numpy.random.seed(seed % 2**32)
    except ImportError:
        pass


def left_as_it_is(model=None, *args, **options):
    """torch.compile in a task's file: it says how fast, not what; whether a compiler is faster is a baseline's question."""
    return (lambda function: function) if model is None else model


def without_gradients(mode=True):
    """torch.inference_mode in a task's file: what is computed under it cannot be looked into, and without gradients it computes
    the same."""
    return torch.no_grad(mode) if callable(mode) else torch.no_grad()


def moved(value, device):
    return value if device == "cpu" else with_tensors(value, lambda tensor: tensor.to(device))


def fresh(values):
    """A copy for one call of forward, which may write into its inputs. Views of one storage stay views of one."""
    return copy.deepcopy(values)


def executed(source, name="task", file=FILE, given=None):
    """The module of a file's source: registered, so that dataclasses find their module, and with its lines known, so that
    inspect and torch.jit find the text of a function. `given`: what it finds among its names from the begin."""
    text = source.removeprefix(BYTE_ORDER_MARK)
    module = types.ModuleType(name)
    module.__file__ = file
    module.__dict__.update(given or {})
    sys.modules[name] = module
    sys.argv = [file]  # a file that reads its options finds none
    # An entry without a time is not looked up on the disk (linecache.checkcache).
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), module.__dict__)
    return module


class Task:
    """One task in this process.

    source: the text of the file. seed: of what the file draws when it is imported. device: "cpu" or "cuda".
    Raises TaskFault where the file defines no task, and whatever the file itself raises."""

    def __init__(self, source, seed=0, device="cpu"):
        self.source, self.seed, self.device = source, seed, device
        self.draws_there = device != "cpu"  # whether the task's own code may draw on the device
        seed_all(seed)
        torch.compile = left_as_it_is
        torch.inference_mode = torch.autograd.inference_mode = without_gradients
        self.module = own_file_only(lambda: executed(source))
        self.constants, self.frozen = None, set()  # see constant_inputs; names of unchanging parameters that are not trained
        self.unchanging = None  # names of parameters that a constructor makes the same, whatever the seed is
        for name in ("Model", "get_inputs"):
            if not hasattr(self.module, name):
                raise TaskFault("does_not_load", f"the task defines no {name}{self.what_it_defines(name)}")
        model = self.module.Model
        if not (inspect.isclass(model) and issubclass(model, torch.nn.Module)):
            raise TaskFault("does_not_load", "Model is no torch.nn.Module: a class that is derived from it is expected")
        scripted = issubclass(model, torch.jit.ScriptModule)  # whose class has no forward, but its objects
        if not scripted and getattr(model, "forward", None) in (None, torch.nn.Module.forward):
            raise TaskFault("does_not_load", "Model defines no forward")

    def what_it_defines(self, name):
        """Of a task without Model, the classes that may be meant."""
        classes = [key for key, value in vars(self.module).items() if inspect.isclass(value) and
                   issubclass(value, torch.nn.Module) and value.__module__ == self.module.__name__]
        if name != "Model" or not classes:
            return ""
        return f": it defines {', '.join(classes[:6])}; the class that is judged has to be called Model"

    def drawn(self, make, seed):
        """What `make` returns on the device; drawn there unless the task does not allow it (own generators)."""
        if self.draws_there:
            try:
                seed_all(seed)
                with torch.device(self.device):
                    return own_file_only(make)
            except Exception:
                self.draws_there = False
        seed_all(seed)
        return own_file_only(make)

    def init_inputs(self):
        """Positional and named arguments of Model."""
        init = self.module.get_init_inputs() if hasattr(self.module, "get_init_inputs") else []
        if init is None:
            init = []
        if not isinstance(init, (list, tuple, dict)):
            raise TaskFault("does_not_load", f"get_init_inputs returns {a_type(init)}: a list, a tuple or a dict is expected")
        return arguments(init, self.module.Model)

    def make_model(self):
        """Without gradients: a tensor that a constructor computes of parameters (weight_norm) could not be copied else."""
        args, kwargs = self.init_inputs()
        with torch.no_grad():
            return self.module.Model(*args, **kwargs)

    def model(self, seed, live=False):
        """Model in evaluation mode. `live`: with parameters and statistics that no candidate has seen."""
        model = self.drawn(self.make_model, seed)
        if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in model.parameters()):
            raise TaskFault("does_not_load", "Model has lazy modules, whose weights have no sizes before the first call: give "
                                             "their sizes, as nn.Linear(64, 32) in place of nn.LazyLinear(32)")
        if self.device != "cpu":
            model.to(self.device)
        trained = {name for name, p in model.named_parameters(remove_duplicate=False) if p.requires_grad}
        model.eval()  # whose train() may return nothing, as in models with frozen stages
        model.requires_grad_(False)
        if live:
            unchanging = self.same_in_each_draw(model, seed)
            self.frozen = unchanging - trained
            make_live(model, seed, trained & unchanging, self.frozen)
        return model

    def same_in_each_draw(self, model, seed):
        """Names of parameters that do not depend on the seed: an identity, a schedule, what a constructor draws after it
        seeded a generator by itself. `model`: as it was drawn from the seed."""
        if self.unchanging is None:
            mine = dict(model.named_parameters(remove_duplicate=False))
            self.unchanging = set()
            if sum(p.numel() * p.element_size() for p in mine.values()) <= LARGE:
                other = self.drawn(self.make_model, seed + 1).to(self.device)
                theirs = dict(other.named_parameters(remove_duplicate=False))
                self.unchanging = {name for name, p in mine.items() if name in theirs and torch.equal(p, theirs[name])}
        return self.unchanging

    def inputs(self, seed):
        """What get_inputs gives: a list, a tuple or a dict."""
        values = self.drawn(self.module.get_inputs, seed)
        if not isinstance(values, (list, tuple, dict)):
            raise TaskFault("does_not_run", f"get_inputs returns {a_type(values)}: a list, a tuple or a dict is expected")
        return moved(with_tensors(values, lambda tensor: tensor.detach().resolve_neg()), self.device)

    def constant_inputs(self):
        """Places, among the tensors of get_inputs, of float ones that are the same in each draw although others are not: tables
        of cosines, grids of times. Zeros alone are a first state."""
        if self.constants is None:
            one, other = leaves(self.inputs(1)), leaves(self.inputs(2))
            pairs = list(enumerate(zip(one, other))) if len(one) == len(other) else []
            floats = {place for place, (t, _) in pairs if real(t)}
            same = {place for place, (t, u) in pairs
                    if place in floats and t.shape == u.shape and torch.equal(t, u) and bool(t.any())}
            self.constants = same if same != floats else set()
        return self.constants

    def names(self, values=()):
        """Names of forward's arguments, in order; *args has as many as `values` needs: args_0, args_1."""
        try:
            parameters = list(inspect.signature(self.module.Model.forward).parameters.values())
        except (AttributeError, TypeError, ValueError):  # a method of TorchScript
            return []
        if parameters and parameters[0].kind != inspect.Parameter.VAR_POSITIONAL:  # which of a decorator's takes self too
            parameters = parameters[1:]
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        more = [p.name for p in parameters if p.kind == p.VAR_POSITIONAL]
        if more:
            names += [f"{more[0]}_{place}" for place in range(len(values) - len(names))]
        return names


def a_type(value):
    kind = "Tensor" if isinstance(value, torch.Tensor) else type(value).__name__  # also of a fake one
    return "None" if value is None else f"a value of type {kind}"


def own_file_only(make):
    """What `make` returns; a task that looks for other files is told that there are none."""
    try:
        return make()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        if error.filename is None:
            raise
        raise TaskFault("does_not_load", f"the task reads {error.filename!r}, which is not there: a task is one file") \
            .with_traceback(error.__traceback__) from error


def live_state(model):
    """Names and data of what each set has of its own: floating parameters and running statistics, tied ones once."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    done = set()
    for name, tensor in state_of(model).items():
        live = name in parameters or name.rsplit(".", 1)[-1] in ("running_mean", "running_var")
        if live and real(tensor) and tensor.data_ptr() not in done:
            done.add(tensor.data_ptr())
            yield name, tensor.data


def make_live(model, seed=0, unchanging=(), frozen=()):
    """Draws normalisation statistics, and spreads parameters that are the same in each draw: equal values, and those that
    `unchanging` names. Equal values of a `frozen` one are a filter's, unless they are the 0 or 1 of a norm. The noise comes
    from generators of its own: a constructor may have seeded torch's."""
    generators = {}

    def noise(draw, data):
        device = data.device
        if device not in generators:
            generators[device] = torch.Generator(device=device).manual_seed((seed * 0x5851F42D4C957F2D + 1) % 2**63)
        return draw(data.shape, generator=generators[device], dtype=data.dtype, device=device)

    for name, data in live_state(model):
        if name.endswith("running_var"):
            data.copy_(noise(torch.randn, data).mul_(0.5).exp_())
        elif name.endswith("running_mean"):
            data.copy_(noise(torch.randn, data))
        elif one_value(data) is not None and (name not in frozen or one_value(data) in (0.0, 1.0)):
            add_noise(data, noise(torch.rand, data))
        elif name in unchanging:
            data.mul_(factors(data, lambda like: noise(torch.rand, like)))


def one_value(data):
    """The value that all elements have, None where they have several."""
    return float(data.reshape(-1)[0]) if data.numel() and bool((data == data.reshape(-1)[0]).all()) else None


def add_noise(data, noise):
    """Spreads equal values over a range of about one. What is not 0 keeps its sign, and what is less than one stays so: a
    scale, an epsilon, a decay may have to."""
    value = float(data.reshape(-1)[0])
    size = abs(value)
    if 0 < size < 1:
        low = size / 2 if size < 0.5 else size - 0.5
        data.copy_(noise.mul(1 - low).add_(low).mul_(1 if value > 0 else -1))
    else:
        data.add_(noise - 0.5)


def factors(data, noise):
    """By what a parameter is multiplied that is the same in each draw: numbers from .5 to 1.5, to 1 where all of it is one
    or less: a recurrence that begins as the identity would grow without end. Zeros and signs stay, a triangular weight is one
    still; one that is in an order has one factor."""
    drawn = noise(data.reshape(-1)[:1].clone()) if in_order(data) else noise(data)
    return drawn.mul(0.5 if float(data.abs().max()) <= 1 else 1.0).add_(0.5)


def in_order(data):
    """Whether each element along an axis is larger than the one before it, or each smaller."""
    steps = [data.diff(dim=axis) for axis in range(data.dim()) if data.shape[axis] > 2]
    return any(bool((s > 0).all()) or bool((s < 0).all()) for s in steps)


def state_of(model):
    """The tensors of a model by name: its state dict, and behind it the buffers that are not saved with it
    (register_buffer(persistent=False)), which may be drawn as well."""
    state = {name: value for name, value in model.state_dict(keep_vars=True).items() if isinstance(value, torch.Tensor)}
    for name, buffer in model.named_buffers(remove_duplicate=False):
        state.setdefault(name, buffer)
    return state


def call(model, values):
    """What forward returns. It may write into `values`: give it fresh() ones where they are needed afterwards."""
    with torch.no_grad():
        return model(**values) if isinstance(values, dict) else model(*values)


def finite(value):
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves(value) if real(leaf))
