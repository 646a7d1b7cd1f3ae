"""Task files as people write them: each is judged, or its fault is named."""

import copy
import os
import re
import sys
import textwrap
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path[:0] = [os.path.join(ROOT, "sandbox/python")]
import torch  # noqa: E402

from khost.check import check  # noqa: E402
from khost.check import check_structure  # noqa: E402
from khost.process import zygote  # noqa: E402
from khost.task.manifest import Layout, over_region  # noqa: E402
from khost.task.task_file import Task, TaskFault, state_of  # noqa: E402
from khost.task.task_inspection import inspect_task  # noqa: E402
from khost.values.planting import Reach  # noqa: E402

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
INPUT = "def get_inputs():\n    return [torch.randn(16, 8)]\n"
LIMITS = {"most_bytes": 1 << 28, "most_flops": 1e9, "most_elements": 1e7}


def model(body, init="", arguments="x"):
    text = f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n{textwrap.indent(init, ' ' * 8)}\n"
    return text + f"    def forward(self, {arguments}):\n{textwrap.indent(body, ' ' * 8)}\n\n"


def inspected(source, live=True):
    return inspect_task(Task(source, seed=5), 7, live=live)


def checked(source):
    """The facts of the stages structure and run."""
    facts = {"structure": check_structure.structure(source, LIMITS)}
    try:
        facts["run"] = check.run({"source": source})
    except TaskFault as fault:
        facts["run"] = {"fault": fault.name, "text": str(fault)}
    return facts


