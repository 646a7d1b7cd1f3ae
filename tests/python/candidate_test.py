"""Checks of candidates in Python (sandbox/subject/candidate*.py) without a GPU, with a Python that has torch:
`python tests/python/candidate_test.py [LIBRARY]`. LIBRARY: libkhost_subject_python.so, for what a process may start.
`candidate_test.py extension FILE NAME`: calls the functions of an extension that was built, with tensors of the CPU."""

import ctypes
import os
import sys
import threading
import time
import types
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path[:0] = [os.path.join(ROOT, "sandbox/python")]
import torch  # noqa: E402
import torch._subclasses.fake_tensor  # noqa: E402  so that not every child imports it

from khost.candidate import candidate  # noqa: E402
from khost.candidate import candidate_record  # noqa: E402
from khost.candidate.candidate_policy import Refused, Watch  # noqa: E402
from khost.candidate.candidate_turns import Placed, adopt  # noqa: E402

LIBRARY = None
FIXTURES = os.path.join(ROOT, "tests/data/kernels/python")
NEW = "\nimport torch.nn as nn\nclass ModelNew(nn.Module):\n    pass\n"


def in_a_child(work):
    """`work` patches torch for good, as the process that it is meant for does not mind."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = "died"
        try:
            text = repr(work())
        finally:
            os.write(writing, text.encode()[:60000])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return eval(text)


INPUTS = {"tree": {"kind": "list", "items": [
    {"kind": "tensor", "storage": 0, "dtype": "float32", "size": [4, 4], "stride": [4, 1], "offset": 0}]}}


def recorded(source, init=None):
    return in_a_child(lambda: candidate_record.record({"source": source, "init": init, "inputs": INPUTS}))


class Record(unittest.TestCase):
    def refused(self, source, reason, line):
        error = recorded(source)["error"]
        self.assertEqual((error["reason"], error["line"]), (reason, line), error["message"])

    def test_a_single_file_is_asked_for_its_extension_and_for_the_same_one_each_time(self):
        with open(os.path.join(FIXTURES, "good/inline/model_new.py")) as file:
            source = file.read()
        init = {"kind": "list", "items": [{"kind": "scalar", "value": 64}]}
        one, two = recorded(source, init), recorded(source, init)
        self.assertEqual(one, two)
        extension, = one["extensions"]
        self.assertEqual(extension["name"], "affine_relu")
        self.assertIn('m.def("affine_relu_cuda", torch::wrap_pybind_function(affine_relu_cuda), "affine_relu_cuda");',
                      extension["sources"]["main.cpp"])
        self.assertTrue(extension["sources"]["cuda.cu"].startswith("#include <torch/types.h>\n"))
        self.assertFalse(one["workspace"])
        other, = recorded(source.replace("0.0f;", "1.0f;"), init)["extensions"]
        self.assertNotEqual(extension["key"], other["key"])

    def test_a_workspace_is_recognised_by_its_import(self):
        with open(os.path.join(FIXTURES, "good/workspace/model_new.py")) as file:
            self.assertEqual(recorded(file.read()), {"extensions": [], "workspace": True})

    def test_what_replaces_parts_of_torch_is_refused_with_its_line(self):
        self.refused("import torch\ntorch.cuda.Event.elapsed_time = None\n" + NEW, "violation/patches", 2)
        self.refused("import torch, time\nsetattr(time, 'time', None)\n" + NEW, "violation/patches", 2)
        self.refused("import torch\ndel torch.cuda.synchronize\n" + NEW, "violation/patches", 2)

    def test_what_leads_around_the_rules_is_refused(self):
        self.refused("import threading\n" + NEW, "violation/import", 1)
        self.refused("\nfrom model import Model\n" + NEW, "violation/import", 2)
        self.refused("from torch import _C\n" + NEW, "violation/forbidden", 1)
        self.refused("import sys\nsys.modules['x'] = 1\n" + NEW, "violation/forbidden", 2)
        self.refused("import torch\nf = getattr(torch, 'comp' + 'ile')\n" + NEW, "violation/forbidden", 2)
        self.refused("import torch\nf = torch.nn.Module.forward.__globals__\n" + NEW, "violation/forbidden", 2)
        self.refused("exec('1')\n" + NEW, "violation/forbidden", 1)

    def test_a_file_without_the_class_is_an_error_and_its_own_errors_have_a_line(self):
        self.assertEqual(recorded("x = 1\n")["error"]["reason"], "error")
        error = recorded("\n1 / 0\n")["error"]
        self.assertEqual((error["reason"], error["line"]), ("error", 2))

    def test_what_the_rules_allow_is_not_refused(self):
        answer = recorded("import os, math, torch\nfrom torch.utils.cpp_extension import load_inline\n"
                          "os.environ['TORCH_CUDA_ARCH_LIST'] = '9.0'\ntorch.backends.cudnn.benchmark = True\n" + NEW)
        self.assertEqual(answer, {"extensions": [], "workspace": False})


BUILDS = """
import os
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = None


