"""Calibrated tasks for tests, and the judge's rule from the JSON alone."""

import json
import math
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "sandbox/python"))
import torch  # noqa: E402

from khost.values.calibration import Calibration  # noqa: E402
from khost.values.histogram import Octaves  # noqa: E402
from khost.values.rule import allowed  # noqa: E402
from khost.task.task_file import Task  # noqa: E402

torch.set_num_threads(1)

TASK = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {names}):
        return {forward}


def get_inputs():
    {before}
    return [{inputs}]
"""


def task(forward, inputs, names="x", init="pass", before="pass"):
    return TASK.format(forward=forward, inputs=inputs, names=names, init=init, before=before)


class Calibrated:
    """A calibrated task, and what it says of an answer."""

    def __init__(self, *args, **kwargs):
        self.calibration = Calibration(Task(task(*args, **kwargs), 3))
        self.answer = self.calibration.answer()
        json.dumps(self.answer, allow_nan=False)

    def wrong(self, answer, kind="drawn", model=False):
        """Per output, wrong elements beyond what is allowed, on a set that was not measured. `answer`: of the inputs, with
        `model` of the model and the inputs."""
        sample = self.calibration.sample(planted=kind == "planted")
        given = [sample.model, *sample.values] if model else sample.values
        return [refused(entry, got, wanted)
                for entry, got, wanted in zip(self.answer["kinds"][kind], answer(*given), sample.expected)]


def refused(entry, got, wanted):
    """How many elements more than may be lie beyond what the judge's rule grants them, from the JSON alone."""
    got, wanted = got.to(wanted.dtype).reshape(-1), wanted.reshape(-1)
    wrong = beyond(entry, got, wanted)
    cap = math.inf if entry["cap"] is None else entry["cap"]
    distance = (got.double() - wanted.double())[wrong].abs()
    untypical = 0
    if entry.get("typical"):
        untypical = int(beyond(entry, got, wanted, "typical").sum()) - allowed(entry["typical_share"], wanted.numel())
    return max(0, int(wrong.sum()) - allowed(entry["share"], wanted.numel()), int((~(distance <= cap)).sum()), untypical)


def beyond(entry, got, wanted, table="bounds"):
    """Elements beyond a table of an entry."""
    got, wanted = got.to(wanted.dtype).reshape(-1), wanted.reshape(-1)
    if entry["rule"] == "exact":
        return got != wanted
    octaves = Octaves(entry["first"], entry["step"])
    rows = octaves.rows(wanted)
    bounds = entry["ulps"] * octaves.ulp(wanted.dtype)[rows] + entry["rtol"] * wanted.double().abs()
    if entry["by"] == "element":
        rows = torch.arange(wanted.numel())
    bounds += torch.tensor(entry[table], dtype=torch.float64)[rows]
    near = (got.double() - wanted.double()).abs() <= bounds
    near &= torch.isfinite(wanted)
    if entry["pole"] is not None:
        near |= (torch.isinf(got) | torch.isinf(wanted)) & (torch.minimum(got.abs(), wanted.abs()) >= entry["pole"])
    return ~((got == wanted) | near)
