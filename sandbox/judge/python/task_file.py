"""A task file: how it is executed, and how its model and inputs are drawn.

Everything random is seeded by the judge, anew for each set. Parameters and normalisation statistics are inputs: they
are drawn again for each set, and what an initialiser leaves constant gets noise, so that no candidate can keep what it
derived from older weights.
"""

import inspect
import random
import types

import torch

from manifest import leaves
from planting import add_outliers


def seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        import numpy
        numpy.random.seed(seed % 2**32)
    except ImportError:
        pass


def moved(value, device):
    if device == "cpu":
        return value
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(moved(item, device) for item in value)
    return value


class Task:
    def __init__(self, source, seed=0, device="cpu"):
        self.device = device
        self.draws_there = device != "cpu"  # whether the task's own code may draw on the device
        self.module = types.ModuleType("task")
        self.module.__file__ = "model.py"
        seed_all(seed)
        exec(compile(source, "model.py", "exec"), self.module.__dict__)
        for name in ("Model", "get_inputs"):
            if not hasattr(self.module, name):
                raise ValueError(f"the task defines no {name}")

    def drawn(self, make, seed):
        """What `make` returns on the device; drawn there unless the task does not allow it (own generators)."""
        if self.draws_there:
            try:
                seed_all(seed)
                with torch.device(self.device):
                    return make()
            except Exception:
                self.draws_there = False
        seed_all(seed)
        return make()

    def make_model(self):
        init = self.module.get_init_inputs() if hasattr(self.module, "get_init_inputs") else []
        return self.module.Model(**init) if isinstance(init, dict) else self.module.Model(*init)

    def model(self, seed, live=False):
        model = self.drawn(self.make_model, seed)
        if self.device != "cpu":
            model.to(self.device)
        model.eval().requires_grad_(False)
        if live:
            make_live(model)
        return model

    def inputs(self, seed, plant=False):
        values = moved(self.drawn(self.module.get_inputs, seed), self.device)
        if plant:
            for tensor in leaves(values):
                add_outliers(tensor)
        return values

    def names(self):
        return [name for name in inspect.signature(self.module.Model.forward).parameters][1:]


def is_live(name, model_parameters):
    return name in model_parameters or name.rsplit(".", 1)[-1] in ("running_mean", "running_var")


def make_live(model):
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    done = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        data = tensor.data
        if not data.is_floating_point() or not is_live(name, parameters) or data.data_ptr() in done:
            continue
        done.add(data.data_ptr())
        if name.endswith("running_var"):
            data.copy_(torch.randn_like(data).mul_(0.5).exp_())
        elif name.endswith("running_mean"):
            data.copy_(torch.randn_like(data))
        elif data.numel() and bool((data == data.reshape(-1)[0]).all()):
            data.add_(torch.rand_like(data) - 0.5)


def call(model, values):
    with torch.no_grad():
        return model(**values) if isinstance(values, dict) else model(*values)


def finite(value):
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves(value) if leaf.is_floating_point())
