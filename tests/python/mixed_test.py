"""Checks of the rule set `mixed` without a GPU, with a Python that has torch: what is put in the place of a candidate's own
functions (sandbox/python/khost/candidate/candidate_mixed.py) and launches (mixed_audit.py). `python tests/python/mixed_test.py`."""

import os
import sys
import types
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path[:0] = [os.path.join(ROOT, "sandbox/python")]
import torch  # noqa: E402

from khost.candidate.candidate_mixed import Rules  # noqa: E402
from khost.candidate.candidate_policy import Refused  # noqa: E402
from khost.candidate.mixed_audit import Written, elements  # noqa: E402


def extension(**functions):
    module = types.ModuleType("own")
    module.__dict__.update(functions)
    return module


def raw(change):
    """What a kernel does: no operator of torch is dispatched."""
    def run(*args):
        with torch.utils._python_dispatch._disable_current_modes():
            return change(*args)
    run.__name__ = "run"
    return run


class Forward:
    """A candidate's forward under the rules, audited or not."""

    def __init__(self, forward, most=2, audits=False, **functions):
        self.rules = Rules(most, audits)
        self.module, self.forward = self.rules.wrapped(extension(**functions)), forward

    def __call__(self, x):
        self.rules.begin()
        with self.rules.watch, torch.no_grad():
            return self.forward(self.module, x)


class Counts(unittest.TestCase):
    def test_fewer_operators_than_the_reference_may_compute_and_creating_is_none(self):
        run = Forward(lambda own, x: own.run(torch.relu(torch.zeros_like(x).copy_(x)) * 2), run=raw(lambda y: y + 1))
        self.assertTrue(torch.equal(run(torch.ones(4)), torch.full((4,), 3.0)))
        self.assertTrue(torch.equal(run(torch.ones(4)), torch.full((4,), 3.0)), "counted anew in each call")

    def test_one_too_many_is_refused_with_both_numbers(self):
        run = Forward(lambda own, x: (torch.relu(x) * 2).exp(), run=raw(lambda y: y))
        with self.assertRaisesRegex(Refused, "number 3 that computes, and the reference has 3"):
            run(torch.ones(4))

    def test_an_operator_inside_an_own_function_is_refused(self):
        run = Forward(lambda own, x: own.inside(x), inside=torch.relu)
        with self.assertRaisesRegex(Refused, "computes inside"):
            run(torch.ones(4))


class Audits(unittest.TestCase):
    def answers(self, forward, **functions):
        """Of the audit's three calls: which are right."""
        one, other = torch.randn(64) + 3, torch.randn(64) + 3
        plain = Forward(forward, most=9, **functions)
        run = Forward(forward, most=9, audits=True, **functions)
        return [torch.allclose(run(x.clone()), plain(x.clone()), rtol=1e-2, atol=1e-2) for x in (one, other, other)]

    def test_work_of_its_own_is_missed(self):
        self.assertEqual(self.answers(lambda own, x: own.run(torch.exp(x)), run=raw(lambda y: y.sqrt() + 1)),
                         [True, False, False])

    def test_work_in_place_is_missed(self):
        def forward(own, x):
            y = torch.exp(x)
            own.run(y)
            return y
        self.assertEqual(self.answers(forward, run=raw(lambda y: y.sqrt_())), [True, False, False])

    def test_work_into_a_given_tensor_is_missed(self):
        def forward(own, x):
            out = torch.empty_like(x)
            own.run(torch.exp(x), out)
            return out
        self.assertEqual(self.answers(forward, run=raw(lambda y, out: out.copy_(y.sqrt()))), [True, False, False])

    def test_a_copy_an_almost_copy_and_nothing_in_place_are_not_missed(self):
        self.assertEqual(self.answers(lambda own, x: own.run(torch.exp(x)), run=raw(lambda y: y.clone())), [True] * 3)
        self.assertEqual(self.answers(lambda own, x: own.run(torch.exp(x)), run=raw(lambda y: y * 1.0001)), [True] * 3)

        def in_place(own, x):
            y = torch.exp(x)
            own.run(y)
            return y
        self.assertEqual(self.answers(in_place, run=raw(lambda y: y.mul_(1))), [True] * 3)

    def test_a_result_that_is_dropped_and_one_of_weight_zero_are_not_missed(self):
        def dropped(own, x):
            own.run(x)
            return torch.exp(x)
        self.assertEqual(self.answers(dropped, run=raw(lambda y: y.sqrt())), [True] * 3)
        self.assertEqual(self.answers(lambda own, x: torch.exp(x) + 0 * own.run(x), run=raw(lambda y: y.square())),
                         [True] * 3)

    def test_a_constant_is_the_same_for_other_inputs(self):
        found = self.answers(lambda own, x: torch.exp(x) + own.run(x), run=raw(lambda y: torch.full_like(y, 7)))
        self.assertTrue(found[0] and found[1])

    def test_forward_may_not_call_its_functions_more_often_when_it_is_audited(self):
        calls = []

        def forward(own, x):
            calls.append(1)
            for _ in calls:
                x = own.run(x)
            return x
        run = Forward(forward, audits=True, run=raw(lambda y: y.sqrt()))
        run(torch.ones(4))
        with self.assertRaisesRegex(RuntimeError, "more often"):
            run(torch.ones(4))


class Pointer:
    def __init__(self, tensor, letter="f"):
        self.tensor, self.letter = tensor, letter

    def bytes(self):
        return self.tensor.view(torch.uint8)


class Launches(unittest.TestCase):
    def test_only_what_a_launch_changed_is_replaced(self):
        there = torch.arange(1, 9, dtype=torch.float32)
        recorded = there.clone()
        recorded[2] = 50
        piece = Written(Pointer(there), [], recorded.view(torch.uint8))
        there.copy_(torch.arange(11, 19))
        piece.stale()
        self.assertEqual(there.tolist(), [11, 12, 50, 14, 15, 16, 17, 18])

    def test_what_it_copied_is_copied_again(self):
        source, there = torch.arange(1, 9, dtype=torch.float32), torch.zeros(8)
        recorded = source.clone()
        recorded[0] = -1
        piece = Written(Pointer(there), [Pointer(source)], recorded.view(torch.uint8))
        source.mul_(10)
        piece.poison()
        self.assertEqual(there[1:].tolist(), source[1:].tolist())
        self.assertNotEqual(float(there[0]), float(source[0]))

    def test_integers_are_poisoned_by_each_other(self):
        there, recorded = torch.zeros(100, dtype=torch.int64), torch.arange(5, 105)
        Written(Pointer(there, "l"), [], recorded.view(torch.uint8)).poison()
        self.assertEqual(sorted(there.tolist()), recorded.tolist())
        self.assertNotEqual(there.tolist(), recorded.tolist())

    def test_bytes_at_an_odd_place_are_elements_too(self):
        self.assertEqual(elements(torch.zeros(9, dtype=torch.uint8)[1:], "f").tolist(), [0, 0])


if __name__ == "__main__":
    unittest.main(verbosity=0)
