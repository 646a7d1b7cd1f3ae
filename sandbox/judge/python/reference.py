"""The reference: makes the inputs, the live state and what forward must return, set by set, into memory of the judge.

What a task is and how it is drawn stands in task_file.py.
"""

import json

import torch

from manifest import Layout, leaves, mapped, with_tensors
from room import wants_room
from task_file import Task, call, finite, state_of
from task_inspection import check_form, inspect_task


def in_double(value):
    return with_tensors(value, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


class Session:
    """One task in one process: `load` fixes the manifests, `sets` fills the judge's memory."""

    def __init__(self, request):
        self.task = Task(request["source"], request["seed"], request.get("device", "cpu"))
        self.plant = bool(request.get("plant", True))
        seed = request["seed"]
        inspected = inspect_task(self.task, seed, live=True)
        model, self.layouts = inspected.model, inspected.layouts
        if self.plant and not finite(call(model, self.task.inputs(seed, plant=True))):
            self.plant = False

    def describe(self):
        inputs, state, outputs = self.layouts
        return {"inputs": inputs.manifest(), "state": state.manifest(), "outputs": outputs.manifest(),
                "deterministic": True, "planted": self.plant, "init": self.init(),
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
            check_form("get_inputs or Model draw", expected, layout)
            layout.write(region, at)
            at += layout.bytes
        value = call(model, values)
        outputs = Layout(value, contiguous=True)
        check_form("forward returns", self.layouts[2], outputs)
        outputs.write(region, at)
        return value

    def lay_out_pair(self, model, values):
        return Layout(values, self.task.names(values)), Layout(state_of(model))

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
