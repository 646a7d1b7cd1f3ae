"""Checks of what an element may be off by where functions jump, where elements of one size are conditioned differently, and
where a small output holds numbers of different scales, with a Python that has torch:
`python tests/python/tolerance_kinds_test.py`."""

import math
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch

from calibrated_task import Calibrated, refused
from khost.values.oracle import run_in_double

X = "torch.randn(128, 512)"
HUNDREDTHS = "torch.randint(0, 101, (256, 256)) / 100.0"


class Jumps(unittest.TestCase):
    """What a share excuses is a jump, and no farther off; what is compared as it is read does not jump at all."""

    def test_a_clamp_that_few_elements_show(self):
        c = Calibrated("torch.clamp(torch.round(x * 24), -127, 127) / 24", "torch.randn(256, 1024)")
        self.assertGreater(c.answer["kinds"]["planted"][0]["share"], 0)
        self.assertGreater(c.wrong(lambda x: [torch.round(x * 24) / 24], "planted")[0], 0)
        for kind in ("drawn", "planted"):
            self.assertEqual(c.wrong(lambda x: [torch.round(x.double() * 24).clamp(-127, 127) / 24], kind), [0])

    def test_integers_that_wrap_around(self):
        c = Calibrated("torch.clamp(torch.round(x / s), -128, 127).to(torch.int8)",
                       "torch.randn(256, 1024), torch.rand(256, 1) * 0.02 + 0.03", "x, s")
        self.assertGreater(c.wrong(lambda x, s: [torch.round(x / s).to(torch.int32).to(torch.int8)], "planted")[0], 0)
        self.assertEqual(c.wrong(lambda x, s: [torch.round(x.double() / s).clamp(-128, 127).to(torch.int8)]), [0])

    def test_places_of_a_maximum_have_no_cap(self):
        c = Calibrated("(x @ w).argmax(1)", "torch.randn(4096, 64).half().float(), torch.randn(64, 512).half().float()",
                       "x, w")
        self.assertIsNone(c.answer["kinds"]["drawn"][0]["cap"])

    def test_edges_of_buckets_are_compared_as_they_are_read(self):
        edges = "self.register_buffer('b', torch.linspace(0, 1, 11))"
        for forward in ("torch.bucketize(x, self.b)", "torch.searchsorted(self.b, x)", "(x[..., None] >= self.b).sum(-1)",
                        "torch.bucketize(x, torch.linspace(0, 1, 11))"):
            c = Calibrated(forward, HUNDREDTHS, init=edges)
            self.assertEqual((c.answer["ambiguous"], c.answer["uninformative"]), ("", ""), forward)
            self.assertEqual(c.answer["kinds"]["drawn"][0]["share"], 0, forward)

    def test_a_threshold_in_the_code_is_that_of_the_reference(self):
        c = Calibrated("torch.where(x > 0.3, x, 0.0)", HUNDREDTHS)
        self.assertEqual(c.answer["kinds"]["drawn"][0]["share"], 0)
        self.assertGreater(c.wrong(lambda x: [torch.where(x >= 0.3, x, 0.0)])[0], 100)

    def test_a_computed_number_is_no_input(self):
        c = Calibrated("((x * 1.1) > 0.5).float()", X)
        self.assertGreaterEqual(c.answer["kinds"]["drawn"][0]["share"], 0)
        moved = run_in_double(c.calibration.sample().model, [torch.full((4,), 0.5)], lambda wide, own: wide * 0.9)
        self.assertEqual(moved[0].tolist(), [0.0] * 4)
        read = Calibrated("x.mul_(1.1) > 0.5", X).calibration.sample().model
        self.assertEqual(run_in_double(read, [torch.full((4,), 0.5)])[0].tolist(), [True] * 4)

    def test_halves_of_an_input_are_rounded_as_the_reference_rounds_them(self):
        c = Calibrated("torch.round(x).to(torch.int32)", "torch.randint(-(1 << 19), 1 << 19, (512, 512)).float() / 8")
        self.assertEqual(c.wrong(lambda x: [torch.round(x).to(torch.int32)]), [0])
        self.assertGreater(c.wrong(lambda x: [torch.floor(x + 0.5).to(torch.int32)])[0], 10000)

    def test_rounded_tenths_are_judged_by_their_steps(self):
        c = Calibrated("torch.round(x * 10)", HUNDREDTHS)
        self.assertEqual(c.answer["uninformative"], "")
        self.assertEqual(c.wrong(lambda x: [torch.round(x.double() * 10)]), [0])
        self.assertGreater(c.wrong(lambda x: [torch.floor(x * 10)])[0], 10000)