class JudgedTest(unittest.TestCase):
    def sound(self, source):
        seen = inspected(source)
        facts = checked(source)
        self.assertNotIn("fault", facts["run"])
        self.assertEqual(facts["structure"].get("dead_operators", []), [])
        return seen

    def test_a_dataclass_with_postponed_annotations(self):
        self.sound("from __future__ import annotations\nfrom dataclasses import dataclass\n" + HEAD + textwrap.dedent("""
            @dataclass
            class Shape:
                rows: int = 16
                slope: float = 0.1

            SHAPE = Shape()
            """) + model("return torch.where(x > 0, x, x * SHAPE.slope)") + INPUT)

    def test_functions_and_modules_of_torchscript(self):
        script = "@torch.jit.script\ndef swish(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:\n" \
                 "    if x.size(0) > 2:\n        return x * torch.sigmoid(gain * x)\n    return x\n\n"
        self.sound(HEAD + script + model("return swish(x, self.gain)", "self.gain = nn.Parameter(torch.ones(8))") + INPUT)
        self.sound(HEAD + "class Part(nn.Module):\n    def forward(self, x: torch.Tensor) -> torch.Tensor:\n"
                   "        return torch.tanh(x) * 2\n\n" + model("return self.part(x)", "self.part = torch.jit.script(Part())") +
                   INPUT)

    def test_what_a_task_compiles_is_left_as_it_is(self):
        decorated = "@torch.compile(dynamic=False)\ndef twice(x):\n    return x * 2\n\n"
        self.sound(HEAD + decorated + model("return self.part(twice(x)) + torch.compile(torch.tanh)(x)",
                                            "self.part = torch.compile(nn.Linear(8, 8))\nself.compile()") + INPUT)

    def test_the_text_of_a_function_is_known(self):
        seen = self.sound(HEAD + "import inspect\ndef double(x):\n    return x * 2\nTEXT = inspect.getsource(double)\n" +
                          "CLASS = None\n" + model("assert 'x * 2' in TEXT and 'super()' in inspect.getsource(type(self))\n"
                                                   "return double(x)") + INPUT)
        self.assertEqual(tuple(seen.value.shape), (16, 8))

    def test_byte_order_marks_and_line_ends_of_windows(self):
        self.sound("\ufeff" + (HEAD + model("return F.relu(x)") + INPUT).replace("\n", "\r\n"))

    def test_what_stands_beside_the_task(self):
        self.sound(HEAD + model("return F.relu(x)") + INPUT + "print('loaded')\n"
                   "if __name__ == '__main__':\n    print(undefined)\n")

    def test_arguments_with_defaults_and_without_names(self):
        self.sound(HEAD + model("return x * scale", arguments="x, scale=2.0") + INPUT)
        source = HEAD + model("return torch.stack(rest).sum(0) + x * scale", arguments="x, *rest, scale=1.0, **more") + \
            "def get_inputs():\n    return [torch.randn(8, 4) for _ in range(3)]\n"
        names = [item["name"] for item in self.sound(source).layouts[0].tree["items"]]
        self.assertEqual(names, ["x", "rest_0", "rest_1"])
        source = HEAD + model("return x * scale", arguments="scale, x") + \
            "def get_inputs():\n    return {'x': torch.randn(8, 4), 'scale': torch.rand(())}\n"
        self.assertEqual([i["name"] for i in self.sound(source).layouts[0].tree["items"]], ["x", "scale"])

    def test_missing_none_and_named_constructor_arguments(self):
        for init in ("", "def get_init_inputs():\n    return None\n", "def get_init_inputs():\n    return ()\n"):
            self.sound(HEAD + model("return F.relu(x)") + INPUT + init)
        body = "class Model(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n" \
               "        self.layer = nn.Linear(width, 4)\n    def forward(self, x):\n        return self.layer(x)\n"
        self.sound(HEAD + body + INPUT + "def get_init_inputs():\n    return {'width': 8}\n")

    def test_inputs_of_every_kind(self):
        seen = self.sound(HEAD + model("return x * scale + (mask.float() if flag else 0) + count.float()",
                                       arguments="x, scale, flag, nothing, mask, count") +
                          "def get_inputs():\n    return [torch.randn(8, 4), float('inf') * 0 + 2.0 if False else 2.0, True, "
                          "None, torch.rand(8, 4) > 0.5, torch.randint(0, 9, ())]\n")
        region = torch.empty(seen.layouts[0].bytes, dtype=torch.uint8)
        seen.layouts[0].write(region, 0)
        again = over_region(seen.layouts[0].manifest(), region)
        self.assertEqual(again[1:4], (2.0, True, None) if isinstance(again, tuple) else [2.0, True, None])
        self.assertTrue(torch.equal(again[0], seen.values[0]) and torch.equal(again[4], seen.values[4]))

    def test_infinite_numbers_cross_to_the_judge(self):
        seen = self.sound(HEAD + model("return torch.clamp(x, low, high)", arguments="x, low, high") +
                          "def get_inputs():\n    return [torch.randn(8, 4), float('-inf'), 0.5]\n")
        text = zygote.as_json(seen.layouts[0].manifest())
        self.assertNotIn("Infinity", text)
        region = torch.empty(seen.layouts[0].bytes, dtype=torch.uint8)
        self.assertEqual(over_region(seen.layouts[0].manifest(), region)[1], float("-inf"))

    def test_masks_with_infinities_and_empty_rows(self):
        seen = self.sound(HEAD + model("return torch.logsumexp(x + mask, 1)", arguments="x, mask") + textwrap.dedent("""
            def get_inputs():
                mask = torch.zeros(16, 8)
                mask[3] = float("-inf")
                return [torch.randn(16, 8), mask]
            """))
        self.assertEqual(float(seen.value[3]), float("-inf"))

    def test_models_that_write_into_their_inputs(self):
        for body in ("x.mul_(2)\nx.add_(1)\nreturn x", "return self.act(x) + 1"):
            seen = self.sound(HEAD + model(body, "self.act = nn.ReLU(inplace=True)") + INPUT)
            self.assertTrue(seen.changes_inputs)
            self.assertTrue(torch.equal(seen.values[0], Task(HEAD + model(body, "self.act = nn.ReLU()") + INPUT).inputs(8)[0]))

    def test_models_that_return_inputs_and_views_of_them(self):
        for body in ("return x", "return x.t()", "return x[:, :4], x"):
            self.assertFalse(inspected(HEAD + model(body) + INPUT).changes_inputs)

    def test_buffers_that_are_not_saved_are_state(self):
        source = HEAD + model("return x * self.mask", "self.register_buffer('mask', torch.rand(8), persistent=False)") + INPUT
        seen = self.sound(source)
        self.assertEqual([item["name"] for item in seen.layouts[1].tree["items"]], ["mask"])
        self.assertEqual(list(state_of(Task(source).model(1))), ["mask"])

    def test_constants_beside_the_state_are_no_fault(self):
        self.sound(HEAD + model("return x * self.steps + self.rate",
                                "self.steps = torch.arange(8.0)\nself.rate = 0.5\nself.unused = torch.rand(3)") + INPUT)

    def test_shared_parameters(self):
        seen = self.sound(HEAD + model("return self.b(self.a(x))",
                                       "self.a = nn.Linear(8, 8)\nself.b = nn.Linear(8, 8)\nself.b.weight = self.a.weight") +
                          INPUT)
        self.assertEqual(len(seen.layouts[1].storages), 3)

    def test_weights_that_a_constructor_computes_of_parameters(self):
        for norm in ("nn.utils.weight_norm", "nn.utils.parametrizations.weight_norm"):
            source = HEAD + model("return self.layer(x)", f"self.layer = {norm}(nn.Linear(8, 8))") + INPUT
            self.sound(source)
            copy.deepcopy(Task(source).model(1, live=True))

    def test_equal_weights_keep_their_sign(self):
        for value in (0.1, 1e-6, -0.1, 0.5, 1.0, 20.0):
            source = HEAD + model("return x * self.scale", f"self.scale = nn.Parameter(torch.full((64,), {value}))") + INPUT
            drawn = Task(source).model(1, live=True).scale
            self.assertTrue(bool((drawn * value > 0).all()), value)
            self.assertGreater(float(drawn.std()), 0.1)

    def test_weights_that_no_seed_changes_are_spread(self):
        for weight in ("torch.eye(8)", "torch.linspace(0, 1, 8)", "torch.randn(8, 8)", "torch.ones(8)"):
            source = HEAD + model("return x * self.w[..., 0]", f"torch.manual_seed(0)\nself.w = nn.Parameter({weight})") + INPUT
            task = Task(source)
            first, again, other = (task.model(seed, live=True).w for seed in (1, 1, 2))
            self.assertTrue(torch.equal(first, again), weight)
            self.assertFalse(torch.equal(first, other), weight)
            self.assertTrue(torch.equal(first == 0, task.model(1).w == 0), weight)
        fixed = HEAD + model("return x * self.w", "self.w = nn.Parameter(torch.linspace(0, 1, 8), requires_grad=False)") + INPUT
        self.assertTrue(torch.equal(Task(fixed).model(1, live=True).w, torch.linspace(0, 1, 8)))

    def test_both_kinds_of_constructor_arguments(self):
        source = HEAD + model("return x * self.c", "self.c = c").replace("__init__(self)", "__init__(self, c)") + INPUT
        for init in ("[[], {'c': 4}]", "[[4], {}]", "([4], {})", "[4]", "{'c': 4}"):
            self.sound(source + f"def get_init_inputs():\n    return {init}\n")
        two = source.replace("__init__(self, c)", "__init__(self, c, d)").replace("self.c = c", "self.c = d['e']")
        self.sound(two + "def get_init_inputs():\n    return [[], {'e': 2}]\n")

    def test_arguments_and_named_ones_that_defaults_would_take_too(self):
        task = Task(HEAD + model("return x * self.width", "self.width = 2").replace("__init__(self)", "__init__(self, width=1, slope=0.1)")
                    .replace("self.width = 2", "self.width = width") + INPUT +
                    "\ndef get_init_inputs():\n    return [[], {'width': 3}]\n", seed=5)
        self.assertEqual(task.make_model().width, 3)
        two = Task(HEAD + model("return x").replace("__init__(self)", "__init__(self, sizes, names)") + INPUT +
                   "\ndef get_init_inputs():\n    return [[4], {'rows': 3}]\n", seed=5)
        self.assertEqual(two.init_inputs(), ([[4], {"rows": 3}], {}))

    def test_train_that_returns_nothing(self):
        self.sound(HEAD + model("return self.norm(x)", "self.norm = nn.BatchNorm1d(8)") +
                   "def train(self, mode=True):\n    nn.Module.train(self, mode)\n\nModel.train = train\n" + INPUT)

    def test_buffers_that_the_first_call_fills(self):
        seen = self.sound(HEAD + model("""
            if self.table is None:
                self.table = self.base.cumsum(0)
            return x * self.table
        """, 'self.register_buffer("base", torch.arange(8.0))\nself.register_buffer("table", None, persistent=False)') + INPUT)
        self.assertEqual([item["name"] for item in seen.layouts[1].manifest()["tree"]["items"]], ["base"])

    def test_scripted_functions_as_attributes(self):
        seen = self.sound(HEAD + "@torch.jit.script\ndef gate(x):\n    return x * torch.sigmoid(x)\n\n" +
                          model("return self.gate(x)", "self.gate = gate") + INPUT)
        self.assertIs(copy.deepcopy(seen.model).gate, seen.model.gate)

    def test_inference_mode_is_looked_into(self):
        task = Task(HEAD + "class Model(nn.Module):\n    @torch.inference_mode()\n    def forward(self, x):\n"
                    "        return torch.softmax(x, -1)\n\n" + INPUT, seed=5)
        self.assertTrue(Reach.of(task.model(1), task.inputs(2)).shifted)

    def test_a_recurrence_that_begins_as_the_identity(self):
        self.sound(HEAD + model("""
            for _ in range(400):
                x = torch.relu(x @ self.weight)
            return x
        """, "self.weight = nn.Parameter(torch.eye(8))") + INPUT)

    def test_options_of_a_script(self):
        self.sound(HEAD + "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--n', type=int, default=2)\n"
                   "args = parser.parse_args()\n" + model("return x * args.n") + INPUT)

    def test_a_view_with_its_sign_turned_is_what_it_shows(self):
        source = HEAD + model("return x + 1") + \
            "\n\ndef get_inputs():\n    return [torch.ones(8, dtype=torch.complex64).mul(1j).conj().imag]\n"
        self.assertEqual(Task(source).inputs(1)[0].tolist(), [-1.0] * 8)
        self.assertFalse(Task(source).inputs(1)[0].is_neg())

    def test_outputs_keep_the_order_of_their_dict(self):
        seen = self.sound(HEAD + model("return {'z': x * 2, 'a': {1: x.mean(1), 'b': [x + 1]}}") + INPUT)
        tree = seen.layouts[2].tree["items"]
        self.assertEqual([item["name"] for item in tree], ["z", "a"])
        self.assertEqual([item["name"] for item in tree[1]["items"]], ["1", "b"])
        region = torch.empty(seen.layouts[2].bytes, dtype=torch.uint8)
        seen.layouts[2].write(region, 0)
        self.assertTrue(torch.equal(over_region(seen.layouts[2].manifest(), region)["a"][1], seen.value["a"][1]))

    def test_named_tuples_are_tuples(self):
        pair = "from collections import namedtuple\nPair = namedtuple('Pair', 'a b')\n"
        self.assertEqual(self.sound(HEAD + pair + model("return Pair(x * 2, x.max(1))") + INPUT).layouts[2].tree["kind"], "tuple")

    def test_casts_inside_of_forward(self):
        self.sound(HEAD + model("with torch.autocast('cpu', dtype=torch.bfloat16):\n    y = self.layer(x)\nreturn y.float()",
                                "self.layer = nn.Linear(8, 8)") + INPUT)

    def test_an_operator_without_a_result_is_not_dead(self):
        self.sound(HEAD + model("return torch.linalg.cholesky(x)") +
                   "def get_inputs():\n    a = torch.randn(4, 8, 8)\n    return [a @ a.transpose(1, 2) + 8 * torch.eye(8)]\n")

    def test_what_fake_tensors_cannot_do_is_no_fault(self):
        for body, init in (("return torch.from_numpy(x.numpy() * 2)", ""), ("return torch.sparse.mm(x.to_sparse(), x.t())", ""),
                           ("return self.part(x)", "self.part = torch.jit.trace(nn.Linear(8, 8), torch.randn(16, 8))"),
                           ("return self.part(x.half())", "self.part = nn.Linear(8, 8).half()")):
            self.sound(HEAD + model(body, init) + INPUT)
        self.sound(HEAD + "class Model(torch.jit.ScriptModule):\n    @torch.jit.script_method\n    def forward(self, x):\n"
                   "        return x * 2\n" + INPUT)

    def test_numbers_of_numpy(self):
        self.sound("import numpy\n" + HEAD + model("return x * float(scale)", arguments="x, scale") +
                   "def get_inputs():\n    return [torch.randn(8, 4), numpy.float32(2)]\n")

    def test_inputs_that_carry_gradients(self):
        self.sound(HEAD + model("return x * 2") + "def get_inputs():\n    return [torch.randn(8, 4, requires_grad=True) * 2]\n")


