"""The reference: makes the inputs, the live state and what forward must return, set by set, into memory of the judge.

What a task is and how it is drawn stands in task_file.py.
"""

import json

import torch

from khost.values.calibration import calibrate
from khost.task.manifest import Layout, mapped
from khost.values.planting import USUAL, Reach, plant
from khost.task.task_file import Task, call, state_of
from khost.task.task_inspection import check_form, check_value, inspect_task


class Session:
    """One task in one process: `load` fixes the manifests, `calibrate` measures the tolerance, `sets` fills the judge's
    memory."""

    def __init__(self, request):
        self.task = Task(request["source"], request["seed"], request.get("device", "cpu"))
        self.plant = bool(request.get("plant", True))
        seed = request["seed"]
        seen = inspect_task(self.task, seed, live=True)
        self.layouts = seen.layouts
        self.reach = Reach.of(seen.model, seen.values) if self.plant else None

    def describe(self):
        inputs, state, outputs = self.layouts
        return {"inputs": inputs.manifest(), "state": state.manifest(), "outputs": outputs.manifest(),
                "planted": self.plant, "init": self.init(),
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

    def fill(self, region, seed, planted, kinds=USUAL):
        """One set, of its kind: drawn as the task draws it, or planted."""
        model = self.task.model(seed, live=True)
        values = self.task.inputs(seed + 1)
        if planted:
            plant(values, seed + 2, kinds, self.reach, model=model, task=self.task)
        at = 0
        for layout, expected in zip(self.lay_out_pair(model, values), self.layouts):
            check_form("get_inputs or Model draw", expected, layout)
            layout.write(region, at)
            at += layout.bytes
        value = call(model, values)
        outputs = Layout(value, contiguous=True)
        check_form("forward returns", self.layouts[2], outputs)
        check_value(value)
        outputs.write(region, at)

    def lay_out_pair(self, model, values):
        return Layout(values, self.task.names(values)), Layout(state_of(model))

    def sets(self, seeds, regions, planted, kinds=None):
        """Fills the regions; `planted`: of each whether something is planted in it, of these `kinds`."""
        for seed, region, outliers in zip(seeds, regions, planted):
            region = region if isinstance(region, torch.Tensor) else mapped(region)
            try:
                self.fill(region, seed, outliers, USUAL if kinds is None else kinds)
            except Exception:
                if not outliers:
                    raise
                self.fill(region, seed, False)  # what a few planted sets bore, this one does not
        if self.task.device != "cpu":
            torch.cuda.synchronize()  # the judge reads next
        return {"sets": len(regions)}

    def calibrate(self, settle=True):
        """The tolerance of each output for each kind of set (calibration.py)."""
        try:
            return calibrate(self.task, self.plant, settle)
        finally:
            if self.task.device != "cpu":
                torch.cuda.empty_cache()  # the sets come next, in memory of the judge
