"""Checks of the calibrated tolerance and of the bank of answers (sandbox/python/khost), with a Python that has
torch: `python tests/python/tolerance_test.py`. Each case is one that a bound over the whole output, or outliers in every
set, decides wrongly."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch

from calibrated_task import Calibrated, refused, task
from khost.task.manifest import leaves
from khost.values.oracle import Scattered, run, run_in_double
from khost.task.reference import Session
from khost.values.sums import Sums
from khost.task.task_file import TaskFault
from khost.values.tolerance import FloatMeasure

X = "torch.randn(128, 512)"


class Elements(unittest.TestCase):
    """A wrong answer that is right where the output is largest."""

    def refused(self, calibrated, answer, least=1):
        self.assertEqual(calibrated.answer["uninformative"], "")
        for count in calibrated.wrong(answer):
            self.assertGreaterEqual(count, least)

    def test_exp_of_outliers_only(self):
        c = Calibrated("torch.exp(x)", X)
        self.refused(c, lambda x: [torch.where(x > 6, x.exp(), 0.0)], 60000)
        self.assertEqual(c.wrong(lambda x: [torch.exp2(x * 1.4426950408889634)]), [0])
        self.assertEqual(c.wrong(lambda x: [torch.exp2(x * 1.4426950408889634)], "planted"), [0])

    def test_sixth_power_without_its_sine(self):
        self.refused(Calibrated("x * x * x * x * x * x + torch.sin(x)", X), lambda x: [x ** 6], 60000)

    def test_sum_of_eighth_powers_of_large_elements(self):
        c = Calibrated("x.pow(8).sum(1)", "torch.randn(2048, 512)")
        self.refused(c, lambda x: [torch.where(x > 6, x, 0.0).pow(8).sum(1)], 2000)
        self.refused(c, lambda x: [torch.where(x.abs() > 1, x, 0.0).pow(8).sum(1)], 1000)
        self.assertEqual(c.wrong(lambda x: [x.pow(8).flip(1).double().sum(1)]), [0])

    def test_small_quotients_are_zero(self):
        c = Calibrated("a / b", "torch.randn(128, 512), torch.randn(128, 512)", "a, b")
        self.refused(c, lambda a, b: [torch.where((a / b).abs() < 0.25, 0.0, a / b)], 8000)
        self.refused(c, lambda a, b: [(a.bfloat16() / b.bfloat16()).float()], 30000)
        self.assertEqual(c.wrong(lambda a, b: [a * (1 / b)]), [0])

    def test_softmax_of_the_largest_and_zeros(self):
        c = Calibrated("torch.softmax(x, dim=-1)", "torch.randn(8, 16384)")
        self.refused(c, lambda x: [torch.softmax(torch.where(x > 2, x, float("-inf")), -1)], 100000)
        self.refused(c, lambda x: [torch.zeros_like(x)], 130000)
        one_hot = c.wrong(lambda x: [torch.softmax(torch.where(x > 6, x, float("-inf")), -1).nan_to_num(0)], "planted")
        self.assertGreater(one_hot[0], 30000)  # some of the eight rows may have no outlier above zero
        self.assertEqual(c.wrong(lambda x: [torch.softmax(x.double(), -1)], "planted"), [0])

    def test_outputs_of_a_dict_keep_their_own_bounds(self):
        c = Calibrated('{"scaled": x * 10000, "mean": x.mean(1)}', "torch.randn(2048, 256)")
        wrong = c.wrong(lambda x: [x * 10000, torch.zeros(2048)])
        self.assertEqual(wrong[0], 0)
        self.assertGreater(wrong[1], 1900)

    def test_one_ulp_of_bfloat16_is_right_where_the_model_casts_by_itself(self):
        weight = "self.weight = nn.Parameter((torch.randn(192, 256) / 16).to(torch.bfloat16))"
        c = Calibrated("F.linear(x.to(torch.bfloat16), self.weight)", "torch.randn(256, 256)", init=weight)
        self.assertEqual(c.answer["oracle_error"], "")
        entry = c.answer["kinds"]["drawn"][0]
        self.assertEqual((entry["precision"], entry["ulps"]), ("reduced", 1.0))
        sample = c.calibration.sample()
        exact = sample.values[0].bfloat16().double() @ sample.model.weight.double().t()
        self.assertEqual(refused(entry, exact.bfloat16(), sample.expected[0]), 0)
        self.assertGreater(refused(entry, 1.1 * exact, sample.expected[0]), 10000)

    def test_exact_zeros_do_not_hide_that_a_reference_is_reduced(self):
        square = "torch.randn(256, 256).bfloat16()"
        c = Calibrated("torch.relu(x @ w)", f"{square}, {square}", "x, w")
        self.assertEqual(c.answer["kinds"]["drawn"][0]["k"], 4)

    def test_a_function_that_jumps_has_a_share_and_no_wide_bound(self):
        c = Calibrated("torch.round(torch.softmax(x, -1) * 1000) / 1000", "torch.randn(512, 256)")
        entry = c.answer["kinds"]["drawn"][0]
        self.assertLess(entry["share"], 0.01)
        self.refused(c, lambda x: [torch.zeros_like(x)], 100000)
        self.assertEqual(c.wrong(lambda x: [torch.round(torch.softmax(x.double(), -1) * 1000) / 1000]), [0])


class LongSums(unittest.TestCase):
    """One float32 accumulator is honest; a half type is not."""

    def accepted(self, forward, inputs):
        c = Calibrated(forward, inputs)
        self.assertEqual(c.answer["uninformative"], "")
        entry, sample = c.answer["kinds"]["drawn"][0], c.calibration.sample()
        mode = Sums()
        got = run(sample.model, sample.values, mode)[0]
        self.assertTrue(mode.used)
        self.assertEqual(refused(entry, got, sample.expected[0]), 0)
        for dtype in (torch.bfloat16, torch.float16):
            self.assertGreater(refused(entry, sample.expected[0].to(dtype), sample.expected[0]), 1000)

    def test_cumsum_of_one_sign(self):
        self.accepted("torch.cumsum(x, dim=1)", "torch.rand(8, 16384)")

    def test_norms_of_one_sign(self):
        self.accepted("F.layer_norm(x, x.shape[-1:])", "torch.rand(4, 65536)")
        self.accepted("F.instance_norm(x)", "torch.rand(1, 4, 256, 256)")
        self.accepted("F.batch_norm(x, None, None, training=True)", "torch.rand(4, 4, 128, 128)")

    def test_an_element_across_a_jump_says_nothing_of_long_sums(self):
        c = Calibrated("torch.round(x.cumsum(1).sin() * 8)", "torch.rand(64, 2048)")
        self.assertLess(max(c.answer["kinds"]["drawn"][0]["bounds"][:131]), 0.01)


class FewElements(unittest.TestCase):
    def test_a_bound_between_two_measured_elements_grows_with_the_size(self):
        measure = FloatMeasure(torch.ones(100))
        values = torch.cat([torch.full((199,), 1.0), torch.tensor([2.0 ** 40])])
        measure.add(values, values.double() * (1 + 2 ** -24), [])
        bounds = measure.table()
        self.assertEqual(float(bounds[127 + 20]), float(bounds[127]) * 2 ** 20)
        self.assertEqual(float(bounds[127 + 41]), float(bounds[127 + 40]) * 2)

    def test_a_sum_that_cancels_to_almost_nothing_keeps_its_absolute_bound(self):
        c = Calibrated("torch.sum(x, dim=-1)", "torch.randn(256, 64)")
        bounds = c.answer["kinds"]["drawn"][0]["bounds"]
        self.assertGreater(bounds[127 - 30], bounds[127 + 2] / 64)

    def test_bounds_of_values_of_all_sizes_rise_with_them(self):
        c = Calibrated("torch.exp(x.sum(1))", "torch.randn(256, 64)")
        bounds = c.answer["kinds"]["drawn"][0]["bounds"]
        self.assertLess(bounds[127 - 6], bounds[127 + 20] / 1000)

    def test_a_larger_element_than_was_measured_keeps_its_relative_bound(self):
        c = Calibrated("torch.exp(x @ self.w)", "torch.randn(64, 128)", init="self.w = nn.Parameter(torch.randn(128))")
        self.assertEqual(c.answer["uninformative"], "")
        for _ in range(20):
            sample = c.calibration.sample()
            exact = run_in_double(sample.model, sample.values)[0]
            self.assertEqual(refused(c.answer["kinds"]["drawn"][0], exact, sample.expected[0]), 0)

    def test_cancelled_differences_are_pooled_with_zeros(self):
        c = Calibrated("((x * x).sum(1)[:, None] + (x * x).sum(1)[None] - 2 * x @ x.t()).clamp(min=0).sqrt()",
                       "torch.randn(48, 32)")
        self.assertEqual(c.answer["uninformative"], "")
        for _ in range(10):
            sample = c.calibration.sample()
            got = run(sample.model, sample.values, Sums())[0]
            self.assertEqual(refused(c.answer["kinds"]["drawn"][0], got, sample.expected[0]), 0)
            self.assertGreater(refused(c.answer["kinds"]["drawn"][0], got.half(), sample.expected[0]), 1000)


class HalfTypes(unittest.TestCase):
    FOURIER = "torch.cat([torch.sin(6.2831853 * x @ self.b), torch.cos(6.2831853 * x @ self.b)], -1)"

    def test_a_result_in_bfloat16_lowers_the_bound(self):
        c = Calibrated(self.FOURIER, "torch.rand(2048, 3)", init="self.b = nn.Parameter(torch.randn(3, 64) * 100)")
        self.assertEqual(c.answer["uninformative"], "")
        self.assertEqual(c.answer["bank"]["rounded_to_bfloat16"], "drawn")
        sample = c.calibration.sample()
        entry = c.answer["kinds"]["drawn"][0]
        self.assertGreater(refused(entry, sample.expected[0].bfloat16(), sample.expected[0]), 100)
        self.assertEqual(refused(entry, run_in_double(sample.model, sample.values)[0], sample.expected[0]), 0)

    def test_numbers_that_a_half_type_holds_are_no_fault(self):
        c = Calibrated("torch.sign(x) * 0.5", "torch.randn(64, 512)")
        self.assertEqual(c.answer["uninformative"], "")
        self.assertIn("rounded_to_bfloat16", c.answer["unobservable"])


class Ties(unittest.TestCase):
    """Elements that one rounding takes apart or across a jump."""

    def test_equal_values_are_moved_alike(self):
        values = torch.randn(64, 64).bfloat16()
        moved = Scattered(2.0 ** -24, 5)(values.double(), values)
        self.assertEqual(moved.unique().numel(), values.unique().numel())
        self.assertGreater(int((moved > values.double()).sum()), 1500)
        self.assertGreater(int((moved < values.double()).sum()), 1500)
        other = Scattered(2.0 ** -24, 6)(values.double(), values)
        self.assertGreater(int((moved != other).sum()), 1500)

    def test_levels_of_an_image_are_not_moved(self):
        c = Calibrated("(x >= 128 / 255).float()", "torch.randint(0, 256, (16, 64, 64)) / 255.0")
        self.assertEqual(c.answer["kinds"]["drawn"][0]["share"], 0)
        self.assertEqual(c.wrong(lambda x: [(x * 255 > 127.5).float()]), [0])
        self.assertGreater(c.wrong(lambda x: [(x > 128 / 255).float()])[0], 100)

    def test_the_last_of_equal_maxima_is_not_the_first(self):
        c = Calibrated("x.argmax(1)", "torch.randn(512, 4096).bfloat16()")
        self.assertEqual((c.answer["ambiguous"], c.answer["kinds"]["drawn"][0]["share"]), ("", 0))
        self.assertGreater(c.wrong(lambda x: [4095 - x.flip(1).argmax(1)])[0], 0)

    def test_a_sort_does_without_a_hundredth_of_its_places(self):
        c = Calibrated("torch.argsort(x, dim=-1)", "torch.randn(8, 65536)")
        self.assertEqual(c.answer["ambiguous"], "")
        self.assertLess(c.answer["kinds"]["drawn"][0]["share"], 0.01)
        self.assertEqual(c.wrong(lambda x: [torch.argsort(x.double(), dim=-1, stable=True)]), [0])


    def test_small_numbers_of_float64(self):
        c = Calibrated("torch.exp(-20 * x * x)", "torch.randn(256, 512, dtype=torch.float64)")
        self.assertLess(min(b for b in c.answer["kinds"]["drawn"][0]["bounds"] if b > 0), 1e-46)
        self.assertEqual(c.wrong(lambda x: [torch.exp2(x * x * -28.853900817779268)]), [0])
        self.assertGreater(c.wrong(lambda x: [torch.exp(-20 * x * x).float()])[0], 100000)
        # Beyond what float32 has exponents for, each octave still has a bound of its own.
        self.assertGreater(c.wrong(lambda x: [torch.exp(-20 * x * x) * (1 + 1e-9 * (x.abs() > 2.5).double())])[0], 500)
        self.assertGreater(c.wrong(lambda x: [torch.where(x.abs() > 2.5, 0.0, torch.exp(-20 * x * x))])[0], 500)


class Infinities(unittest.TestCase):
    def test_rows_of_minus_infinity_equal_themselves(self):
        c = Calibrated('torch.logsumexp(x.masked_fill(~m, float("-inf")), dim=-1)', "torch.randn(2048, 64), m", "x, m",
                       before="m = torch.rand(2048, 64) < 0.5; m[::64] = False")
        self.assertEqual(c.answer["uninformative"], "")
        self.assertEqual(c.wrong(lambda x, m: [torch.logsumexp(x.double().masked_fill(~m, -torch.inf), -1)]), [0])
        large = c.wrong(lambda x, m: [torch.logsumexp(x.masked_fill(~m, -torch.inf), -1).nan_to_num(neginf=-1e30)])
        self.assertEqual(large, [32])

    def test_nan_in_a_reference_is_named(self):
        with self.assertRaisesRegex(ValueError, "forward returns NaN in 2048 of 32768 elements of output 0"):
            Calibrated('torch.softmax(x.masked_fill(m, float("-inf")), -1)', "torch.randn(512, 64), m", "x, m",
                       before="m = torch.zeros(512, 64, dtype=torch.bool); m[::16] = True")

    def test_a_set_with_nan_is_refused_when_it_is_made(self):
        with self.assertRaisesRegex(ValueError, "forward returns NaN"):
            Session({"source": task("torch.log(x)", "torch.randn(64, 64)"), "seed": 1})
        session = Session({"source": task("torch.log(x + 3.2)", "torch.randn(64, 64).clamp(-3, 3)"), "seed": 1})
        region = torch.zeros(session.describe()["set_bytes"], dtype=torch.uint8)
        session.task.module.get_inputs = lambda: [torch.full((64, 64), -4.0)]
        with self.assertRaisesRegex(ValueError, "forward returns NaN"):
            session.sets([5], [region], [False])


class Tasks(unittest.TestCase):
    def test_a_product_that_dies_out_is_seen_where_it_does_not(self):
        c = Calibrated("torch.cumprod(x, dim=1)", "torch.rand(32, 2048)")
        self.assertEqual(c.answer["uninformative"], "")
        # A product of 192 draws is zero in float32 in every row; one of 96 is not in some.
        cut = torch.arange(2048) < 192
        self.assertEqual(c.wrong(lambda x: [torch.where(cut, torch.cumprod(x, 1), 0.0)]), [0])
        self.assertGreater(c.wrong(lambda x: [torch.where(cut, torch.cumprod(x, 1), 0.0)], "planted")[0], 0)
        c = Calibrated("torch.cumprod(x, dim=1)", "torch.softmax(torch.randn(32, 2048), 1)")
        self.assertIn("tail_cut(axis 1", c.answer["uninformative"])

    def test_inputs_that_are_always_the_same_earn_no_speed_beside_live_weights(self):
        for inputs, constant in (("torch.linspace(-4, 4, 65536)", True), ("torch.linspace(-4, 4, 65536), torch.randn(65536)", False),
                                 ("torch.randn(65536, generator=torch.Generator().manual_seed(0))", True)):
            answer = Calibrated("self.g * torch.erf(t) * torch.exp(-t * t)", inputs, "t, y=None",
                                init="self.g = nn.Parameter(torch.randn(1))").answer
            self.assertEqual((answer["constant"], answer["equal_sets"]), (constant, False), inputs)

    def test_an_operator_is_unobservable_or_refused(self):
        c = Calibrated("torch.relu(torch.tanh(x).abs())", X)
        self.assertTrue(any("relu#0 left out" in name for name in c.answer["unobservable"]))
        self.assertTrue(any("tanh#0 left out" in name for name in c.answer["bank"]))
        self.assertEqual(c.answer["uninformative"], "")

    def test_the_task_that_seeds_itself_and_the_one_that_draws_nothing(self):
        seeded = Calibrated("torch.tanh(x) * x", X, before="torch.manual_seed(1234)").answer
        self.assertEqual((seeded["equal_sets"], seeded["constant"]), (True, False))
        fixed = Calibrated("torch.tanh(x) * x", "torch.linspace(-2, 2, 65536).reshape(128, 512)").answer
        self.assertEqual((fixed["equal_sets"], fixed["constant"]), (False, True))
        drawn = Calibrated("torch.tanh(x) * x", X).answer
        self.assertEqual((drawn["equal_sets"], drawn["constant"]), (False, False))

    def test_inputs_of_few_values_come_again_by_chance(self):
        for inputs, few in (("torch.randint(1, 5, (1,)).float()", True), ("torch.randn(1)", False),
                            ("torch.randint(1, 5, (2,)), torch.randn(64, 256)", False),
                            ("torch.arange(8192) + torch.randint(0, 8, (1,))", True)):
            answer = Calibrated("torch.sin(torch.arange(65536.) * x[0])", inputs, "x, y=None").answer
            self.assertEqual((answer["constant"], answer["equal_sets"]), (few, False), inputs)

    def test_what_a_forward_draws_from_a_seed_is_drawn_in_double_too(self):
        for draw in ("torch.rand_like(x)", "torch.rand(128, 512)", "torch.empty(128, 512).uniform_()", "F.dropout(torch.ones_like(x))"):
            c = Calibrated(f"(torch.manual_seed(3), x + {draw})[1]", X)
            self.assertEqual(c.answer["kinds"]["drawn"][0]["precision"], "full", draw)

    def test_integers_are_exact_and_ties_of_a_rounded_product_are_shared(self):
        c = Calibrated("((a @ b) > 0)", "torch.randn(256, 256), torch.randn(256, 256)", "a, b")
        entry = c.answer["kinds"]["drawn"][0]
        self.assertEqual((entry["rule"], c.answer["ambiguous"]), ("exact", ""))
        self.assertLess(entry["share"], 0.01)
        self.assertEqual(c.wrong(lambda a, b: [(a.double() @ b.double()) > 0]), [0])

    def test_what_a_model_does_not_read_is_not_left_out(self):
        self.assertEqual(Calibrated("x[:, -1] @ w", "torch.randn(64, 32, 128), torch.randn(128, 128)",
                                    "x, w").answer["uninformative"], "")

    def test_one_tensor_given_twice_is_affine_in_both(self):
        c = Calibrated("x + y", "*2 * [torch.randn(128, 512)]", "x, y")
        self.assertEqual(c.answer["uninformative"], "")

    def test_outputs_of_other_sizes_and_of_eight_bits_are_named(self):
        for forward, says in (("x[x > 0]", "another form in another draw"), ("x.to(torch.float8_e4m3fn)", "float8_e4m3fn")):
            with self.assertRaises(TaskFault) as caught:
                Calibrated(forward, X)
            self.assertIn(says, str(caught.exception))

    def test_integers_that_rounding_decides_are_ambiguous(self):
        c = Calibrated("(x.sum(1) * 1e9).long() % 7", "torch.randn(2048, 512)")
        self.assertIn("no answer can be called wrong", c.answer["ambiguous"])

    def test_without_an_oracle_the_reference_s_own_precision_serves(self):
        c = Calibrated("torch.exp(x) if x.element_size() == 4 else missing", X)
        self.assertIn("NameError", c.answer["oracle_error"])
        self.assertEqual(c.wrong(lambda x: [torch.exp(x.double())]), [0])
        self.assertGreater(c.wrong(lambda x: [torch.exp(x) * 1.0001])[0], 10000)

    def test_a_first_call_does_not_see_what_a_second_one_changed(self):
        session = Session({"source": task("x.mul_(2).add_(1)", X), "seed": 1})
        self.assertEqual(session.calibrate()["uninformative"], "")

    def test_sets_are_of_the_kind_that_is_asked_for(self):
        session = Session({"source": task("torch.tanh(x)", X), "seed": 1})
        size = session.describe()["set_bytes"]
        regions = [torch.zeros(size, dtype=torch.uint8) for _ in range(2)]
        session.sets([7, 7], regions, [False, True])
        one, other = (r[:4 * 128 * 512].view(torch.float32) for r in regions)
        self.assertEqual(int((one != other).sum()), 6)
        self.assertTrue(torch.equal(regions[1][4 * 128 * 512:].view(torch.float32)[:128 * 512], other.tanh()))
        self.assertEqual(len(leaves(session.task.inputs(3))), 1)


if __name__ == "__main__":
    unittest.main()