class FaultTest(unittest.TestCase):
    def fault(self, source, name, *words):
        """Judge and check say the same words."""
        with self.assertRaises(TaskFault) as caught:
            inspected(source)
        self.assertEqual(caught.exception.name, name)
        for word in words:
            self.assertIn(word, str(caught.exception))
        try:
            facts = checked(source)
        except TaskFault as at_once:  # the stage structure found it
            text = str(at_once)
        else:
            text = facts["run"].get("text")
        self.assertEqual(*(re.sub(r"-?[0-9.]+", "N", said) for said in (text, str(caught.exception))))  # seeds differ

    def test_no_task(self):
        self.fault(HEAD + INPUT, "does_not_load", "no Model")
        self.fault(HEAD + "class Net(nn.Module):\n    pass\n" + INPUT, "does_not_load", "it defines Net;")
        self.fault(HEAD + model("return self.l(x)", "self.l = nn.LazyLinear(4)") + INPUT, "does_not_load", "lazy modules")
        self.fault(HEAD + model("return x"), "does_not_load", "no get_inputs")
        self.fault(HEAD + "class Model:\n    pass\n" + INPUT, "does_not_load", "torch.nn.Module")
        self.fault(HEAD + "class Model(nn.Module):\n    pass\n" + INPUT, "does_not_load", "no forward")

    def test_what_get_inputs_and_get_init_inputs_return(self):
        self.fault(HEAD + model("return x") + "def get_inputs():\n    return torch.randn(4, 4)\n", "does_not_run",
                   "get_inputs returns a value of type Tensor")
        self.fault(HEAD + model("return x") + "def get_inputs():\n    pass\n", "does_not_run", "get_inputs returns None")
        self.fault(HEAD + model("return x") + INPUT + "def get_init_inputs():\n    return 5\n", "does_not_load", "type int")

    def test_no_elements(self):
        self.fault(HEAD + model("return torch.relu(x)") + "def get_inputs():\n    return [torch.randn(0, 64)]\n", "no_elements")
        some = HEAD + model("return x * 2, y + 1", arguments="x, y") + \
            "def get_inputs():\n    return [torch.randn(0, 16), torch.randn(16, 16)]\n"
        inspected(some)

    def test_state_outside_of_the_state_dict(self):
        self.fault(HEAD + model("return x * self.scale", "self.scale = torch.rand(8)") + INPUT, "hidden_state", "'scale'")
        self.fault(HEAD + model("return self.part(x)", "self.part = Part()").replace("class Model", "class Part(nn.Module):\n"
                   "    def __init__(self):\n        super().__init__()\n        self.table = [torch.rand(8)]\n"
                   "    def forward(self, x):\n        return x * self.table[0]\n\nclass Model") + INPUT,
                   "hidden_state", "'part.table'")
        self.fault(HEAD + "import random\n" + model("return x * self.rate", "self.rate = random.random()") + INPUT,
                   "hidden_state", "'rate'")
        self.fault(HEAD + "WEIGHT = torch.rand(8)\n" + model("return x * WEIGHT") + INPUT, "hidden_state", "WEIGHT of the file")

    def test_numbers_that_are_drawn(self):
        for draw in ("random.random()", "float(numpy.random.rand())", "torch.rand(()).item()", "random.randint(0, 9)"):
            self.fault("import random\nimport numpy\n" + HEAD + model("return x * scale", arguments="x, scale") +
                       f"def get_inputs():\n    return [torch.randn(8, 4), {draw}]\n", "varies", "'scale' is the number")

    def test_sizes_that_are_drawn(self):
        self.fault("import random\n" + HEAD + model("return x * 2") +
                   "def get_inputs():\n    return [torch.randn(random.randint(4, 4000), 4)]\n", "varies", "'x' has size")
        self.fault("import random\n" + HEAD + model("return self.layer(x)",
                                                    "self.layer = nn.Sequential(nn.Linear(8, random.randint(4, 4000)))") + INPUT,
                   "varies", "'layer.0.weight' has size")

    def test_numbers_that_are_computed(self):
        self.fault(HEAD + model("return x * 2, float(x.sum())") + INPUT, "varies", "'1' is the number")

    def test_what_no_seed_reaches(self):
        self.fault("import numpy\n" + HEAD + model("return x * 2") + "def get_inputs():\n"
                   "    return [torch.from_numpy(numpy.random.default_rng().random((8, 4)))]\n", "not_seeded")

    def test_calls_that_differ(self):
        self.fault(HEAD + model("return x + torch.rand_like(x)") + INPUT, "not_deterministic")
        self.fault(HEAD + model("self.calls += 1\nreturn x * self.calls", "self.calls = 0") + INPUT, "stateful")
        self.fault(HEAD + model("self.sum += x\nreturn self.sum", "self.register_buffer('sum', torch.zeros(16, 8))") + INPUT,
                   "stateful")

    def test_not_a_number(self):
        self.fault(HEAD + model("return torch.log(x)") + INPUT, "returns_nan", "of 128 elements of output 0")

    def test_other_files(self):
        self.fault(HEAD + "W = torch.load('weights.pt')\n" + model("return x * 2") + INPUT, "does_not_load", "'weights.pt'")
        self.fault(HEAD + model("return x * 2") + "def get_inputs():\n    return [torch.load('data/x.pt')]\n", "does_not_load",
                   "'data/x.pt'")

    def test_values_that_do_not_cross(self):
        self.fault(HEAD + "from dataclasses import dataclass\n@dataclass\nclass Result:\n    y: object\n" +
                   model("return Result(x)") + INPUT, "does_not_run", "forward: a value of type Result")
        self.fault("from collections import namedtuple\nPair = namedtuple('Pair', 'a b')\n" + HEAD +
                   model("return pair.a + pair.b", arguments="pair") +
                   "def get_inputs():\n    return [Pair(torch.randn(4, 4), torch.randn(4, 4))]\n", "does_not_run", "Pair")
        self.fault(HEAD + model("return x * len(s)", arguments="x, s") +
                   "def get_inputs():\n    return [torch.randn(8, 4), {1, 2}]\n", "does_not_run", "type set")


