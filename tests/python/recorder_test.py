"""Checks of sandbox/python/khost/candidate/recorder.py: `python tests/python/recorder_test.py`, with a Python that has torch."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sandbox/python"))
from khost.candidate import recorder

MODEL = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
    def forward(self, x):
        return self.norm(torch.relu(self.linear(x)))

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return [8]
"""

HEAD = """
import torch
import torch.nn as nn
import cuda_extension as ext

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
    def forward(self, x):
"""

SIGNATURES = {"linear": "rfrfrfwfslsl", "norm": "rfrfrfwfslslsfW-T-", "relu": "rfwfsl", "maybe": "rfrfwf"}


def tensor(size, storage=0, dtype="float32", offset=0, name="x"):
    stride, step = [], 1
    for n in reversed(size):
        stride.insert(0, step)
        step *= n
    return {"kind": "tensor", "storage": storage, "dtype": dtype, "size": size, "stride": stride, "offset": offset,
            "name": name}


def record(body, head=HEAD, inputs=None, model=MODEL):
    lines = "\n".join("        " + line for line in body.strip().split("\n"))
    return recorder.record({
        "model_source": model, "model_new_source": head + lines + "\n", "signatures": SIGNATURES,
        "inputs": inputs or {"storages": [{"bytes": 128, "offset": 0}],
                             "tree": {"kind": "tuple", "items": [tensor([4, 8])]}}})


