#!/usr/bin/env python3
"""Kills a random process of a judge every few seconds while it gives verdicts (kills.lua): the judge itself, its zygotes,
their children, subjects, compilers. Only descendants of the khost that this script starts are killed.

    tests/manual/long/kills.py --seconds 600        the soak; exit code 1 when a verdict was neither right nor void
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))


def parents():
    """The parent of each process."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    found[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                pass
    return found


def descendants(pid):
    """Those of a process, it itself apart."""
    above, found, new = parents(), set(), {pid}
    while new:
        new = {child for child, parent in above.items() if parent in new and child not in found}
        found |= new
    return sorted(found)


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=5, help="seconds between two kills, on average")
    parser.add_argument("--first", type=float, default=5, help="seconds before the first one")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    khost = subprocess.Popen([os.path.join(ROOT, "khost"), "tests/manual/long/kills.lua", "--seconds", str(options.seconds)],
                             cwd=ROOT)
    killed = {}
    time.sleep(options.first)
    end = time.monotonic() + options.seconds - options.first
    while khost.poll() is None and time.monotonic() < end:
        below = [pid for pid in descendants(khost.pid) if name_of(pid) not in ("khost", "bash", "sh", "flock")]
        # The judge takes seconds to start again: it is one of ten at most, so that verdicts come to their end.
        below = [pid for pid in below if name_of(pid) != "khost-judge" or chance.random() < 0.1]
        if below:
            pid = chance.choice(below)
            name = name_of(pid)
            try:
                os.kill(pid, signal.SIGKILL)
                killed[name] = killed.get(name, 0) + 1
            except ProcessLookupError:
                pass
        time.sleep(chance.uniform(0.2, 2 * options.every - 0.2))
    code = khost.wait()
    print("killed: " + (", ".join(f"{number} {name}" for name, number in sorted(killed.items())) or "nobody"))
    return code if killed else 1


if __name__ == "__main__":
    sys.exit(main())