class AnswerTest(unittest.TestCase):
    def test_a_value_that_json_cannot_hold_is_named(self):
        self.assertIn("scales.1.0 is nan", zygote.as_json({"scales": [[1.0], [float("nan")]]}))
        self.assertEqual(zygote.as_json({"a": [1.0]}), '{"a": [1.0]}')

    def test_half_of_a_surrogate_pair_has_no_form_either(self):
        self.assertEqual(zygote.as_json({"error": "café " + chr(0xdcff)}), '{"error": "café ?"}')

    def test_a_fault_is_told_without_the_name_of_our_class(self):
        try:
            Task(HEAD)
        except TaskFault as fault:
            self.assertEqual(zygote.error_of(fault)["error"], "the task defines no Model")

    def test_errors_of_a_task_say_what_helps(self):
        grown = model("return torch.autograd.grad((x.requires_grad_() ** 2).sum(), x)[0]")
        for source, says in ((HEAD + "import einops\n" + model("return x") + INPUT, "a task is one file"),
                             (HEAD + model("return x") + "def get_inputs(n):\n    return [torch.randn(n)]\n", "without arguments"),
                             (HEAD + model("return x @ y", arguments="x, y") + INPUT, "in their order"),
                             (HEAD + grown + INPUT, "torch.enable_grad()"),
                             (HEAD + model("return torch.fft.fft(x)") + INPUT, "torch.view_as_real"),
                             (HEAD + model("return x.sum().item()") + INPUT, "without .item()")):
            try:
                inspected(source)
            except Exception as error:
                self.assertIn(says, zygote.error_of(error, True)["error"])
            else:
                self.fail(f"nothing was raised that says: {says}")

    def test_layouts_of_dicts_with_other_keys(self):
        with self.assertRaises(TypeError):
            Layout({(1, 2): 3})


if __name__ == "__main__":
    unittest.main()
