"""Checks of sandbox/python/khost/crawl*.py: `python tests/python/crawl_test.py`, with a Python that has torch."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sandbox/python"))
import torch
import torch.nn as nn

from khost.crawl import crawl
from khost.crawl import crawl_transformers

CONFIGURATION = """
class ToyConfig:
    def __init__(self, hidden_size=64, intermediate_size=4096, hidden_act="gelu", eps=1e-6, heads=None):
        pass
"""

MODELING = """
import torch
from torch import nn
from ...activations import ACT2FN
from ...cache import Cache


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


@register("RMSNorm")
class ToyNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, hidden_states: "Cache") -> "Cache":
        return self.weight * hidden_states * torch.rsqrt(hidden_states.pow(2).mean(-1, keepdim=True) + self.eps)


class ToyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.act = ACT2FN[config.hidden_act]
        self.norm = ToyNorm(config.hidden_size, config.eps)

    def forward(self, x):
        return self.down(self.act(self.up(rotate_half(self.norm(x)))))


class SameNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, hidden_states):
        return self.weight * hidden_states * torch.rsqrt(hidden_states.pow(2).mean(-1, keepdim=True) + self.eps)


class ToyAttention(nn.Module):
    def __init__(self, config):
        super().__init__()

    def forward(self, hidden_states, attention_mask):
        return hidden_states


class ToyCached(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.cache = Cache()

    def forward(self, hidden_states):
        return hidden_states


class ToyHeads(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads

    def forward(self, hidden_states):
        return hidden_states * self.heads


class ToyNothing(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()

    def forward(self, hidden_states):
        return hidden_states * 1.0
"""


class Operators(unittest.TestCase):
    def case(self, name, size):
        required, optional = crawl.parameters_of(getattr(nn, name).__init__)
        required += crawl.HIDDEN.get(name, [])
        bound, cases, reason = crawl.explore(crawl.module_maker(getattr(nn, name)), required, optional)
        return bound, next((c for c in cases if c["size"] == crawl.SMALL[size]), None), reason

    def test_legal_values_and_bound_sizes_are_measured(self):
        bound, case, _ = self.case("Conv2d", 4)
        self.assertEqual(bound, {"in_channels": 1})
        self.assertEqual(case["legal"]["kernel_size"], [3, 1, 2, 5])
        bound, case, _ = self.case("GroupNorm", 3)
        self.assertEqual(bound, {"num_channels": 1})
        self.assertEqual(case["legal"]["num_groups"], [4, 2, 8])

    def test_a_layer_only_takes_the_inputs_that_fit(self):
        self.assertIsNone(self.case("Conv2d", 2)[1])
        self.assertIsNotNone(self.case("Conv2d", 4)[1])

    def test_hidden_arguments_are_known(self):
        bound, case, _ = self.case("LSTM", 3)
        self.assertEqual(bound, {"input_size": -1})
        self.assertEqual(case["out"][-1], 16)

    def test_batch_normalisation_is_no_identity_with_live_weights(self):
        self.assertIsNone(self.case("BatchNorm2d", 4)[2])

    def test_what_is_no_operator_has_a_reason(self):
        size = crawl.SMALL[2]
        self.assertEqual(crawl.behaviour(lambda x: x * 1.0, size), "identity")
        self.assertEqual(crawl.behaviour(lambda x: x.reshape(-1), size), "view_only")
        self.assertEqual(crawl.behaviour(lambda x: x * 0, size), "constant_output")
        self.assertEqual(crawl.behaviour(lambda x: x > 0, size), "another_dtype_comes_out")
        self.assertEqual(crawl.behaviour(lambda x: x @ x, size), "does_not_take_it")
        self.assertEqual(crawl.module_reason("Dropout2d", nn.Dropout2d), "stochastic")
        self.assertEqual(crawl.module_reason("Sequential", nn.Sequential), "container")

    def test_the_values_that_an_operator_needs_and_gives_are_measured(self):
        size = crawl.SMALL[2]
        self.assertEqual(crawl.behaviour(torch.log, size)["needs"], "positive")
        self.assertEqual(crawl.behaviour(torch.acos, size)["needs"], "unit")
        self.assertEqual(crawl.behaviour(torch.sigmoid, size)["gives"], "unit")
        self.assertEqual(crawl.behaviour(torch.exp, size)["gives"], "positive")

    def test_a_probe_tells_shapes_or_the_error(self):
        source = ("import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x @ x\n"
                  "def get_inputs():\n    return [torch.rand(%s)]\n")
        good, bad = crawl.answer({"probe": [source % "8, 8", source % "8, 9"]})["probed"]
        self.assertEqual(good["outputs"][0]["size"], [8, 8])
        self.assertEqual(good["flops"], 2 * 8 ** 3)
        self.assertIn("RuntimeError", bad["error"])


class Transformers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        models = os.path.join(folder.name, "models", "toy")
        os.makedirs(models)
        for name, text in (("configuration_toy.py", CONFIGURATION), ("modeling_toy.py", MODELING)):
            with open(os.path.join(models, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.found = crawl_transformers.find(folder.name)
        self.by_name = {o["name"]: o for o in self.found["operators"]}

    def test_layers_that_stand_alone_become_task_files_that_run(self):
        self.assertEqual(sorted(self.by_name), ["transformers.toy.ToyMLP", "transformers.toy.ToyNorm"])
        space = {}
        exec(self.by_name["transformers.toy.ToyMLP"]["task"], space)
        model = space["Model"](*space["get_init_inputs"]())
        self.assertEqual(model.up.out_features, crawl_transformers.MOST_WIDTH)
        self.assertEqual(list(model(*space["get_inputs"]()).shape), [8, 128, 64])

    def test_the_others_have_a_reason(self):
        self.assertEqual(self.found["skipped"], {
            "toy.SameNorm": "same_as_toy.ToyNorm", "toy.ToyAttention": "forward_takes_hidden_states_attention_mask",
            "toy.ToyCached": "needs_Cache", "toy.ToyHeads": "config_heads", "toy.ToyNothing": "identity"})

    def test_a_missing_package_is_said(self):
        if crawl_transformers.importlib.util.find_spec("transformers") is None:
            self.assertEqual(crawl_transformers.find()["skipped"], {"transformers": "not_installed"})


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