def build():
    global ext
    if ext is None:
        try:
            BEFORE
            ext = load_inline(name="own", cpp_sources="int f();", cuda_sources="int f() { return 1 }", functions=["f"])
        except Exception:
            ext = None
    return ext
"""
IN_FORWARD = """

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        if x.is_cuda and build() is not None:
            return ext.f(x)
        return x @ self.weight
"""
IN_CONSTRUCTOR = """

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ext = build()

    def forward(self, x):
        return torch.relu(x)
"""


class HiddenBuilds(unittest.TestCase):
    """Files that go on without their kernels when the build fails."""

    def names(self, source):
        answer = recorded(source)
        return [one["name"] for one in answer.get("extensions", [answer])]

    def test_an_extension_is_found_that_is_asked_for_in_an_except_in_the_constructor_or_in_forward(self):
        for model in (IN_CONSTRUCTOR, IN_FORWARD):
            for before in ("pass", "os.makedirs(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'b'), exist_ok=True)",
                           "os.makedirs('/proc/no/such/folder')", "assert torch.cuda.get_device_properties(0).major >= 8",
                           "assert torch.cuda.get_device_capability()[0] >= 7; torch.cuda.synchronize()"):
                with self.subTest(model=model, before=before):
                    self.assertEqual(self.names(BUILDS.replace("BEFORE", before) + model), ["own"])

    def test_what_keeps_a_file_from_building_is_told_with_its_line_although_the_file_hides_it(self):
        head = BUILDS[:BUILDS.index("BEFORE")].count("\n") + 1
        for model in (IN_CONSTRUCTOR, IN_FORWARD):
            for before, line, text in (("open('/no/such/kernel.cu').read()", head, "FileNotFoundError"),
                                       ("load_inline(name='own', cpp_source='')", head, "TypeError"),
                                       ("load_inline(name='not a name', cpp_sources='int f();')", head, "ValueError")):
                with self.subTest(model=model, before=before):
                    error = recorded(BUILDS.replace("BEFORE", before) + model)["error"]
                    self.assertEqual((error["reason"], error["line"]), ("error", line), error["message"])
                    self.assertIn("is not built, and an `except` hides why: " + text, error["message"])

    def test_a_failure_that_has_nothing_to_do_with_a_build_is_none_of_it(self):
        model = IN_CONSTRUCTOR.replace("self.ext = build()", """try:
            {}["missing"]
        except KeyError:
            pass
        self.ext = build()""")
        self.assertEqual(self.names(BUILDS.replace("BEFORE", "pass") + model), ["own"])
        either = BUILDS.replace("BEFORE", "pass").replace("if ext is None:", "if torch.cuda.device_count() > 99:")
        self.assertEqual(self.names(either + IN_CONSTRUCTOR), [])

    def test_a_forward_that_never_ends_is_left(self):
        forever = IN_FORWARD.replace("if x.is_cuda", "while True:\n            try:\n                x + 1\n"
                                     "            except Exception:\n                pass\n        if x.is_cuda")
        started, candidate_record.FORWARD_S = time.monotonic(), 0.5
        self.assertEqual(self.names(BUILDS.replace("BEFORE", "pass") + forever), [])
        self.assertLess(time.monotonic() - started, 30)

    def test_streams_events_and_tensors_on_the_device_keep_nothing_from_being_found(self):
        model = IN_FORWARD.replace("self.weight = ", "self.stream, self.event = torch.cuda.Stream(), torch.cuda.Event(True)\n"
                                   "        self.room = torch.zeros(3, device='cuda')\n        self.weight = ")
        model = model.replace("if x.is_cuda", "self.event.record()\n        with torch.cuda.stream(self.stream):\n"
                              "            y = (x * 2).contiguous()\n        if y.is_cuda")
        self.assertEqual(self.names(BUILDS.replace("BEFORE", "pass") + model), ["own"])


class Rules(unittest.TestCase):
    def test_operators_that_compute_are_refused_and_creating_and_moving_is_not(self):
        a = torch.zeros(3, 4)
        with Watch():
            b = torch.empty_like(a).t().contiguous().view(3, 4).clone()
            b.fill_(2)
            b[1:].half()
            for compute in (lambda: a + b, lambda: torch.relu(a), a.sum, lambda: torch.nn.functional.gelu(a)):
                with self.assertRaises(Refused) as caught:
                    compute()
                self.assertEqual(caught.exception.reason, "violation/torch_compute")

    def test_weights_are_taken_by_name_and_other_shapes_are_refused(self):
        model = torch.nn.Linear(4, 2)
        weight = torch.ones(2, 4)
        adopt(model, {"weight": weight})
        self.assertEqual(model.weight.data_ptr(), weight.data_ptr())
        with self.assertRaises(Refused):
            adopt(model, {"bias": torch.ones(3)})


class Placing(unittest.TestCase):
    """Where outputs lie, said of tensors that stand for those of a GPU."""

    def place(self, value):
        base = torch.zeros(1 << 16, dtype=torch.uint8)
        at = base.data_ptr()
        start = -at % 64
        arena = base[start:start + (1 << 15)]

        class OnDevice(Placed):
            def inside(self, tensor):
                return 0 <= tensor.untyped_storage().data_ptr() - self.arena < self.size

        placed = OnDevice(value(arena), arena.data_ptr(), arena.numel())
        return placed.manifest()

    def test_a_tensor_in_the_arena_is_described_where_it_lies(self):
        def value(arena):
            storage = torch.frombuffer(arena.numpy(), dtype=torch.float32)
            return {"out": torch.empty(0).set_(storage.untyped_storage(), 0, (2, 3), (3, 1))}

        manifest = self.place(value)
        self.assertEqual(manifest["storages"][0]["offset"], 0)
        self.assertEqual(manifest["tree"]["items"][0]["name"], "out")
        self.assertEqual(manifest["tree"]["items"][0]["size"], [2, 3])

    def test_other_things_than_tensors_are_refused(self):
        with self.assertRaises(TypeError):
            self.place(lambda arena: [object()])


class Alone(unittest.TestCase):
    def test_a_confined_process_starts_threads_and_no_process(self):
        if LIBRARY is None:
            self.skipTest("no library")

        def confined():
            rc = ctypes.CDLL(LIBRARY).khost_threads_only()
            ran = []
            thread = threading.Thread(target=lambda: ran.append(1))
            thread.start()
            thread.join()
            try:
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                return rc, ran, "forked"
            except PermissionError:
                return rc, ran, "refused"

        self.assertEqual(in_a_child(confined), (0, [1], "refused"))

    def test_what_is_built_in_forward_is_found_in_a_confined_process_and_a_forward_without_an_end_is_left_there(self):
        if LIBRARY is None:
            self.skipTest("no library")
        source = BUILDS.replace("BEFORE", "os.makedirs('/proc/no/such/folder')") + IN_FORWARD
        # All of the loop stands in the try: it may be stopped at any of its instructions.
        forever = source.replace("if x.is_cuda", "try:\n            while True:\n                x + 1\n        except:\n"
                                 "            pass\n        if x.is_cuda")

        def confined(text):
            candidate_record.FORWARD_S = 3  # long enough for what comes before the loop on a busy machine
            rc = ctypes.CDLL(LIBRARY).khost_confine()
            answer = candidate_record.record({"source": text, "init": None, "inputs": INPUTS})
            return rc, [one["name"] for one in answer.get("extensions", [answer])]

        self.assertEqual(in_a_child(lambda: confined(source)), (0, ["own"]))
        # What hides that it was stopped goes on from there.
        self.assertEqual(in_a_child(lambda: confined(forever)), (0, ["own"]))


def call_extension(path, name):
    """Kernels do not run without a GPU; the functions' arguments, checks and results do."""
    torch.cuda.current_stream = lambda *device: types.SimpleNamespace(cuda_stream=0)
    module = candidate.open_extension(name, os.open(path, os.O_RDONLY))
    x, weight, bias = torch.randn(8, 16), torch.ones(16), torch.zeros(16)
    with Watch():
        if name == "affine_relu":
            result = module.affine_relu_cuda(x, weight, bias)
            assert result.shape == x.shape and result.dtype == x.dtype, result
            try:
                module.affine_relu_cuda(x, weight)
            except TypeError:
                return
        else:
            try:
                module.affine_relu(x, weight, bias=bias)
            except RuntimeError as error:
                assert "CUDA tensor" in str(error), error
                return
    raise AssertionError("no error where one must be")


if __name__ == "__main__":
    if sys.argv[1:2] == ["extension"]:
        call_extension(*sys.argv[2:4])
    else:
        if len(sys.argv) > 1:
            LIBRARY = sys.argv.pop(1)
        unittest.main()
