"""Checks of jumps that take whole rows along, of outputs that copy, and of places that are undecided in every set, with a
Python that has torch: `python tests/python/jumps_test.py`."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch

from calibrated_task import Calibrated
from khost.values.ties import OtherTies
from khost.values.jumps import MOST, Groups, groups_in, most_by_chance


def rows(count, *shape):
    moved = torch.zeros(shape, dtype=torch.bool)
    moved.reshape(-1, shape[-1])[torch.randperm(moved.numel() // shape[-1])[:count]] = True
    return moved


class Sizes(unittest.TestCase):
    def test_rows_planes_and_single_elements(self):
        single = torch.zeros(64, 64, dtype=torch.bool)
        single.view(-1)[torch.randperm(4096)[:20]] = True
        self.assertEqual(groups_in(single)[0], 0)
        self.assertEqual(groups_in(rows(3, 64, 32)), (3, 96))
        self.assertEqual(groups_in(rows(3, 64, 32) & (torch.arange(32) % 8 != 3))[0], 3)
        planes = torch.zeros(16, 8, 8, dtype=torch.bool)
        planes[[3, 9]] = True
        self.assertEqual(groups_in(planes), (2, 128))
        columns = torch.zeros(64, 32, dtype=torch.bool)
        columns[:, 5] = True
        self.assertEqual(groups_in(columns), (1, 64))

    def test_single_elements_beside_rows_are_no_rows(self):
        groups, moved = Groups(), rows(2, 64, 32)
        moved[(~moved.any(1)).nonzero()[0, 0], 7] = True
        groups.add(moved, 1)
        self.assertEqual((groups.met, groups.singles, groups.size), (2, 1, 32))

    def test_most_by_chance_is_a_quantile_of_poisson(self):
        self.assertEqual([most_by_chance(x) for x in (0.0, 1e-7, 1e-3, 1.0)], [0, 0, 1, 8])
        self.assertTrue(1025 < most_by_chance(1025.0) < 1300)

    def test_what_moves_most_of_an_output_grants_nothing(self):
        groups = Groups()
        groups.add(torch.ones(8, 8, dtype=torch.bool), 1)
        self.assertTrue(groups.known())
        self.assertEqual((groups.are(), groups.share(64)), (False, 0.0))

    def test_a_group_that_is_no_small_part_is_not_granted(self):
        groups = Groups()
        groups.add(rows(1, 8, 32), 1)
        groups.add(rows(1, 8, 32), 1)
        self.assertTrue(groups.are())
        self.assertLessEqual(groups.share(8 * 32), MOST)


class Rows(unittest.TestCase):
    QUANTISED = "(torch.round(x / (x.abs().amax(-1, keepdim=True) / 127)) @ self.w.t()) * (x.abs().amax(-1, keepdim=True) / 127)"
    INIT = "self.w = nn.Parameter(torch.randint(-127, 128, (128, 256)).float(), requires_grad=False)"

    def test_one_code_of_a_quantised_row_may_be_another(self):
        # One calibration of twenty meets so many jumps that it takes them for errors, and grants none.
        for _ in range(4):
            c = Calibrated(self.QUANTISED, "torch.randn(64, 256)", init=self.INIT)
            entry = c.answer["kinds"]["drawn"][0]
            if entry["share"] > 1 / 64:
                break
        self.assertTrue(0 < entry["jumps"] < 4, entry["jumps"])
        self.assertGreater(entry["share"], 1 / 64)  # of the elements of one row
        self.assertIsNotNone(entry["cap"])

        def one_code_off(model, x):
            scale = x.abs().amax(-1, keepdim=True) / 127
            codes = torch.round(x / scale)
            codes[17, 101] += 1
            return [(codes @ model.w.t()) * scale]

        def a_code_of_each_row_off(model, x):
            scale = x.abs().amax(-1, keepdim=True) / 127
            codes = torch.round(x / scale)
            codes[:, 101] += 1
            return [(codes @ model.w.t()) * scale]

        self.assertEqual(c.wrong(one_code_off, model=True), [0])
        self.assertGreater(c.wrong(a_code_of_each_row_off, model=True)[0], 0)


class Copies(unittest.TestCase):
    def test_what_was_sorted_has_the_same_numbers(self):
        c = Calibrated("torch.sort(x, dim=-1).values", "torch.rand(64, 2048)")
        for kind in ("drawn", "planted"):
            self.assertEqual(c.wrong(lambda x: [torch.sort(x, -1).values], kind), [0])

            def by_upper_bits(x):
                order = torch.sort(x.view(torch.int32) >> 5, dim=-1, stable=True).indices
                return [x.gather(-1, order)]

            self.assertGreater(c.wrong(by_upper_bits, kind)[0], 0)

    def test_a_maximum_is_copied_and_what_is_computed_is_not(self):
        self.assertEqual(Calibrated("x.amax(-1)", "torch.randn(512, 64)").answer["kinds"]["drawn"][0]["ulps"], 0)
        self.assertGreater(Calibrated("x * 0.5", "torch.randn(512, 64)").answer["kinds"]["drawn"][0]["ulps"], 0)

    def test_what_meets_numbers_of_the_inputs_by_chance_is_no_copy(self):
        levels = Calibrated("torch.floor(x * 255 / 2) * 2 / 255", "torch.randint(0, 256, (512, 512)) / 255.0")
        grey = Calibrated("x[:, 0] * 0.3 + x[:, 1] * 0.6 + x[:, 2] * 0.1", "torch.rand(8, 3, 128, 128).bfloat16()")
        for c in (levels, grey):
            self.assertGreater(c.answer["kinds"]["drawn"][0]["ulps"], 0)

    def test_few_numbers_are_copied_too(self):
        self.assertEqual(Calibrated("x.median(-1).values", "torch.rand(32, 4097)").answer["kinds"]["drawn"][0]["ulps"], 0)

    def test_the_new_entry_of_a_cache_has_bounds_of_its_own(self):
        """One of 2,048 rows is computed, at a place that a look at regular distances misses."""
        c = Calibrated("torch.cat([past, self.project(x)[:, None]], dim=1)", "torch.randn(4, 256), torch.randn(4, 2047, 64)",
                       "x, past", init="self.project = nn.Linear(256, 64, bias=False)")

        def answer(change):
            return lambda model, x, past: [torch.cat([past, change(model.project.weight, x)[:, None]], 1)]

        def one_after_the_other(weight, x):
            total = torch.zeros(4, 64)
            for k in range(256):
                total += x[:, k:k + 1] * weight[:, k]
            return total

        for kind in ("drawn", "planted"):
            self.assertEqual(c.wrong(answer(one_after_the_other), kind, True), [0])
            self.assertGreater(c.wrong(answer(lambda w, x: 0 * (x @ w.t())), kind, True)[0], 200)
        self.assertGreater(c.wrong(answer(lambda w, x: (x.half() @ w.half().t()).float()), model=True)[0], 100)

    def test_a_column_behind_what_is_copied_is_computed(self):
        c = Calibrated("torch.cat([x, x.std(dim=-1, keepdim=True)], dim=-1)", "torch.randn(2048, 127)")

        def answer(deviation):
            return lambda x: [torch.cat([x, deviation(x)], -1)]

        self.assertEqual(c.wrong(answer(lambda x: x.double().var(-1, keepdim=True).sqrt().float())), [0])
        self.assertGreater(c.wrong(answer(lambda x: x.std(-1, unbiased=False, keepdim=True)))[0], 1500)

    def test_places_of_a_resize_are_undecided_in_every_set(self):
        c = Calibrated("F.interpolate(x, size=(63, 63), mode='nearest')", "torch.randn(2, 4, 270, 270)")
        drawn, planted = (c.answer["kinds"][kind][0] for kind in ("drawn", "planted"))
        exact = torch.arange(63) * 270 // 63
        off = c.wrong(lambda x: [x[:, :, exact][:, :, :, exact]])
        self.assertEqual(off, [0])
        self.assertEqual((drawn["always"] > 0, planted["always"] > 0), (drawn["share"] > 0, planted["share"] > 0))


class Extremes(unittest.TestCase):
    def test_softmax_without_a_maximum_is_refused(self):
        c = Calibrated("torch.softmax(x, -1)", "torch.randn(256, 500)")
        self.assertIn("extremes", c.answer["planted_kinds"])

        def bare(x):
            e = x.exp()
            return [e / e.sum(-1, keepdim=True)]

        self.assertEqual(c.wrong(bare), [0])
        self.assertGreater(c.wrong(bare, "planted")[0], 0)

        def online(x):
            top = x.amax(-1, keepdim=True)
            e = torch.exp2((x - top) * 1.44269504)
            return [e / e.sum(-1, keepdim=True)]

        for kind in ("drawn", "planted"):
            self.assertEqual(c.wrong(online, kind), [0])

    def test_a_norm_without_its_guard_is_refused(self):
        c = Calibrated("F.normalize(x, dim=-1)", "torch.randn(256, 500)")
        self.assertGreater(c.wrong(lambda x: [x / x.norm(dim=-1, keepdim=True)], "planted")[0], 0)
        self.assertEqual(c.wrong(lambda x: [x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12)], "planted"), [0])

    def test_what_bears_no_extremes_has_the_other_kinds(self):
        c = Calibrated("x / x.norm(dim=-1, keepdim=True) + torch.exp(x)", "torch.randn(256, 500)")
        self.assertEqual((c.answer["planting"], "extremes" in c.answer["planted_kinds"], "outliers" in
                          c.answer["planted_kinds"]), ("", False, True))


class PlainKernels(unittest.TestCase):
    def test_forms_of_operators_in_place_and_of_gates(self):
        elu = Calibrated("F.elu(x * 1.5, inplace=True)", "torch.randn(256, 512)")
        self.assertEqual(elu.wrong(lambda x: [torch.where(x > 0, x * 1.5, torch.exp(x * 1.5) - 1)]), [0])
        glu = Calibrated("F.glu(x, -1)", "4 * torch.randn(256, 1024)")
        self.assertEqual(glu.wrong(lambda x: [x[:, :512] * (0.5 * torch.tanh(0.5 * x[:, 512:]) + 0.5)]), [0])

    def test_an_epsilon_that_a_plain_kernel_hides_does_not_lower_k(self):
        c = Calibrated("x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)", "torch.randn(8, 65536)")

        def one_accumulator(x):
            total = torch.from_numpy(x.square().numpy().cumsum(-1)[:, -1:].copy())
            return [x * torch.rsqrt(total / 65536 + 1e-5)]

        self.assertEqual(c.wrong(one_accumulator), [0])

    def test_a_running_maximum_has_its_first_place_in_the_other_order(self):
        x = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0, 4.0], [2.0, 2.0, 1.0, 0.0, 2.0, 2.0]])
        mode = OtherTies()
        with mode:
            first = [torch.cummax(x, 1), torch.cummin(-x, 1), torch.cummax(x.t().contiguous(), 0)]
        self.assertEqual(mode.used, {"cummax", "cummin"})
        wanted = torch.tensor([[0, 1, 1, 1, 1, 5], [0, 0, 0, 0, 0, 0]])
        for got, places in zip(first, (wanted, wanted, wanted.t())):
            self.assertTrue(torch.equal(got.indices if hasattr(got, "indices") else got[1], places))

    def test_a_cast_is_a_task(self):
        self.assertEqual(Calibrated("x.to(torch.bfloat16)", "torch.randn(256, 512)").answer["uninformative"], "")


if __name__ == "__main__":
    unittest.main()