class Typical(unittest.TestCase):
    """Elements of one octave that are conditioned differently."""

    def test_sine_and_cosine_of_large_angles_in_bfloat16(self):
        c = Calibrated("x * torch.cos(self.a[:, None] * self.f) + y * torch.sin(self.a[:, None] * self.f)",
                       "torch.randn(8192, 32), torch.randn(8192, 32)", "x, y",
                       "self.a = nn.Buffer(2 * torch.arange(8192.)); self.f = nn.Buffer(10000 ** (-torch.arange(32) / 32.))")
        self.assertEqual(c.answer["uninformative"], "")
        model = c.calibration.sample().model
        for dtype, right in ((torch.bfloat16, False), (torch.float32, True)):
            angle = (model.a[:, None].double() * model.f).to(torch.float32)
            cosine, sine = angle.cos().to(dtype).float(), angle.sin().to(dtype).float()
            self.assertEqual(c.wrong(lambda x, y, u=cosine, v=sine: [x * u + y * v]) == [0], right)


class SmallOutputs(unittest.TestCase):
    def test_statistics_of_different_scales_have_bounds_of_their_own(self):
        c = Calibrated("torch.stack([x.mean(), x.var(), x.abs().max(), x.pow(8).sum()])", "torch.randn(100000)")
        self.assertEqual((c.answer["uninformative"], c.answer["kinds"]["drawn"][0]["by"]), ("", "element"))

        def stats(x):
            return torch.stack([x.mean(), x.var(), x.abs().max(), x.pow(8).sum()])

        for _ in range(5):
            self.assertEqual(c.wrong(lambda x: [stats(x.double())]), [0])
        for place in range(4):
            off = torch.where(torch.arange(4) == place, 0.001, 0.0)
            self.assertEqual(c.wrong(lambda x, off=off: [stats(x) + off * stats(x).abs().clamp(min=0.1)]), [1])

    def test_rows_and_columns_of_different_statistics_have_bounds_of_their_own(self):
        for axis in (0, 1):
            c = Calibrated(f"torch.stack([x.mean(1), x.pow(2).sum(1), x.pow(6).sum(1)], {axis})", "torch.randn(30, 16384)")

            def plain(x, part=1.0, axis=axis):
                exact = x.double()
                return [torch.stack([part * exact.mean(1), exact.pow(2).sum(1), exact.pow(6).sum(1)], axis).float()]

            for kind in ("drawn", "planted"):
                self.assertEqual(c.wrong(plain, kind), [0], (axis, kind))
            self.assertGreater(c.wrong(lambda x, plain=plain: plain(x, 0.0))[0], 20, axis)

    def test_few_elements_beside_zeros(self):
        forward, inputs = "torch.relu(x @ w - 72)", "torch.randn(512, 256), torch.randn(256, 1024)"
        c = Calibrated(forward, inputs, names="x, w")
        for kind in ("drawn", "drawn", "drawn", "planted"):
            self.assertEqual(c.wrong(lambda x, w: [torch.relu((x.double() @ w.double()).float() - 72)], kind), [0], kind)

    def test_a_loss_without_its_last_element(self):
        c = Calibrated("F.mse_loss(a, b)", "torch.rand(1000, 1003), torch.rand(1000, 1003)", "a, b")
        self.assertEqual((c.answer["uninformative"], c.answer["planting"]), ("", ""))
        for _ in range(5):
            self.assertEqual(c.wrong(lambda a, b: [(a.flatten()[:-1] - b.flatten()[:-1]).square().sum() / a.numel()],
                                     "planted"), [1])
            self.assertEqual(c.wrong(lambda a, b: [(a.double() - b.double()).square().mean()], "planted"), [0])


class Ties(unittest.TestCase):
    def test_a_router_of_bfloat16(self):
        for pick in ("torch.topk(torch.softmax(x.float(), -1), 2, -1)", "torch.sort(x, -1)"):
            c = Calibrated(pick, "torch.randn(4096, 16).bfloat16()")
            self.assertEqual(c.answer["ambiguous"], "")

            def last_first(x, pick=pick):
                values, places = torch.sort(x.flip(-1), dim=-1, stable=True, descending="topk" in pick)
                if "sort" in pick:
                    return [values, 15 - places]
                return [torch.softmax(x.float(), -1).gather(-1, 15 - places)[:, :2], (15 - places)[:, :2]]

            for _ in range(3):
                self.assertEqual(c.wrong(last_first), [0, 0], pick)
            self.assertGreater(c.wrong(lambda x: last_first(x.roll(1, -1)))[1], 100)


