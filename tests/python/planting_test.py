"""Checks of what is planted in inputs (sandbox/python/khost/values/planting.py, contrast.py), with a Python that has torch:
`python tests/python/planting_test.py`."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch

from calibrated_task import Calibrated, refused
from khost.values.planting import add_outliers, plant
from khost.values.structure import structure


class Planting(unittest.TestCase):
    def planted(self, tensor):
        before, why = tensor.clone(), structure(tensor)
        if not why:
            add_outliers(tensor, torch.Generator().manual_seed(1))
        return why, int((tensor != before).sum())

    def test_normal_numbers_bear_outliers_and_exact_zeros_stay(self):
        why, count = self.planted(torch.randn(100, 1000))
        self.assertEqual((why, count), ("", 10))
        left = torch.triu(torch.randn(384, 384))
        self.assertEqual(self.planted(left)[0], "")
        self.assertEqual(int(torch.tril(left, -1).count_nonzero()), 0)
        self.assertGreater(float(left.abs().max()), 6)

    def test_the_last_place_of_an_axis_has_an_outlier(self):
        c = Calibrated("torch.amax(x, dim=1)", "torch.randn(16, 4099)")
        for _ in range(5):
            self.assertGreater(c.wrong(lambda x: [x[:, :4096].amax(1)], "planted")[0], 0)
        for shape in ((1000007,), (64,), (3, 5, 7000)):
            tensor = torch.randn(*shape)
            before = tensor.clone()
            self.assertEqual(structure(tensor), "")
            add_outliers(tensor, torch.Generator().manual_seed(4))
            self.assertTrue(bool((tensor[..., -1] != before[..., -1]).any()))
        turned = torch.randn(300, 200).t()
        add_outliers(turned, torch.Generator().manual_seed(4))
        self.assertGreater(float(turned[:, -1].max()), 5)

    def test_structure_is_left_alone(self):
        square = torch.randn(64, 64)
        for tensor in (torch.rand(64, 64), torch.randint(0, 100, (4096,)).float(), torch.randn(4096).sort().values,
                       square @ square.t(), torch.rand(64, 64) + 3, torch.softmax(square, -1) - 0.0, square.sign(),
                       square / square.norm(dim=1, keepdim=True), torch.randn(8, 8)[:, :4]):
            why, count = self.planted(tensor)
            self.assertNotEqual(why, "")
            self.assertEqual(count, 0)

    def test_a_part_of_another_tensor_bears_outliers_and_windows_do_not(self):
        whole = torch.randn(4, 129, 64)
        part, before = whole[:, :-1], whole[:, -1].clone()
        self.assertEqual(plant([part], 4).why, "")
        self.assertGreater(float(part.abs().max()), 10)
        self.assertTrue(torch.equal(whole[:, -1], before))
        windows = torch.randn(128).unfold(0, 8, 1)
        self.assertNotEqual(plant([windows], 4).why, "")

    def test_whole_numbers_far_away_are_no_bounds(self):
        x, steps = torch.randn(8, 512), torch.randint(100, 1000, (8, 1)).float()
        self.assertEqual(plant([x, steps], 4).why, "")
        bounded, ends = torch.rand(8, 512) * 90 - 1, torch.arange(100.0, 108.0).unsqueeze(1)
        self.assertIn("in order", plant([bounded, ends], 4, ("outliers",)).why)

    def test_the_task_s_own_generator_is_not_used(self):
        state = torch.get_rng_state()
        values = [torch.randn(64, 64, generator=torch.Generator().manual_seed(2))]
        torch.manual_seed(1234)
        inside = torch.get_rng_state()
        plant(values, 99)
        self.assertTrue(torch.equal(inside, torch.get_rng_state()))
        torch.set_rng_state(state)

    def test_probabilities_stay_probabilities(self):
        c = Calibrated('F.binary_cross_entropy(a, b, reduction="none")',
                       "torch.rand(128, 512) * 0.98 + 0.01, torch.rand(128, 512)", "a, b")
        self.assertEqual((c.answer["planting"], c.answer["uninformative"]), ("", ""))
        self.assertNotIn("bold", c.answer["planted_kinds"])
        for value, low, high in zip(c.calibration.sample(planted=True).values, (0.01, 0.0), (0.99, 1.0)):
            self.assertGreaterEqual(float(value.min()), low)
            self.assertLessEqual(float(value.max()), high)

    def test_a_model_that_raises_on_outliers_gets_none(self):
        inputs = "torch.cat([torch.randn(16, 63).clamp(-3.4, 3.3), torch.randn(16, 1).clamp(-1, 1)], 1)"
        c = Calibrated("torch.exp(x) if bool((x.abs() < 6.5).all()) else missing", inputs)
        self.assertEqual((c.answer["planting"], c.answer["planted_kinds"]), ("", ["arranged", "within"]))
        c = Calibrated("torch.exp(x) if bool((x[:, -1].abs() <= 1).all()) else missing", inputs)
        self.assertIn("the model does not bear outliers", c.answer["planting"])

    def test_a_sum_that_loses_its_small_terms_beside_an_outlier_is_no_half_type(self):
        for _ in range(4):  # in one of four, rows whose sum does so were a quarter of all
            c = Calibrated("torch.softmax(x, dim=-1)", "torch.randn(16, 65536)")
            self.assertEqual(c.answer["kinds"]["planted"][0]["precision"], "full")
            self.assertEqual(c.wrong(lambda x: [torch.softmax(x.double(), -1)], "planted"), [0])

    def test_a_range_by_chance_is_planted_where_the_task_says_nothing_without(self):
        c = Calibrated("torch.relu(x)", "torch.rand(128, 512)")
        self.assertEqual((c.answer["uninformative"], c.answer["planting"]), ("", ""))
        self.assertEqual(c.wrong(lambda x: [x.clone()]), [0])
        self.assertTrue(c.answer["bank"]["pass_through(input 0)"] == "planted")

    def test_float_labels(self):
        c = Calibrated("torch.gather(x, 1, y.long().unsqueeze(1)).squeeze(1) * 2.0 - x.mean(dim=1)",
                       "torch.randn(2048, 100), torch.randint(0, 100, (2048,)).float()", "x, y")
        self.assertEqual((c.answer["uninformative"], c.answer["planting"], c.answer["oracle_error"]), ("", "", ""))
        self.assertEqual(c.answer["kinds"]["drawn"][0]["share"], 0)


class OneSign(unittest.TestCase):
    """Tensors of one sign are planted in without leaving their range (contrast.py)."""

    def test_lines_have_their_extremes_at_the_end_and_the_range_stays(self):
        for shape in ((640, 100), (8, 160, 33), (100003,)):
            for tensor in (torch.rand(shape), torch.rand(shape) + 1, -torch.rand(shape), torch.rand(shape).half(),
                           torch.relu(torch.randn(shape))):
                before = tensor.clone()
                for seed in (3, 4):  # the largest, then the smallest of all stands last
                    self.assertEqual(plant([tensor], seed), ("", ("arranged",)))
                self.assertGreaterEqual(float(tensor.min()), float(before.min()))
                self.assertLessEqual(float(tensor.max()), float(before.max()))
                self.assertEqual(int((tensor == 0).sum()), int((before == 0).sum()))
                last = shape[-1] - 1
                ends = int((tensor.argmax(-1) == last).sum() + (tensor.argmin(-1) == last).sum())
                if bool(before.all()):  # an exact zero may stand in the last place, and stays there
                    self.assertGreater(ends, 0 if len(shape) == 1 else 10)

    def test_an_order_is_kept(self):
        square = torch.rand(80, 80)
        corner = torch.rand(1000, 2)
        for tensor in (torch.softmax(square, 0), torch.softmax(square, 1), square.cumsum(0), square + square.t(),
                       torch.cat([corner, corner + torch.rand(1000, 2)], 1),
                       torch.cat([torch.rand(100, 60).cumsum(1), torch.full((100, 3), float("inf"))], 1)):
            before = tensor.clone()
            self.assertNotEqual(plant([tensor], 3).why, "")
            self.assertTrue(torch.equal(tensor, before))
        for low, high in ((square, square + torch.rand(80, 80)), (square, 1 - square), (square[:, :1], square + 1)):
            self.assertIn("in order with another input", plant([low, high], 3).why)

    def test_a_row_without_its_last_element(self):
        for forward, cut in (("x.amax(1)", lambda x: x[:, :-1].amax(1)), ("x.amin(1)", lambda x: x[:, :-1].amin(1)),
                             ("x.amax(0)", lambda x: x[:-1].amax(0))):
            c = Calibrated(forward, "torch.rand(1024, 1021)")
            self.assertGreater(c.wrong(lambda x: [cut(x)], "planted")[0], 0, forward)  # noqa: B023

    def test_an_epsilon_shows(self):
        c = Calibrated("x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)", "torch.rand(256, 512)")
        bare = c.wrong(lambda x: [x * torch.rsqrt(x.square().mean(1, keepdim=True))], "planted")
        self.assertGreater(bare[0], 0)
        exact = c.wrong(lambda x: [x.double() / (x.double().square().mean(1, keepdim=True) + 1e-6).sqrt()], "planted")
        self.assertEqual(exact, [0])

    def test_zeros_hold_numbers(self):
        c = Calibrated("torch.tanh(x + h)", "torch.randn(64, 256), torch.zeros(64, 256)", "x, h")
        self.assertEqual(c.wrong(lambda x, h: [torch.tanh(x + h)], "planted"), [0])
        self.assertGreater(c.wrong(lambda x, h: [torch.tanh(x)], "planted")[0], 0)

    def test_what_a_model_does_not_bear_is_left_out_and_the_rest_is_planted(self):
        c = Calibrated('x.masked_fill(m.bool(), float("-inf")).amax(1)', "torch.randn(64, 1021), torch.zeros(64, 1021)", "x, m")
        self.assertEqual((c.answer["planting"], sorted(c.answer["planted_kinds"])), ("", ["arranged", "outliers"]))
        c = Calibrated("torch.sqrt(1.01 - x * x) * y", "torch.randn(64, 256).clamp(-1, 1), torch.rand(64, 256)", "x, y")
        self.assertEqual((c.answer["planting"], c.answer["planted_kinds"]), ("", ["arranged", "within"]))

    def test_kernels_that_square_in_one_pass_bear_it(self):
        for inputs in ("torch.rand(256, 512)", "torch.rand(256, 512) + 0.5"):
            c = Calibrated("torch.std(x, dim=1)", inputs)

            def one_pass(x):
                mean = x.sum(1) / 512
                return [((x.square().sum(1) / 512 - mean * mean).clamp(min=0) * (512 / 511)).sqrt()]

            for kind in ("drawn", "planted", "planted"):
                self.assertEqual(c.wrong(one_pass, kind), [0], (inputs, kind))

    def test_a_long_mean_beside_outliers(self):
        c = Calibrated("torch.tanh(x), y.mean()", "torch.randn(64, 256), torch.rand(1048579)", "x, y")
        found = []
        for number in range(4):
            sample = c.calibration.sample(planted=True, number=number)
            y = sample.values[1]
            found.append(refused(c.answer["kinds"]["planted"][1], y[:-3].sum() / y.numel(), sample.expected[1]))
        self.assertGreater(sum(found), 0)


if __name__ == "__main__":
    unittest.main()
