"""The reference: makes the inputs, the live state and what forward must return, set by set, into memory of the judge.

What a task is and how it is drawn stands in task_file.py.
"""

import copy
import json

import torch

from calibration import calibrate, name_nan
from manifest import Layout, leaves, mapped
from planting import plant
from task_file import Task, call


class Session:
    """One task in one process: `load` fixes the manifests, `calibrate` measures the tolerance, `sets` fills the judge's
    memory."""

    def __init__(self, request):
        self.task = Task(request["source"], request["seed"], request.get("device", "cpu"))
        self.plant = bool(request.get("plant", True))
        seed = request["seed"]
        model = self.task.model(seed, live=True)
        values = self.task.inputs(seed)
        kept = copy.deepcopy(values)
        value = call(model, values)
        again = call(model, kept)
        if not leaves(value):
            raise ValueError("forward returns no tensor")
        self.deterministic = all(torch.equal(a, b) or (a.is_floating_point() and torch.allclose(
            a, b, rtol=1e-5, atol=1e-6, equal_nan=True)) for a, b in zip(leaves(value), leaves(again)))
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

    def fill(self, region, seed, planted):
        """One set, of its kind: drawn as the task draws it, or planted."""
        model = self.task.model(seed, live=True)
        values = self.task.inputs(seed + 1)
        if planted:
            plant(values, seed + 2)
        at = 0
        for layout, expected in zip(self.lay_out_pair(model, values), self.layouts):
            if layout.manifest() != expected.manifest():
                raise ValueError("get_inputs or Model change their shapes from draw to draw")
            layout.write(region, at)
            at += layout.bytes
        value = call(model, values)
        outputs = Layout(value, contiguous=True)
        if outputs.manifest() != self.layouts[2].manifest():
            raise ValueError("forward changes the shapes of its outputs from draw to draw")
        name_nan(leaves(value), " with planted inputs" if planted else "")
        outputs.write(region, at)

    def lay_out_pair(self, model, values):
        return Layout(values, self.task.names()), Layout(dict(model.state_dict(keep_vars=True)))

    def sets(self, seeds, regions, planted):
        """Fills the regions; `planted`: of each whether outliers stand in it."""
        for seed, region, outliers in zip(seeds, regions, planted):
            region = region if isinstance(region, torch.Tensor) else mapped(region)
            try:
                self.fill(region, seed, outliers)
            except Exception:
                if not outliers:
                    raise
                self.fill(region, seed, False)  # what a few planted sets bore, this one does not
        if self.task.device != "cpu":
            torch.cuda.synchronize()  # the judge reads next
        return {"sets": len(regions)}

    def calibrate(self, settle=True):
        """The tolerance of each output for each kind of set (calibration.py)."""
        return calibrate(self.task, self.plant, settle)
