#!/usr/bin/env python3
"""Judges for a front as actors of Ray (docs/machines.md). An actor starts `khost serve --judge` where Ray puts it, and says
whether it runs: no job and no answer goes through Ray.

    ray_judges.py http://10.0.0.1:8421 --count 4 --address auto -- --node-token /shared/node-token --target cuda
    ray_judges.py http://127.0.0.1:8421 --count 2 --gpus 0 --cpus 1 -- --target cpu         a Ray of its own, on this machine

What follows `--` goes to `khost serve --judge`. An actor whose node is lost is made again on another one, and a judge that
ended is started again. SIGTERM and Ctrl-C end the judges, each with what it has begun.

Ray's own token is asked for (RAY_AUTH_MODE=token; `ray get-auth-token --generate` makes one), and a Ray of its own has no
dashboard. Give `ray start --head` the same: `RAY_AUTH_MODE=token ray start --head --include-dashboard=false`."""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

os.environ.setdefault("RAY_AUTH_MODE", "token")

import ray  # it reads the mode when it is loaded

AGAIN_S = 3          # before a judge that ended, or an actor that was lost, is started again
LOOK_S = 1           # between two looks at the judges
END_S = 120          # for what a judge has begun
# A judge is killed when its actor's process ends: else it would time on a card that Ray gives to another actor.
WITH_PARENT = ["setpriv", "--pdeathsig", "KILL", "--"]


class Judge:
    """An actor. Ray has set CUDA_VISIBLE_DEVICES to its card. `setpriv` is of util-linux."""

    def __init__(self, command):
        # Ray sets the number of threads of every program below it; a judge says itself how many a candidate has.
        environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        self.process = subprocess.Popen([*WITH_PARENT, *command], env=environment)

    def code(self):
        """The exit code of the judge; None while it runs."""
        return self.process.poll()

    def stop(self):
        """Asks the judge to finish what it has begun."""
        self.process.terminate()


class Judges:
    """So many actors, each of which is made again where it or its judge ended."""

    def __init__(self, options, command):
        remote = ray.remote(num_cpus=options.cpus, num_gpus=options.gpus)(Judge)
        self.make = lambda: remote.remote(command)
        self.actors = [self.make() for _ in range(options.count)]
        self.asked = [None] * options.count  # the open question of each
        self.again = [None] * options.count  # when one that ended is made again

    def look(self):
        """Finds what ended, and makes it again when its time has come. An actor for which Ray has no place yet does not
        answer, and its question stays open."""
        for index, actor in enumerate(self.actors):
            if actor is None:
                if time.monotonic() >= self.again[index]:
                    self.actors[index] = self.make()
                continue
            self.asked[index] = self.asked[index] or actor.code.remote()
            if not ray.wait([self.asked[index]], timeout=0)[0]:
                continue
            try:
                code = ray.get(self.asked[index])
            except ray.exceptions.RayActorError as failure:
                code = str(failure).split("\n")[0]
            self.asked[index] = None
            if code is not None:
                print(f"judge {index} ended ({code}) and is started again in {AGAIN_S} s", flush=True)
                self._drop(index)

    def _drop(self, index):
        ray.kill(self.actors[index])
        self.actors[index], self.again[index] = None, time.monotonic() + AGAIN_S

    def end(self):
        """Ends the judges; whether all ended by themselves and without a failure."""
        living = [actor for actor in self.actors if actor is not None]
        ray.wait([actor.stop.remote() for actor in living], num_returns=len(living), timeout=END_S) if living else None
        deadline, whole = time.monotonic() + END_S, True
        for actor in living:
            code = None
            try:
                while code is None and time.monotonic() < deadline:
                    code = ray.get(actor.code.remote(), timeout=max(1, deadline - time.monotonic()))
                    time.sleep(0.1)
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
                pass
            whole = whole and code == 0
        return whole


def arguments():
    """The options, and the words for `khost serve --judge`."""
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("front", help="the URL that a front prints")
    parser.add_argument("--count", type=int, default=1, help="judges (1)")
    parser.add_argument("--gpus", type=float, default=1, help="cards of each (1)")
    parser.add_argument("--cpus", type=float, default=16, help="cores of each (16)")
    parser.add_argument("--address", help="of a running Ray, or `auto`; a Ray on this machine is started when absent")
    parser.add_argument("--khost", default=str(pathlib.Path(__file__).resolve().parents[3] / "khost"),
                        help="the program, by its path on every node (the launcher of this checkout)")
    return parser.parse_args(words[:cut]), words[cut + 1:]


def main():
    """Starts the judges and looks after them until a signal."""
    options, more = arguments()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    if options.address:
        ray.init(address=options.address, log_to_driver=True)
    else:
        ray.init(include_dashboard=False, log_to_driver=True)
    for number in (signal.SIGTERM, signal.SIGINT):  # Ray has put handlers of its own there
        signal.signal(number, lambda *_: stopped.set())
    judges = Judges(options, [options.khost, "serve", "--judge", options.front, *more])
    print(f"{options.count} judges are asked of Ray", flush=True)
    while not stopped.wait(LOOK_S):
        judges.look()
    whole = judges.end()
    ray.shutdown()
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