class Poles(unittest.TestCase):
    def test_a_quotient_near_its_poles(self):
        init = "\n        ".join(f"self.{name} = nn.Parameter(torch.randn(512))" for name in "abcd")
        c = Calibrated("(self.a * x + self.b) / (self.c * x + self.d)", "torch.randn(512, 512)", init=init)
        for _ in range(12):
            sample = c.calibration.sample()
            x, m = sample.values[0].double(), sample.model

            def fused(gain, bias, x=x):  # one rounding of the product and the sum
                return (gain.double() * x + bias.double()).float()

            near = sample.expected[0].abs() > 1024  # the largest that was measured is a few times smaller than some
            got = torch.where(near, fused(m.a, m.b) / fused(m.c, m.d), sample.expected[0])
            self.assertEqual(refused(c.answer["kinds"]["drawn"][0], got, sample.expected[0]), 0)

    def test_a_denominator_that_is_zero_by_one_rounding(self):
        c = Calibrated("(1 + self.a.abs()) / (x - self.b * self.c)", "torch.randn(512, 512)",
                       init="\n        ".join(f"self.{name} = nn.Parameter(torch.randn(512))" for name in "abc"))
        entry, sample = c.answer["kinds"]["drawn"][0], c.calibration.sample()
        x, m = sample.values[0], sample.model
        x[0] = m.b * m.c
        expected, fused = m(x), ((1 + m.a.double().abs()) / (x.double() - m.b.double() * m.c.double())).float()
        self.assertGreater(int(torch.isinf(expected[0]).sum()), 500)
        self.assertGreater(int(torch.isfinite(fused[0]).sum()), 250)  # of a product of two float32 half have no rounding left
        self.assertEqual(refused(entry, fused, expected), 0)
        self.assertEqual(refused(entry, expected, fused), 0)
        for wrong in (0.0, 1.0, float("nan")):
            self.assertGreater(refused(entry, torch.where(torch.isinf(expected), wrong, expected), expected), 250)

    def test_infinities_that_are_decided(self):
        for forward in ("torch.log(x.relu())", "1 / (x - x.round()) / (x > 0)", "x.masked_fill(x > 1, float('inf')) / (x - 0.1)"):
            entry = Calibrated(forward, "torch.randn(512, 512)").answer["kinds"]["drawn"][0]
            self.assertIsNone(entry["pole"], forward)


class Counts(unittest.TestCase):
    """Small outputs that count, in which one rounding takes an element across a threshold."""

    def test_a_histogram_in_another_form(self):
        c = Calibrated("torch.histc(x, 64, -3.0, 3.0)", "torch.randn(1024, 1024)")
        self.assertEqual(c.answer["uninformative"], "")
        for _ in range(6):
            self.assertEqual(c.wrong(lambda x: [torch.histc(x.double(), 64, -3.0, 3.0)]), [0])
        self.assertGreater(c.wrong(lambda x: [torch.histc(x[:512], 64, -3.0, 3.0) * 2])[0], 32)
        self.assertGreater(c.wrong(lambda x: [torch.histc(x[:-1], 64, -3.0, 3.0)])[0], 0)

    def test_whole_numbers(self):
        forward = "torch.bincount(((x + 4) * 8).clamp(0, 63).long().reshape(-1), minlength=64)"
        c = Calibrated(forward, "torch.randn(1024, 1024)")
        entry = c.answer["kinds"]["drawn"][0]
        self.assertGreater(entry["share"], 0.25)
        self.assertEqual((c.answer["ambiguous"], c.answer["uninformative"]), ("", ""))
        self.assertLess(entry["cap"], 16)

        def fused(x):
            return torch.bincount((x.double() * 8 + 32).clamp(0, 63).long().reshape(-1), minlength=64)

        for _ in range(6):
            self.assertEqual(c.wrong(lambda x: [fused(x)]), [0])
        self.assertGreater(c.wrong(lambda x: [fused(x[:512]) * 2])[0], 32)
        self.assertGreater(c.wrong(lambda x: [fused(x[:-1])])[0], 0)

    def test_counts_of_rows_without_their_last_element(self):
        c = Calibrated("(torch.tanh(x) > 0.5).sum(dim=1)", "torch.randn(64, 16385)")
        for _ in range(4):
            self.assertEqual(c.wrong(lambda x: [(x.double() > math.atanh(0.5)).sum(1)]), [0])
            self.assertGreater(c.wrong(lambda x: [(torch.tanh(x[:, :-1]) > 0.5).sum(1)])[0], 0)

    def test_what_counts_nothing_or_little_stays_as_it_was(self):
        for forward, inputs in (("x.mean(1)", "torch.randn(64, 4096)"), ("torch.round(x @ w)", "torch.randn(64, 512), torch.randn(512)"),
                                ("x.argmax(1)", "torch.randn(64, 4096)"), ("(torch.tanh(x) > 0.9).sum(1)", "torch.randn(64, 64)")):
            c = Calibrated(forward, inputs, "x, w" if "w" in forward else "x")
            self.assertEqual(c.calibration.verdicts["drawn"].rules[0].measure.counted.granted(), 0.0, forward)


class Ends(unittest.TestCase):
    """The last element of all shows in one planted set or the next: whether it is the largest or the smallest."""

    def test_extremes_and_half_lines_without_their_last_elements(self):
        for forward in ("x.min()", "x.max()", "x.abs().max()", "F.relu(-x).sum()", "F.relu(x).sum()"):
            c = Calibrated(forward, "torch.randn(1021, 1023)")
            model, found = c.calibration.sample().model, []
            for number in range(2):
                sample = c.calibration.sample(planted=True, number=number)
                cut = model(sample.values[0].reshape(-1)[:-3])
                found.append(refused(c.answer["kinds"]["planted"][0], cut, sample.expected[0]))
            self.assertGreater(sum(found), 0, forward)


if __name__ == "__main__":
    unittest.main()
