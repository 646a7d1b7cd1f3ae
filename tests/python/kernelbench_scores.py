"""Development check, not part of the test run: what KernelBench's own score.py says of invented results.

    python3 tests/python/kernelbench_scores.py CHECKOUT/src/kernelbench/score.py > tests/lua/data/kernelbench_scores.json

Needs numpy. The file holds invented inputs and the numbers that score.py gave for them; nothing of KernelBench itself.
tests/lua/metrics_test.lua compares khost's metrics with it."""

import hashlib
import importlib.util
import json
import random
import sys

import numpy

THRESHOLDS = [0.0, 0.5, 0.8, 1.0, 1.5, 2.0, 5.0]


def tables():
    """Names, then correct?, baseline seconds, own seconds. Edge cases by hand, the rest drawn from a seed."""
    yield "no correct solution", [(0, 0.1, 0.2), (0, 0.3, 0.1)]
    yield "one task, correct and slower", [(1, 0.1, 0.2)]
    yield "one task, wrong", [(0, 0.1, 0.01)]
    yield "all correct, none faster", [(1, 1.0, 2.0), (1, 1.0, 4.0), (1, 3.0, 3.5)]
    yield "a tie is not faster", [(1, 0.25, 0.25), (1, 0.5, 0.25)]
    yield "exactly at a threshold", [(1, 2.0, 1.0), (1, 1.5, 1.0), (0, 9.0, 1.0)]
    yield "wrong ones are fast", [(0, 1.0, 0.001), (1, 1.0, 0.5), (0, 1.0, 0.001)]
    yield "far apart", [(1, 1e-6, 1e-3), (1, 10.0, 1e-4), (1, 1e-5, 1e-5)]
    draw = random.Random(20)
    for size in (3, 10, 100, 250):
        yield f"drawn, {size} tasks", [(int(draw.random() < 0.7), draw.lognormvariate(-5, 1), draw.lognormvariate(-5.3, 1))
                                       for _ in range(size)]


def main():
    spec = importlib.util.spec_from_file_location("score", sys.argv[1])
    score = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(score)
    cases = []
    for name, rows in tables():
        correct, baseline, own = (numpy.array(column) for column in zip(*rows))
        n = len(rows)
        cases.append({
            "name": name, "correct": [bool(c) for c in correct], "baseline_s": list(map(float, baseline)),
            "candidate_s": list(map(float, own)),
            "geometric_mean": float(score.geometric_mean_speed_ratio_correct_only(correct, baseline, own, n)),
            "geometric_mean_of_faster": float(
                score.geometric_mean_speed_ratio_correct_and_faster_only(correct, baseline, own, n)),
            "fast_p": [float(score.fastp(correct, baseline, own, n, p)) for p in THRESHOLDS],
        })
    with open(sys.argv[1], "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    json.dump({"source": "KernelBench (ScalingIntelligence/KernelBench) src/kernelbench/score.py, sha256 " + digest,
               "thresholds": THRESHOLDS, "cases": cases}, sys.stdout, indent=1)
    print()


main()