class RecorderTest(unittest.TestCase):
    def refused(self, reason, body, **more):
        answer = record(body, **more)
        self.assertIn("error", answer)
        self.assertEqual(answer["error"]["reason"], reason, answer)
        return answer["error"]

    def test_launches_become_a_plan_with_slots(self):
        plan = record("""
h = torch.empty(4, 8)
out = torch.empty_like(h)
ext.linear(x, self.linear.weight, self.linear.bias, h, x.shape[0], 8)
ext.norm(h, self.norm.weight, self.norm.bias, out, 4, 8, 1e-5, workspace_bytes=1000)
return out""")
        self.assertEqual([launch["symbol"] for launch in plan["launches"]], ["linear", "norm"])
        first, second = (launch["arguments"] for launch in plan["launches"])
        self.assertEqual(first[0], {"role": "r", "slot": "input", "index": 0, "offset": 0})
        self.assertEqual((first[1]["slot"], first[1]["index"], first[2]["index"]), ("state", 0, 1))
        self.assertEqual(first[3]["slot"], "workspace")
        self.assertEqual(first[4], {"role": "s", "dtype": "l", "value": 4})
        self.assertEqual(second[0]["slot"], "workspace")
        self.assertEqual((second[3]["slot"], second[3]["index"]), ("output", 0))
        self.assertEqual(second[6]["value"], 1e-5)
        self.assertEqual(plan["workspace"][second[7]["index"]], 1000)
        self.assertEqual(plan["workspace"][first[3]["index"]], 128)
        self.assertEqual(second[8], {"role": "T"})
        self.assertEqual(plan["output_storages"], [128])
        self.assertEqual(plan["outputs"]["stride"], [8, 1])

    def test_views_keep_storage_and_offset(self):
        plan = record("""
out = torch.empty(2, 8)
ext.relu(x.view(2, 16).t()[3:5].narrow(0, 1, 1).unsqueeze(0), out, 16)
return out.view(16).reshape(8, 2).transpose(0, 1)""")
        self.assertEqual(plan["launches"][0]["arguments"][0]["offset"], 16)
        self.assertEqual((plan["outputs"]["size"], plan["outputs"]["stride"]), ([2, 8], [1, 2]))

    def test_nested_outputs_none_and_infinity(self):
        plan = record("""
a, b = torch.empty(4, 8), x.new_empty(4, 8)
ext.norm(x, None, None, a, 4, 8, float("-inf"), workspace_bytes=0)
ext.maybe(a, None, b)
return {"a": (a, None), "n": [b, 3]}""")
        arguments = plan["launches"][0]["arguments"]
        self.assertEqual(arguments[1], {"role": "r", "slot": "null"})
        self.assertEqual((arguments[6]["value"], arguments[7]), ("-inf", {"role": "W"}))
        self.assertEqual(plan["outputs"]["items"][1]["items"][1], {"kind": "scalar", "value": 3})
        self.assertEqual(plan["output_storages"], [128, 128])

    def test_torch_operators_are_refused_with_their_line(self):
        for body in ("y = torch.empty(4, 8)\nreturn torch.relu(x)", "y = 1\nreturn self.linear(x)",
                     "y = 1\nreturn x @ x.t()", "y = 1\nreturn x.t().contiguous()", "y = 1\nreturn torch.zeros(4, 8)",
                     "y = torch.empty(4, 8)\ny.copy_(x)\nreturn y", "y = 1\nreturn torch.nn.functional.gelu(x)"):
            with self.subTest(body):
                self.assertEqual(self.refused("violation/torch_compute", body)["line"], HEAD.count("\n") + 2)

    def test_a_refusal_stands_when_it_is_caught(self):
        self.refused("violation/torch_compute", """
try:
    x = x + 1
except Exception:
    pass
out = torch.empty(4, 8)
ext.relu(x, out, 32)
return out""")

    def test_memory_that_no_launcher_wrote_is_refused(self):
        self.refused("violation/torch_compute",
                     "out = torch.empty(4, 8)\next.relu(torch.empty(4, 8), out, 32)\nreturn out")
        self.refused("violation/torch_compute", "return torch.empty(4, 8)")
        self.refused("violation/torch_compute",
                     "out = torch.empty(4, 8)\next.relu(torch.tensor([1.0, 2.0]), out, 2)\nreturn out")

    def test_what_init_derived_from_weights_is_refused(self):
        head = HEAD.replace("    def forward", "        self.folded = [self.linear.weight * 2]\n    def forward")
        self.refused("violation/torch_compute",
                     "out = torch.empty(8, 8)\next.relu(self.folded[0], out, 64)\nreturn out", head=head)

    def test_values_cannot_steer(self):
        self.refused("not_replayable", "return x[0, 0].item()")
        self.refused("not_replayable", "if x[0, 0]:\n    return x\nreturn x")
        self.refused("violation/torch_compute", "return x.tolist()")

    def test_imports_are_limited(self):
        self.assertEqual(self.refused("violation/import", "return x", head="import os\n" + HEAD)["line"], 1)
        self.refused("violation/import", "return x", head="from torch.utils import cpp_extension\n" + HEAD)
        self.refused("violation/import", "import subprocess\nreturn x")
        self.refused("violation/import", "__import__('os').system('true')\nreturn x")

    def test_calls_must_fit_the_signature(self):
        out = "out = torch.empty(4, 8)\n"
        self.refused("bad_call", out + "ext.relu(x, out)\nreturn out")
        self.refused("bad_call", out + "ext.nothing(x, out)\nreturn out")
        self.refused("bad_call", out + "ext.relu(x, out, 1.5)\nreturn out")
        self.refused("bad_call", out + "ext.relu(x, out.view(torch.int32), 1)\nreturn out")
        self.refused("bad_call", out + "ext.relu(x, x, 32)\nreturn x")
        self.refused("bad_call", "return x")

    def test_the_state_dict_must_be_the_models(self):
        head = HEAD.replace("    def forward", "        self.extra = nn.Parameter(torch.ones(3))\n    def forward")
        self.assertIn("extra", self.refused("bad_state", "return x", head=head)["message"])

    def test_exceptions_come_back_with_their_line(self):
        error = self.refused("error", "y = 1\nraise ValueError('no')")
        self.assertEqual((error["message"], error["line"]), ("ValueError: no", HEAD.count("\n") + 2))
        self.refused("error", "raise SystemExit(0)")
        self.refused("error", "return (")

    def test_constructors_may_look_at_values_and_forward_may_not(self):
        rates = HEAD.replace("self.norm = ", "self.rates = [x.item() for x in torch.linspace(0, 1, 3)]\n        self.norm = ")
        levels = rates.replace("class ModelNew", "LEVELS = torch.logspace(-2, 0, 4).tolist()\n\nclass ModelNew")
        body = "out = torch.empty_like(x)\next.relu(x, out, 32)\nassert self.rates[1] == 0.5\nreturn out"
        for head in (rates, levels):
            self.assertEqual(record(body, head)["output_storages"], [128])
        self.refused("not_replayable", "return x if x[0, 0].item() > 0 else x")

    def test_files_as_they_are_written(self):
        body = "out = torch.empty_like(x)\next.relu(x, out, 32)\nreturn out"
        own = MODEL.replace("class Model", "import argparse\nOPTIONS = argparse.ArgumentParser().parse_args()\n"
                            "@torch.jit.script\ndef gate(x):\n    return x * torch.sigmoid(x)\n\nclass Model", 1)
        for source in (own, "\ufeff" + own):
            self.assertEqual(record(body, model=source)["output_storages"], [128])
        self.assertEqual(record(body, HEAD.replace("import torch.nn as nn", "import functools\nimport torch.nn as nn"))
                         ["output_storages"], [128])

    def test_a_list_of_parameters(self):
        head = HEAD.replace("    def forward", "        self.mine = [self.linear.weight, self.linear.bias]\n    def forward")
        plan = record("out = torch.empty_like(x)\next.linear(x, *self.mine, out, 4, 8)\nreturn out", head)
        self.assertEqual([a.get("slot") for a in plan["launches"][0]["arguments"][1:3]], ["state", "state"])

    def test_outputs_that_share_memory(self):
        plan = record("out = torch.empty_like(x)\next.relu(x, out, 32)\nreturn out, out[:, 0], out")
        self.assertEqual((len(plan["outputs"]["items"]), plan["output_storages"]), (3, [128]))

    def test_texts_among_the_outputs(self):
        plan = record("out = torch.empty_like(x)\next.relu(x, out, 32)\nreturn {'logits': out, 'kind': 'regression'}")
        self.assertEqual([item["kind"] for item in plan["outputs"]["items"]], ["tensor", "scalar"])

    def test_devices_of_the_gpu_are_taken_as_they_are_meant(self):
        plan = record("out = torch.empty(4, 8, device='cuda')\next.relu(x, out, 32)\nreturn out")
        self.assertEqual(plan["output_storages"], [128])


if __name__ == "__main__":
    unittest.main()
