"""Checks of what plain kernels may be off by, of float64 outputs, of a model that asks for a dtype, and of what planted sets
show of guards and last terms, with a Python that has torch: `python tests/python/tolerance_plain_test.py`."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch
import torch.nn.functional as F

from calibrated_task import Calibrated
from khost.values.calibration import passing
from khost.values.sums import sequential_sum

X = "torch.randn(128, 512)"


class PlainKernels(unittest.TestCase):
    """Functions in the forms of textbooks, variances in one pass, and references whose large numbers cancel."""

    def accepted(self, forward, inputs, answer, kinds=("drawn", "planted")):
        c = Calibrated(forward, inputs)
        self.assertEqual(c.answer["uninformative"], "")
        for kind in kinds:
            self.assertEqual(c.wrong(answer, kind), [0], (forward, kind))
        return c

    def test_functions_of_one_element(self):
        self.accepted("F.elu(x)", X, lambda x: [torch.where(x > 0, x, torch.exp(x) - 1)])
        self.accepted("torch.selu(x)", X, lambda x: [1.0507009873554805 * torch.where(
            x > 0, x, 1.6732632423543772 * (torch.exp(x) - 1))])
        self.accepted("F.celu(x, alpha=0.5)", X, lambda x: [torch.where(x > 0, x, 0.5 * (torch.exp(x / 0.5) - 1))])
        self.accepted("torch.tanh(x)", X, lambda x: [2 / (1 + torch.exp(-2 * x)) - 1])
        self.accepted("F.softplus(x, beta=2)", X, lambda x: [torch.where(2 * x > 20, x, torch.log(1 + torch.exp(2 * x)) / 2)])
        self.accepted("torch.sinh(x)", X, lambda x: [0.5 * (torch.exp(x) - torch.exp(-x))])
        self.accepted("F.mish(x)", X, lambda x: [x * torch.tanh(torch.log(1 + torch.exp(x)))], ("drawn",))

    def test_tails_that_have_one_element_in_a_million(self):
        for forward, deviation, textbook in (
                ("F.mish(x)", 1, lambda x: x * torch.tanh(torch.log(1 + torch.exp(x)))),
                ("F.mish(x)", 2, lambda x: x * torch.tanh(torch.log(1 + torch.exp(x)))),
                ("F.logsigmoid(x)", 2, lambda x: -torch.log(1 + torch.exp(-x)))):
            for shape in ("1024, 1024", "256, 512"):
                c = Calibrated(forward, f"{deviation} * torch.randn({shape})")
                for kind in ("drawn", "drawn", "planted", "planted"):
                    self.assertEqual(c.wrong(lambda x, way=textbook: [way(x)], kind), [0], (forward, deviation, kind))

    def test_samples_that_were_drawn_elsewhere_are_planted_without_their_task(self):
        c = Calibrated("F.elu(x)", "torch.rand(64, 512)")  # the input itself passes on drawn sets
        self.assertEqual(passing([c.calibration.sample(), c.calibration.sample()]), [])

    def test_a_long_sum_in_one_double(self):
        inputs = "torch.rand(16, 65536, dtype=torch.float64)"
        c = self.accepted("x.sum(1)", inputs, lambda x: [x.cumsum(1)[:, -1]], ("drawn",))
        self.assertGreater(c.wrong(lambda x: [x.float().double().sum(1)])[0], 8)

    def test_half_types_are_refused_all_the_same(self):
        for forward, inputs in (("torch.tanh(x)", X), ("F.elu(x)", X), ("F.mish(x)", X),
                                ("F.mish(x)", "2 * torch.randn(1024, 1024)"), ("F.logsigmoid(x)", X)):
            c = Calibrated(forward, inputs)
            for dtype in (torch.bfloat16, torch.float16):
                self.assertGreater(c.wrong(lambda x, c=c, t=dtype: [c.calibration.task.module.Model()(x).to(t)])[0], 1000)

    def test_a_variance_in_one_pass(self):
        def one_pass(x):
            rows = x.reshape(8, -1)
            mean = sequential_sum(rows, -1) / rows.shape[1]
            scale = torch.rsqrt(sequential_sum(rows * rows, -1) / rows.shape[1] - mean * mean + 1e-5)
            return [((rows - mean[:, None]) * scale[:, None]).reshape(x.shape)]

        self.accepted("F.group_norm(x, 8)", "torch.rand(1, 64, 64, 64)", one_pass, ("drawn",))

    def test_numbers_that_cancel_make_no_reduced_reference(self):
        c = self.accepted("(x * x).mean(1) - x.mean(1) ** 2", "torch.randn(512, 4096) + 10", lambda x: [
            sequential_sum(x * x, -1) / 4096 - (sequential_sum(x, -1) / 4096) ** 2])
        self.assertEqual(c.answer["kinds"]["drawn"][0]["precision"], "full")
        for reduced in ("(x.bfloat16() @ x.t().bfloat16()).float()", "F.layer_norm(x.half(), x.shape[-1:]).float()"):
            self.assertEqual(Calibrated(reduced, X).answer["kinds"]["drawn"][0]["precision"], "reduced", reduced)

    def test_inverse_hyperbolic_functions_of_textbooks(self):
        for forward, inputs, textbook in (
                ("torch.asinh(x)", "torch.randn(256, 512)", lambda x: (x + (x * x + 1).sqrt()).log()),
                ("torch.asinh(x)", "torch.randn(256, 512)", lambda x: x.sign() * (x.abs() + (x * x + 1).sqrt()).log()),
                ("torch.atanh(x)", "torch.rand(256, 512) * 1.8 - 0.9", lambda x: 0.5 * ((1 + x) / (1 - x)).log())):
            c = Calibrated(forward, inputs)
            self.assertEqual(c.answer["uninformative"], "")
            for _ in range(3):
                self.assertEqual(c.wrong(lambda x, way=textbook: [way(x)]), [0], forward)
            self.assertGreater(c.wrong(lambda x, way=textbook: [way(x).half()])[0], 1000)


class Doubles(unittest.TestCase):
    """Outputs of float64."""

    def test_beside_float32_they_are_computed_in_float64(self):
        for forward in ("(x.double() * y, x + y)", "(x + y, x > 0, x.double() * y)"):
            c = Calibrated(forward, f"{X}, {X}", "x, y")
            self.assertEqual(c.wrong(lambda x, y, c=c: c.calibration.task.module.Model()(x, y)), [0] * forward.count(",") +
                             [0])
            place = 0 if forward.startswith("(x.double") else 2
            self.assertGreater(c.wrong(lambda x, y, c=c: [
                t.float() if t.dtype == torch.float64 else t for t in c.calibration.task.module.Model()(x.float(), y)])[place],
                10000)

    def test_what_is_computed_in_float32_and_returned_as_float64(self):
        c = Calibrated("(a @ b).double()", "torch.randn(64, 1024), torch.randn(1024, 64)", "a, b")
        self.assertEqual(c.answer["kinds"]["drawn"][0]["precision"], "full")

        def one_accumulator(a, b):
            total = torch.zeros(64, 64)
            for k in range(1024):
                total += a[:, k:k + 1] * b[k:k + 1]
            return [total.double()]

        self.assertEqual(c.wrong(one_accumulator), [0])
        self.assertGreater(c.wrong(lambda a, b: [(a.half().float() @ b).double()])[0], 1000)


class TheDtypeThatIsTold(unittest.TestCase):
    """A model that asks for its tensors' dtype is told that of the reference when it runs in double."""

    def test_the_smallest_number_masks(self):
        c = Calibrated("x.masked_fill(m, torch.finfo(x.dtype).min)", X + ", torch.rand(128, 512) < 0.3", "x, m")
        self.assertEqual(c.answer["uninformative"], "")
        self.assertEqual(c.wrong(lambda x, m: [x.masked_fill(m, torch.finfo(torch.float32).min)]), [0])
        self.assertGreater(c.wrong(lambda x, m: [x])[0], 10000)

    def test_the_epsilon_of_the_dtype(self):
        c = Calibrated("torch.log(F.relu(x) + torch.finfo(x.dtype).eps)", X)
        self.assertGreater(c.wrong(lambda x: [torch.where(x > 0, torch.log(F.relu(x) + 2 ** -23), 0.0)])[0], 10000)

    def test_a_branch(self):
        c = Calibrated("torch.tanh(x) if x.dtype == torch.float32 else x", X)
        self.assertEqual((c.answer["uninformative"], c.answer["oracle_error"]), ("", ""))
        half = Calibrated("torch.tanh(x) if x.dtype == torch.float16 else x", X + ".half()")
        self.assertEqual((half.answer["uninformative"], half.answer["oracle_error"]), ("", ""))

    def test_numbers_that_stand_for_infinities(self):
        c = Calibrated("torch.nan_to_num(x / F.relu(x).sign())", X)
        self.assertEqual(c.answer["uninformative"], "")
        self.assertGreater(c.wrong(lambda x: [x])[0], 10000)


