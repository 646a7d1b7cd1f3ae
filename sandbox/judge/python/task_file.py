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

from manifest import leaves, with_tensors

FILE = "model.py"  # what tracebacks and torch.jit call the file
BYTE_ORDER_MARK = "\ufeff"


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


def moved(value, device):
    return value if device == "cpu" else with_tensors(value, lambda tensor: tensor.to(device))


def fresh(values):
    """A copy for one call of forward, which may write into its inputs. Views of one storage stay views of one."""
    return copy.deepcopy(values)


def executed(source):
    """The module of a task's source: registered, so that dataclasses find their module, and with its lines known, so that
    inspect and torch.jit find the text of a function."""
    text = source.removeprefix(BYTE_ORDER_MARK)
    module = types.ModuleType("task")
    module.__file__ = FILE
    sys.modules[module.__name__] = module
    # An entry without a time is not looked up on the disk (linecache.checkcache).
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module


class Task:
    """One task in this process.

    source: the text of the file. seed: of what the file draws when it is imported. device: "cpu" or "cuda".
    Raises TaskFault where the file defines no task, and whatever the file itself raises."""

    def __init__(self, source, seed=0, device="cpu"):
        self.source, self.seed, self.device = source, seed, device
        self.draws_there = device != "cpu"  # whether the task's own code may draw on the device
        seed_all(seed)
        self.module = own_file_only(lambda: executed(source))
        for name in ("Model", "get_inputs"):
            if not hasattr(self.module, name):
                raise TaskFault("does_not_load", f"the task defines no {name}")
        model = self.module.Model
        if not (inspect.isclass(model) and issubclass(model, torch.nn.Module)):
            raise TaskFault("does_not_load", "Model is no torch.nn.Module")
        scripted = issubclass(model, torch.jit.ScriptModule)  # whose class has no forward, but its objects
        if not scripted and getattr(model, "forward", None) in (None, torch.nn.Module.forward):
            raise TaskFault("does_not_load", "Model defines no forward")

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
        return ([], init) if isinstance(init, dict) else (list(init), {})

    def make_model(self):
        """Without gradients: a tensor that a constructor computes of parameters (weight_norm) could not be copied else."""
        args, kwargs = self.init_inputs()
        with torch.no_grad():
            return self.module.Model(*args, **kwargs)

    def model(self, seed, live=False):
        """Model in evaluation mode. `live`: with parameters and statistics that no candidate has seen."""
        model = self.drawn(self.make_model, seed)
        if self.device != "cpu":
            model.to(self.device)
        model.eval().requires_grad_(False)
        if live:
            make_live(model)
        return model

    def inputs(self, seed):
        """What get_inputs gives: a list, a tuple or a dict."""
        values = self.drawn(self.module.get_inputs, seed)
        if not isinstance(values, (list, tuple, dict)):
            raise TaskFault("does_not_run", f"get_inputs returns {a_type(values)}: a list, a tuple or a dict is expected")
        return moved(with_tensors(values, lambda tensor: tensor.detach().resolve_neg()), self.device)

    def names(self, values=()):
        """Names of forward's arguments, in order; *args has as many as `values` needs: args_0, args_1."""
        try:
            parameters = list(inspect.signature(self.module.Model.forward).parameters.values())[1:]
        except (AttributeError, TypeError, ValueError):  # a method of TorchScript
            return []
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


def is_live(name, model_parameters):
    return name in model_parameters or name.rsplit(".", 1)[-1] in ("running_mean", "running_var")


def make_live(model):
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    done = set()
    for name, tensor in state_of(model).items():
        data = tensor.data
        if not data.is_floating_point() or not is_live(name, parameters) or data.data_ptr() in done:
            continue
        done.add(data.data_ptr())
        if name.endswith("running_var"):
            data.copy_(torch.randn_like(data).mul_(0.5).exp_())
        elif name.endswith("running_mean"):
            data.copy_(torch.randn_like(data))
        elif data.numel() and bool((data == data.reshape(-1)[0]).all()):
            add_noise(data)


def add_noise(data):
    """Spreads equal values over a range of one. What is not 0 keeps its sign: a scale or an epsilon may have to."""
    value = float(data.reshape(-1)[0])
    noise = torch.rand_like(data)
    if 0 < abs(value) < 0.5:
        data.mul_(0.5).add_(noise if value > 0 else -noise)
    else:
        data.add_(noise - 0.5)


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
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves(value) if leaf.is_floating_point())
