"""Checks of baselines on a GPU (sandbox/python/khost) that need none, with a Python that has torch and Triton:
`python tests/python/baselines_test.py`."""

import importlib.util
import os
import sys
import types
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "sandbox/python"))
import torch  # noqa: E402
from torch._inductor.runtime.benchmarking import benchmarker  # noqa: E402
from torch._inductor.runtime.triton_heuristics import CachingAutotuner  # noqa: E402

from khost.baselines.baselines import use_threads  # noqa: E402
from khost.baselines.baselines_cuda import Measures, cudnn_unmeasured, unmeasured  # noqa: E402
from khost.process.out_of_memory import is_out_of_memory, is_out_of_room  # noqa: E402


@unittest.skipUnless(importlib.util.find_spec("triton"), "needs Triton")
class Unmeasured(unittest.TestCase):
    def test_who_measures_is_refused_in_a_way_that_a_compiler_does_not_take_for_a_choice(self):
        for choose in (False, True):
            with unmeasured(choose):
                for name in ("benchmark", "benchmark_gpu"):
                    with self.assertRaises(Measures):
                        getattr(benchmarker, name)(lambda: None)
        self.assertFalse(issubclass(Measures, Exception))
        self.assertNotIn("benchmark_gpu", vars(benchmarker))

    def test_a_kernel_with_several_configurations_runs_and_none_is_remembered(self):
        def save(*_, **__):
            self.fail("a choice was saved")

        kernel = types.SimpleNamespace(launchers=["one", "two"], save_cache_hook=save)
        with unmeasured(choose=False):
            CachingAutotuner.autotune_to_one_config(kernel)
        self.assertEqual(kernel.launchers, ["one"])

    def test_a_task_that_lets_cudnn_measure_is_refused_however_it_asks(self):
        cudnn = torch.backends.cudnn
        self.addCleanup(setattr, cudnn, "benchmark", cudnn.benchmark)
        with cudnn_unmeasured(), cudnn.flags(enabled=True, benchmark=False):
            pass
        with self.assertRaises(Measures), cudnn_unmeasured():
            cudnn.benchmark = True
        self.assertFalse(cudnn.benchmark)
        with self.assertRaises(Measures), cudnn_unmeasured(), cudnn.flags(enabled=True, benchmark=True):
            self.fail("it measured")
        with cudnn.flags(enabled=True, benchmark=True):
            self.assertTrue(cudnn.benchmark)  # and may, alone


class Room(unittest.TestCase):
    def test_want_of_room_in_its_many_words(self):
        for text in ("CUDA out of memory. Tried to allocate 2 GiB", "CUDA driver error: out of memory",
                     "Triton Error [CUDA]: out of memory", "CUDNN_STATUS_ALLOC_FAILED",
                     "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"):
            self.assertTrue(is_out_of_memory(RuntimeError(text)), text)
        self.assertTrue(is_out_of_memory(torch.OutOfMemoryError("")))
        self.assertFalse(is_out_of_memory(ValueError("mat1 and mat2 shapes cannot be multiplied")))

    def test_want_of_room_in_the_jail_however_deep_it_lies(self):
        self.assertTrue(is_out_of_room(OSError(28, "No space left on device")))
        self.assertTrue(is_out_of_room(OSError(11, "Resource temporarily unavailable")))
        try:
            try:
                raise OSError(28, "No space left on device")
            except OSError as error:
                raise RuntimeError("Inductor failed") from error
        except RuntimeError as error:
            self.assertTrue(is_out_of_room(error))
        self.assertFalse(is_out_of_room(FileNotFoundError(2, "No such file or directory")))


class Threads(unittest.TestCase):
    def test_a_baseline_has_the_threads_of_a_candidate(self):
        before = torch.get_num_threads()
        try:
            use_threads(2)
            self.assertEqual(torch.get_num_threads(), 2)
            self.assertEqual(torch._inductor.config.cpp.threads, 2)
        finally:
            torch._inductor.config.cpp.threads = -1
            torch.set_num_threads(before)


if __name__ == "__main__":
    unittest.main()