class Guards(unittest.TestCase):
    """What keeps a division from zero shows on small slices, and the last of many terms on outliers that are larger."""

    def test_epsilons(self):
        norm = "(x - x.mean({0}, keepdim=True)) * torch.rsqrt(x.var({0}, unbiased=False, keepdim=True){1})"
        tasks = {"F.layer_norm(x, (512,))": ("torch.randn(128, 512)", 1),
                 "F.batch_norm(x, None, None, training=True)": ("torch.randn(256, 64)", 0),
                 "F.instance_norm(x)": ("torch.randn(16, 16, 512)", 2)}
        for forward, (inputs, axis) in tasks.items():
            c = Calibrated(forward, inputs)
            for epsilon, right in ((" + 1e-5", True), ("", False), (" + 1e-6", False)):
                wrong = c.wrong(lambda x, e=epsilon, a=axis: [eval(norm.format(a, e), {"x": x, "torch": torch})], "planted")
                self.assertEqual(wrong == [0], right, (forward, epsilon))

    def test_the_last_of_four_million_terms(self):
        c = Calibrated("x.mean()", "torch.rand(4096, 1024)")
        self.assertEqual(c.wrong(lambda x: [x.double().mean()], "planted"), [0])
        self.assertEqual(c.wrong(lambda x: [sequential_sum(x, -1).double().mean() / 1024], "planted"), [0])
        self.assertEqual(c.wrong(lambda x: [x.reshape(-1)[:-1].double().sum() / x.numel()], "planted"), [1])

    def test_one_accumulator_of_a_loss_is_honest(self):
        c = Calibrated("torch.mean(torch.clamp(1 - x * y.sign(), min=0))", "torch.rand(128, 4096), torch.rand(128, 4096)",
                       "x, y")
        self.assertGreaterEqual(c.answer["kinds"]["planted"][0]["k"], 32)


if __name__ == "__main__":
    unittest.main()
