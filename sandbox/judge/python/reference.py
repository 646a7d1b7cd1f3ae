"""The task itself: makes the inputs, the live state and what forward must return, set by set, into memory of the judge.

Everything random is seeded by the judge, anew for each set. Parameters and normalisation statistics are inputs: they
are drawn again for each set, and what an initialiser leaves constant gets noise, so that no candidate can keep what it
derived from older weights. A few elements of float inputs are outliers, at random places.
"""

import copy
import inspect
import json
import random
import types

import torch

from manifest import Layout, leaves, mapped
from room import wants_room

OUTLIERS = 1e-4  # of the elements, at least one in a tensor of 64


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


def add_outliers(tensor):
    if not tensor.is_floating_point() or tensor.numel() < 64 or tensor.numel() != tensor.untyped_storage().nbytes(
    ) // tensor.element_size():
        return
    flat = tensor.reshape(-1) if tensor.is_contiguous() else None
    if flat is None:
        return
    count = max(1, int(OUTLIERS * flat.numel()))
    where = torch.randint(flat.numel(), (count,), device=flat.device)
    scale = max(float(flat[:65536].abs().max()), 1e-3)
    sign = torch.randint(0, 2, (count,), device=flat.device) * 2 - 1
    flat[where] = (sign * scale * (2 + 4 * torch.rand(count, device=flat.device))).to(flat.dtype)


def call(model, values):
    with torch.no_grad():
        return model(**values) if isinstance(values, dict) else model(*values)


def finite(value):
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves(value) if leaf.is_floating_point())


def in_double(value):
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: in_double(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(in_double(item) for item in value)
    return value


class Session:
    """One task in one process: `load` fixes the manifests, `sets` fills the judge's memory."""

    def __init__(self, request):
        self.task = Task(request["source"], request["seed"], request.get("device", "cpu"))
        self.plant = bool(request.get("plant", True))
        seed = request["seed"]
        model = self.task.model(seed, live=True)
        values = self.task.inputs(seed)
        value = call(model, values)
        again = call(model, copy.deepcopy(values))
        if not leaves(value):
            raise ValueError("forward returns no tensor")
        self.deterministic = all(torch.equal(a, b) or (a.is_floating_point() and torch.allclose(
            a, b, rtol=1e-5, atol=1e-6, equal_nan=True)) for a, b in zip(leaves(value), leaves(again)))
        if self.plant and not finite(call(model, self.task.inputs(seed, plant=True))):
            self.plant = False
        self.layouts = self.lay_out(model, values, value)

    def lay_out(self, model, values, value):
        names = self.task.names()
        return (Layout(values, names), Layout(dict(model.state_dict(keep_vars=True))),
                Layout(value, contiguous=True))

    def describe(self):
        inputs, state, outputs = self.layouts
        return {"inputs": inputs.manifest(), "state": state.manifest(), "outputs": outputs.manifest(),
                "deterministic": self.deterministic, "planted": self.plant, "init": self.init(),
                "set_bytes": inputs.bytes + state.bytes + outputs.bytes}

    def init(self):
        """What the constructor is given, as a tree of plain values; None where it is given anything else."""
        make = getattr(self.task.module, "get_init_inputs", list)
        try:
            tree = Layout(make()).tree
            text = json.dumps(tree, allow_nan=False)
        except (TypeError, ValueError):
            return None
        return None if '"tensor"' in text else tree

    def fill(self, region, seed):
        """One set; returns the model, the inputs and the value for the oracle."""
        model = self.task.model(seed, live=True)
        values = self.task.inputs(seed + 1, self.plant)
        at = 0
        before = self.lay_out_pair(model, values)
        for layout, expected in zip(before, self.layouts):
            if layout.manifest() != expected.manifest():
                raise ValueError("get_inputs or Model change their shapes from draw to draw")
            layout.write(region, at)
            at += layout.bytes
        value = call(model, values)
        outputs = Layout(value, contiguous=True)
        if outputs.manifest() != self.layouts[2].manifest():
            raise ValueError("forward changes the shapes of its outputs from draw to draw")
        outputs.write(region, at)
        return value

    def lay_out_pair(self, model, values):
        return Layout(values, self.task.names()), Layout(dict(model.state_dict(keep_vars=True)))

    def sets(self, seeds, regions, oracles, settle):
        """Fills the regions. `settle`: where the device has no room for the first `oracles` sets in double, do without."""
        scales, why = None, ""
        for position, (seed, region) in enumerate(zip(seeds, regions)):
            value = self.fill(region if isinstance(region, torch.Tensor) else mapped(region), seed)
            if position >= oracles or why:
                continue
            try:
                scales = widen(scales, self.error_scales(seed, value))
            except Exception as error:  # the model does not run in double: many do not
                if wants_room(error) and not settle:
                    raise
                scales, why = None, f"{type(error).__name__}: {error}"[:300]
        if self.task.device != "cpu":
            torch.cuda.synchronize()  # the judge reads next
        return {"scales": scales, "oracle_error": why}

    def error_scales(self, seed, value):
        """For each output: the reference's largest distance from its fp64 self, and the spread of the values."""
        default = torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float32)
            model = self.task.model(seed, live=True).double()
            exact = call(model, in_double(self.task.inputs(seed + 1, self.plant)))
        finally:
            torch.set_default_dtype(default)
        result = []
        for ours, oracle in zip(leaves(value), leaves(exact)):
            if not ours.is_floating_point():
                result.append([0.0, 0.0])
                continue
            error = (ours.double() - oracle.double()).abs()
            spread = ours.double().std(unbiased=False) if ours.numel() > 1 else ours.double().abs().max()
            result.append([float(error[torch.isfinite(error)].max()) if error.numel() else 0.0, float(spread)])
        return result


def widen(old, new):
    if old is None:
        return new
    return [[max(a, c), max(b, d)] for (a, b), (c, d) in zip(old, new)]
