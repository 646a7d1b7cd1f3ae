"""How the calibrated tolerance does on a table of tasks: what it refuses, and what it accepts. With a Python that has torch:

    KHOST_PYTHON tests/manual/bench/tolerance.py [NAME ...] [--sets N]

For each task (tolerance_tasks.py): the bound is measured as the judge does; every answer of the bank is tried on sets that
the measurement did not see, and so is every honest way of computing it (tolerance_honest.py), on drawn and planted sets.
Ends with 1 where an answer that counts passes on sets of both kinds, an honest way is refused, fewer than 90 % of the pairs
of task and answer count, or more than six tasks are refused."""

import os
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path[:0] = [os.path.join(ROOT, "sandbox/python"), os.path.dirname(os.path.abspath(__file__))]
import torch  # noqa: E402

from khost.values import bank  # noqa: E402
from khost.values.calibration import Calibration, Unplantable  # noqa: E402
from khost.task.task_file import Task  # noqa: E402
from khost.values.rule import allowed, verdict_by  # noqa: E402
from tolerance_honest import ways  # noqa: E402
from tolerance_tasks import TASKS, source  # noqa: E402

FRESH = 3  # drawn sets that the measurement did not see, and a third as many planted ones; --sets
MOST_BANK = 3  # sets on which the bank is tried, of each kind


def verdict(rules, answers, expected):
    """Per output, (why it is refused or "", K that the worst element would need)."""
    return [(why_refused(rule, got, wanted), needed(rule, got, wanted))
            for rule, got, wanted in zip(rules, answers, expected)]


def why_refused(rule, got, wanted):
    """Over all elements, as the judge counts them."""
    beyond, out, untypical = verdict_by(rule, got, wanted)
    most = allowed(rule.shares[rule.place()], wanted.numel())
    if out:
        return f"{out} farther off than a jump"
    if beyond > most:
        return f"{beyond} wrong, {most} allowed"
    most = 0 if rule.typical is None else allowed(rule.measure.typical_share(), wanted.numel())
    return f"{untypical} untypical, {most} allowed" if rule.typical is not None and untypical > most else ""


def needed(rule, got, wanted):
    """The K at which the worst element would pass."""
    if rule.exact:
        return 0.0
    got, wanted = got.to(wanted.dtype).reshape(-1), wanted.reshape(-1)
    rows, distance = rule.rows(wanted), (got.double() - wanted.double()).abs()
    steps = rule.allowance(wanted, rows, 0)
    slack, unit = (distance - steps).clamp(min=0), rule.allowance(wanted, rows, 1) - steps
    needs = torch.where((got != wanted) & torch.isfinite(distance) & (slack > 0), slack / unit, 0.0)
    return float(needs.max()) if needs.numel() else 0.0


