"""How much of its inputs and weights a task has to read."""

import unittest

from calibrated_task import task

from khost.task.questions import compulsory


class Compulsory(unittest.TestCase):
    def bytes(self, *parts, **more):
        return compulsory({"source": task(*parts, **more), "seed": 3})["bytes"]

    def test_all_that_every_element_goes_into(self):
        for forward in ("x.sum(-1)", "x.amax(-1)", "x.amin(-1)", "torch.relu(x)", "x + 1"):
            self.assertEqual(self.bytes(forward, "torch.randn(64, 512)"), 64 * 512 * 4, forward)

    def test_a_table_of_which_few_rows_are_looked_up(self):
        found = self.bytes("self.table(x)", "torch.randint(0, 4096, (64,))", init="self.table = nn.Embedding(4096, 64)")
        self.assertLess(found, 0.1 * 4096 * 64 * 4)

    def test_what_is_before_a_last_step(self):
        self.assertLess(self.bytes("x[:, -1] * 2", "torch.randn(16, 64, 64)"), 0.1 * 16 * 64 * 64 * 4)

    def test_a_second_input_that_is_not_read(self):
        self.assertEqual(self.bytes("x + 0", "torch.randn(64, 64), torch.randn(512, 512)", names="x, y"), 64 * 64 * 4)


if __name__ == "__main__":
    unittest.main()
