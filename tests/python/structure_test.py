"""Checks of what planting, live weights and the bank leave as a task needs it (sandbox/python/khost/values/structure.py,
planting.py, bank_inputs.py, ties.py, task/task_file.py), and of what planted state and signs show, with a Python that has
torch: `python tests/python/structure_test.py`."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch
import torch.nn.functional as F

from calibrated_task import Calibrated
from khost.task.task_file import live_state
from khost.values.planting import plant
from khost.values.structure import structure


class Kept(unittest.TestCase):
    """Honest answers to tasks whose inputs or weights keep something."""

    def honest(self, calibrated, answer, model=False):
        self.assertEqual((calibrated.answer["uninformative"], calibrated.answer["ambiguous"]), ("", ""))
        for kind in ("drawn", "planted"):
            if calibrated.answer["kinds"][kind]:
                self.assertEqual(calibrated.wrong(answer, kind, model), [0], kind)

    def test_orders_along_any_axis_and_between_inputs(self):
        knots = Calibrated("(x.unsqueeze(0) >= k.unsqueeze(1)).sum(0)",
                           "torch.randn(64, 512), torch.randn(64, 512).sort(dim=0).values.contiguous()", "x, k")
        self.honest(knots, lambda x, k: [torch.stack([torch.searchsorted(k[:, j].contiguous(), x[:, j].contiguous(),
                                                                         right=True) for j in range(512)], 1)])
        bounds = Calibrated("torch.clamp(x, low, high)", "torch.randn(64, 512), low, low + torch.rand(64, 512) + 0.25",
                            "x, low, high", before="low = torch.randn(64, 512) - 0.5")
        self.honest(bounds, lambda x, low, high: [torch.where(x < low, low, torch.where(x > high, high, x))])

    def test_integers_constants_and_levels(self):
        for kept in (torch.randint(0, 1000, (64, 64)), torch.randperm(4096), torch.rand(64, 64) < 0.5):
            before = kept.clone()
            plant([kept], 3)
            self.assertTrue(torch.equal(kept, before))
        levels = torch.randint(-127, 128, (256, 256)) / 128
        before = levels.clone()
        self.assertEqual(plant([levels], 3).kinds, ("arranged",))
        self.assertTrue(torch.equal(levels.unique(), before.unique()) and not torch.equal(levels, before))
        half = "f = torch.arange(64).unsqueeze(1) * torch.logspace(0, -4, 32)"
        c = Calibrated("x * torch.cat([f, f], 1).cos() + torch.roll(x, 32, -1) * s", "torch.randn(64, 64), f, torch.cat([f, f], 1).sin()",
                       "x, f, s", before=half)
        self.assertEqual(c.calibration.task.constant_inputs(), {1, 2})
        self.honest(c, lambda x, f, s: [x * f.cos().repeat(1, 2) + torch.roll(x, 32, -1) * s[:, :32].repeat(1, 2)])

    def test_weights_that_are_not_trained_and_never_change_are_not_planted(self):
        c = Calibrated("x @ self.dct", "torch.randn(64, 128)", init="self.dct = nn.Parameter(torch.cos(torch.arange(128)"
                       " * torch.arange(128).unsqueeze(1) * 0.0245), requires_grad=False)")
        models = [c.calibration.sample(planted=planted).model for planted in (False, True)]
        self.assertTrue(torch.equal(models[0].dct, models[1].dct))
        box = Calibrated("F.conv2d(x, self.box, padding=1)", "torch.randn(4, 1, 32, 32)",
                         init="self.box = nn.Parameter(torch.full((1, 1, 3, 3), 1 / 9), requires_grad=False)")
        self.honest(box, lambda x: [F.avg_pool2d(x, 3, 1, 1)])

    def test_unit_lines_along_any_axis(self):
        normals = torch.nn.functional.normalize(torch.randn(3, 4096), dim=0)
        self.assertEqual(structure(normals), "lines of length one")

    def test_places_that_repeat_or_are_in_order(self):
        angle = torch.randn(128, 32)
        turn, point = torch.eye(4).repeat(64, 1, 1), torch.cat([torch.randn(64, 3), torch.ones(64, 1)], -1)
        turn[:, :3] = torch.randn(64, 3, 4)
        centre, size = torch.randn(256, 2), torch.rand(256, 2) + 0.1
        for tensor, why in ((torch.cat([angle, angle], -1).cos(), "places that repeat"), (turn, "places that repeat"),
                            (angle.sin().repeat_interleave(2, -1), "places that repeat"), (point, "places that repeat"),
                            (torch.cat([centre - size, centre + size], -1), "places in order"),
                            (torch.randn(256, 4), ""), (torch.randn(2, 64), ""), (torch.randn(64, 2, 64), "")):
            self.assertEqual(structure(tensor), why, tuple(tensor.shape))

    def test_half_of_a_table_of_a_rotation_may_be_read(self):
        c = Calibrated("q * f.cos() + torch.cat([-q[..., 16:], q[..., :16]], -1) * f.sin()", "torch.randn(4, 128, 32), torch.cat([f, f], -1)",
                       "q, f", before="f = torch.randn(128, 16)")

        def answer(q, f):
            cosine, sine = f[:, :16].cos(), f[:, :16].sin()
            a, b = q[..., :16], q[..., 16:]
            return [torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)]

        self.honest(c, answer)

    def test_signs_that_are_alike_are_borne_too(self):
        c = Calibrated("(x + y).mul(1000).to(torch.int16)", "torch.randn(256, 256), torch.randn(256, 256)", "x, y")
        self.assertNotIn("outliers", c.answer["planted_kinds"])

    def test_skew_symmetric_matrices(self):
        skew = torch.randn(96, 96)
        self.assertEqual(structure(skew - skew.t()), "symmetric")

    def test_numbers_that_no_integer_holds_are_not_planted(self):
        c = Calibrated("torch.round(x * 16).to(torch.int8)", "torch.randn(256, 256)")
        self.honest(c, lambda x: [torch.round(x * 16).clamp(-128, 127).to(torch.int8)])
        self.assertNotIn("outliers", c.answer["planted_kinds"])

    def test_weights_stay_in_their_order_and_below_one(self):
        c = Calibrated("x * self.slopes[torch.bucketize(x, self.knots)]", "torch.randn(128, 512)",
                       init="self.knots = nn.Parameter(torch.linspace(-3, 3, 33)); "
                            "self.slopes = nn.Parameter(torch.randn(34))")
        model = c.calibration.sample().model
        self.assertTrue(bool((model.knots.diff() > 0).all()))
        self.honest(c, lambda m, x: [x * m.slopes[(x.unsqueeze(-1) > m.knots).sum(-1)]], model=True)
        c = Calibrated("x * torch.sqrt(1 - self.decay * self.decay)", "torch.randn(64, 256)",
                       init="self.decay = nn.Parameter(torch.full((256,), 0.9))")
        decay = c.calibration.sample().model.decay
        self.assertTrue(bool((decay < 1).all()) and float(decay.max() - decay.min()) > 0.3)
        self.honest(c, lambda m, x: [x * ((1 - m.decay) * (1 + m.decay)).sqrt()], model=True)

    def test_an_identity_is_still_spread_element_by_element(self):
        c = Calibrated("x @ self.w", "torch.randn(64, 64)", init="self.w = nn.Parameter(torch.eye(64))")
        diagonal = c.calibration.sample().model.w.diagonal()
        self.assertGreater(float(diagonal.max() / diagonal.min()), 1.3)

    def test_padding_that_is_masked_is_not_read(self):
        mask = "m = (torch.arange(256) < torch.randint(8, 100, (32, 1))).float().unsqueeze(-1)"
        c = Calibrated("(x * m).sum(1) / m.sum(1)", "torch.randn(32, 256, 16), m", "x, m", before=mask)
        self.honest(c, lambda x, m: [(x * m).double().sum(1) / m.sum(1)])
        self.assertGreater(c.wrong(lambda x, m: [(x * m)[:, :64].sum(1) / m.sum(1)])[0], 0)

    def test_tokens_sorted_by_expert(self):
        inputs = "torch.randn(1024, 64), torch.randint(0, 16, (1024,))"
        c = Calibrated("x[torch.argsort(e)]", inputs, "x, e")
        self.assertIn("which sort leaves open", c.answer["ambiguous"])
        c = Calibrated("x[torch.argsort(e, stable=True)]", inputs, "x, e")
        self.honest(c, lambda x, e: [x[torch.sort(e, stable=True).indices]])

    def test_a_cast_to_eight_bits_is_what_the_task_computes(self):
        c = Calibrated("(x / s).to(torch.float8_e4m3fn).float() * s", "torch.randn(256, 256), torch.rand(256, 1) + 0.5",
                       "x, s")
        self.honest(c, lambda x, s: [(x * (1 / s)).to(torch.float8_e4m3fn).float() * s])
        self.assertGreater(c.wrong(lambda x, s: [x])[0], 10000)
        self.assertGreater(c.wrong(lambda x, s: [(x / s).to(torch.float8_e5m2).float() * s])[0], 10000)


class Shown(unittest.TestCase):
    """What leaves an end of an axis out is seen in planted sets of either sign."""

    def seen(self, calibrated, answer, model=False, tries=8):
        self.assertEqual(calibrated.answer["uninformative"], "")
        return sum(calibrated.wrong(answer, "planted", model)[0] > 0 for _ in range(tries))

    def test_the_end_of_an_axis_of_weights(self):
        c = Calibrated("F.linear(x, self.w).amax(-1)", "torch.randn(8, 64)",
                       init="self.w = nn.Parameter(torch.randn(8193, 64) / 8)")
        self.assertIn("state", c.answer["planted_kinds"])
        self.assertGreater(self.seen(c, lambda m, x: [torch.nn.functional.linear(x, m.w[:-1]).amax(-1)], True), 4)
        self.assertEqual(c.wrong(lambda m, x: [(x.double() @ m.w.double().t()).amax(-1)], "planted", True), [0])

    def test_products_and_sums_of_two_inputs(self):
        for forward, cut in (("(x * y).max()", lambda x, y: [(x * y)[:-3].max()]),
                             ("(x + y).abs().max()", lambda x, y: [(x + y)[:-3].abs().max()]),
                             ("(x - y).abs().max()", lambda x, y: [(x - y)[:-3].abs().max()])):
            c = Calibrated(forward, "torch.randn(65539), torch.randn(65539)", "x, y")
            found = 0
            for seed in range(4):  # the four patterns that a verdict's sets have in turn
                values = [torch.randn(65539), torch.randn(65539)]
                plant(values, seed)
                whole, part = cut(torch.cat([values[0], torch.zeros(3)]), torch.cat([values[1], torch.zeros(3)])), cut(*values)
                found += bool(whole[0] != part[0])
            self.assertGreaterEqual(found, 1, forward)
            self.assertEqual(c.answer["uninformative"], "")

    def test_a_domain_of_both_signs_is_arranged_within(self):
        c = Calibrated("torch.atanh(x).amax(dim=1)", "torch.rand(64, 4099) * 1.98 - 0.99")
        self.assertIn("within", c.answer["planted_kinds"])
        self.assertGreater(self.seen(c, lambda x: [torch.atanh(x[:, :-1]).amax(1)]), 4)
        self.assertEqual(c.wrong(lambda x: [0.5 * torch.log((1 + x.double()) / (1 - x.double())).amax(1)], "planted"), [0])

    def test_the_first_elements_of_a_long_mean(self):
        found = 0
        for seed in range(8):
            tensor = torch.randn(512, 1024)
            plant([tensor], seed)
            found += float(tensor[0, :4].abs().max()) > 8
        self.assertGreaterEqual(found, 7)

    def test_the_same_state_is_planted_for_any_inputs(self):
        c = Calibrated("x @ self.w", "torch.randn(64, 256)", init="self.w = nn.Parameter(torch.randn(256, 256))")
        task = c.calibration.task
        first, second = task.model(5, live=True), task.model(5, live=True)
        plant(task.inputs(6), 7, model=first)
        plant(task.inputs(60)[:0], 7, model=second)
        for (_, one), (_, other) in zip(live_state(first), live_state(second)):
            self.assertTrue(torch.equal(one, other))
        self.assertFalse(torch.equal(first.w, task.model(5, live=True).w))


if __name__ == "__main__":
    unittest.main()