class Row:
    """One task's figures."""

    def __init__(self, row):
        self.name, self.refused, self.idle, self.passing, self.honest = row[0], "", [], [], {}
        self.counting = 0
        begin = time.perf_counter()
        calibration = Calibration(Task(source(row), 1))
        answer = calibration.answer()
        self.seconds = time.perf_counter() - begin
        self.planting, self.idle = answer["planting"], answer["unobservable"]
        self.refused = answer["uninformative"] or answer["ambiguous"]
        self.k = {kind: "/".join(f"{e['k']}" for e in entries or []) for kind, entries in answer["kinds"].items()}
        self.reduced = any(e["precision"] == "reduced" for e in answer["kinds"]["drawn"])
        self.shares = max(e["share"] for entries in answer["kinds"].values() for e in entries or [])
        self.counting = len(answer["bank"])
        if not self.refused:
            self.try_fresh(calibration)

    def try_fresh(self, calibration):
        """Answers and honest ways on fresh sets: an answer passes where all sets of both kinds accept it."""
        refused, seen = set(), set()
        for kind, verdicts in calibration.verdicts.items():
            samples = fresh(calibration, kind)
            for number, sample in enumerate(samples):
                earlier = [other for other in samples if other is not sample] or calibration.samples["drawn"]
                for answer in bank.answers(sample, earlier) if number < MOST_BANK else ():
                    for key, passes in self.judged(calibration, verdicts.rules, answer, sample):
                        seen.add(key)
                        refused |= set() if passes else {key}
                self.try_honest(kind, verdicts.rules, sample)
        self.passing = sorted(seen - refused)

    def judged(self, calibration, rules, answer, sample):
        """Pairs (name, whether it passes) of an answer on the outputs where it counts; one that spares work only where it
        passes on all outputs has one pair."""
        found = []
        for place, (rule, wanted) in enumerate(zip(rules, sample.expected)):
            counts = any(v.refuses(p, answer.name) for v in calibration.verdicts.values()
                         for p in (range(len(rules)) if answer.whole else [place]))
            got = answer.outputs[place]
            got = None if got is None or not counts else bank.taken(got, torch.arange(wanted.numel()))
            if got is not None:
                found.append((f"{answer.name} [{place}]", not why_refused(rule, got, wanted)))
        if answer.whole and found:
            return [(answer.name, all(passes for _, passes in found))]
        return found

    def try_honest(self, kind, rules, sample):
        for name, outputs in ways(sample.model, sample.values, sample.expected):
            results = verdict(rules, outputs, sample.expected)
            bad = [f"{kind}: output {i}, {why}" for i, (why, _) in enumerate(results) if why]
            need, old = max(r[1] for r in results), self.honest.get(name, (0.0, []))
            self.honest[name] = (max(need, old[0]), old[1] + bad)


def fresh(calibration, kind):
    samples = []
    while len(samples) < (FRESH if kind == "drawn" else -(-FRESH // 3)):
        try:
            samples.append(calibration.sample(planted=kind == "planted"))
        except Unplantable:
            break
    return samples


def line(row):
    if row.refused:
        return f"| {row.name} | refused: {row.refused} | | | | | {row.seconds:.1f} |"
    honest = "; ".join(f"{name} {need:.2g}{' **refused**: ' + bad[0] if bad else ''}"
                       for name, (need, bad) in row.honest.items())
    k = row.k["drawn"] + (f", {row.k['planted']}" if row.k["planted"] else "")
    share = f" share {row.shares:.1g}" if row.shares else ""
    return (f"| {row.name} | {k}{' reduced' if row.reduced else ''}{share} | {row.counting} | "
            f"{', '.join(row.idle) or 'none'} | {', '.join(row.passing) or 'none'} | {honest} | {row.seconds:.1f} |")


def main():
    global FRESH
    torch.set_num_threads(1)
    names = sys.argv[1:]
    if "--sets" in names:
        at = names.index("--sets")
        FRESH = int(names[at + 1])
        del names[at:at + 2]
    rows = []
    for row in TASKS:
        if not names or row[0] in names:
            rows.append(Row(row))
            print(line(rows[-1]), file=sys.stderr, flush=True)  # a run that is cut short has told what it found
    text = ["| task | K, drawn and planted | answers that count, all refused | unobservable | pass | honest ways, with the "
            "K that each needs | s |", "|---|---|---|---|---|---|---|", *map(line, rows)]
    judged = [r for r in rows if not r.refused]
    counting, idle = sum(r.counting for r in judged), sum(len(r.idle) for r in judged)
    ways_tried = sum(len(r.honest) for r in judged)
    ways_refused = [f"{r.name}: {name}" for r in judged for name, (_, bad) in r.honest.items() if bad]
    few = [r.name for r in judged if len(r.honest) < 2]
    text += ["", f"{len(rows)} tasks, {len(rows) - len(judged)} refused: "
             f"{', '.join(r.name for r in rows if r.refused) or 'none'}. Of {counting + idle} pairs of task and answer "
             f"{counting} count ({100 * counting / max(1, counting + idle):.1f} %); passing: "
             f"{sum(len(r.passing) for r in judged)}. Honest ways: {ways_tried}, refused: "
             f"{', '.join(ways_refused) or 'none'}; fewer than two: {', '.join(few) or 'none'}."]
    print("\n".join(text))
    good = not ways_refused and not any(r.passing for r in judged) and counting >= 0.9 * (counting + idle) and \
        len(rows) - len(judged) <= 6 and not few
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
