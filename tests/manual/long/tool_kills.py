#!/usr/bin/env python3
"""Kills khost (kill -9) while agents call tools, and resumes it: no finished episode is lost or played again, and no
process of a killed khost is left.

    tests/manual/long/tool_kills.py [--kills 4] [--dialogues 16]

Agents are the teacher of recipes/teacher.lua with the real judge on the CPU: they write files, verify and profile in
workspaces of their own. A kill comes as soon as an agent waits for a verification or a profile that was asked for since
the last one and another episode has ended. Exit code 1 when something was lost.
"""

import argparse
import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from kills import ROOT, descendants

WAIT_S = 600  # for the next occasion, and for processes that should end: a machine may be busy
CALLS = (b"utils.verification", b"utils.profiling", b"utils/compile.sh")


def command(runs, options, resume):
    line = [os.path.join(ROOT, "khost"), "recipes/teacher.lua", "--preset", "smoke-tools", "--seed", "1",
            "--set", f"machine.runs={runs}", "--set", f"dialogues.count={options.dialogues}", "--set",
            "dialogues.timed=0"]
    return line + (["--resume"] if resume else [])


def database(runs):
    for name in sorted(os.listdir(runs)):
        path = os.path.join(runs, name, "run.sqlite")
        if os.path.exists(path):
            return path
    return None


def episodes(runs):
    """Finished episodes: id to a hash of the episode, its turns and its verdict."""
    path = database(runs)
    if not path:
        return {}
    found = {}
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30) as store:
        for row in store.execute("SELECT id, stage, step, idx, task, status, reward, turn_count, data FROM trajectories"):
            turns = store.execute("SELECT idx, text, observation, status FROM turns WHERE trajectory = ? ORDER BY idx",
                                  row[:1]).fetchall()
            verdicts = store.execute("SELECT status, correct, artefact_hash FROM verdicts WHERE trajectory = ?",
                                     row[:1]).fetchall()
            found[row[0]] = hashlib.sha256(repr((row, turns, verdicts)).encode()).hexdigest()
            if row[7] != len(turns):
                raise SystemExit(f"episode {row[0]} has {len(turns)} of {row[7]} turns")
    return found


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def calls_below(pid):
    return [child for child in descendants(pid) if any(word in command_line(child) for word in CALLS)]


def started(pid):
    """When a process began, in ticks: with its id it names the process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return None


def kill_during_a_call(khost, runs, before):
    """Kills when an episode more than before has ended and a tool call is in work; false when khost ended first."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if khost.poll() is not None:
            return False
        if len(episodes(runs)) > before and calls_below(khost.pid):
            below = {pid: started(pid) for pid in descendants(khost.pid)}
            os.kill(khost.pid, signal.SIGKILL)
            khost.wait()
            stop = time.monotonic() + WAIT_S
            left = below
            while left and time.monotonic() < stop:
                left = {pid: when for pid, when in left.items() if when and started(pid) == when}
                time.sleep(0.2)
            if left:
                raise SystemExit(f"left behind: {[(pid, command_line(pid)[:80]) for pid in left]}")
            return True
        time.sleep(0.1)
    raise SystemExit(f"nothing happened within {WAIT_S} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--dialogues", type=int, default=16)
    options = parser.parse_args()
    runs = tempfile.mkdtemp(prefix="khost-tool-kills-")
    known, kills = {}, 0
    try:
        while True:
            with open(os.path.join(runs, "output.txt"), "a", encoding="utf-8") as output:
                khost = subprocess.Popen(command(runs, options, bool(known)), cwd=ROOT, stdout=output, stderr=output)
            if kills < options.kills and kill_during_a_call(khost, runs, len(known)):
                kills += 1
            elif khost.wait() != 0:
                with open(os.path.join(runs, "output.txt"), encoding="utf-8") as output:
                    raise SystemExit(f"khost ended with {khost.returncode}:\n{output.read()[-2000:]}")
            now = episodes(runs)
            lost = [number for number, text in known.items() if now.get(number) != text]
            print(f"{kills} kills: {len(now)} episodes finished, {len(lost)} of {len(known)} lost or changed", flush=True)
            if lost:
                raise SystemExit(f"lost or changed: {lost}")
            known = now
            if khost.returncode == 0:
                break
        if len(known) != options.dialogues or kills < options.kills:
            raise SystemExit(f"{len(known)} of {options.dialogues} episodes after {kills} of {options.kills} kills")
        print(f"all {len(known)} episodes are there after {kills} kills")
    finally:
        shutil.rmtree(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
