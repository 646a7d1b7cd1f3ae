#!/usr/bin/env python3
"""Judges of several machines, played by processes of this one: a front, four judges on target cpu that are killed at random
and started again, and clients that ask for verdicts.

    KHOST_ROOT=. KHOST_PYTHON=... tests/long/nodes.py build/khost [--judges 4] [--clients 8] [--seconds 300]
                                                                  [--kill-every 15] [--lease 4] [--ray 0]
    KHOST_ROOT=. KHOST_PYTHON=... tests/long/nodes.py build/khost --ray 2     two of the four are started by Ray, which is
                                                                  installed into an environment of its own (once, 200 MB)

Every request must get exactly one answer, right where it is known. A candidate beside which two judges were lost is told as
crashed; how often that happened by accident must be what the front counts. Exits 1 when something did not hold."""

import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import nodes_ray
import serve

BEGIN_S = 120     # until every judge is registered
RESTART_S = 3     # that a killed one stays away
PATIENCE_S = 300  # for what is in work at the end
LOST = "judges were lost while they judged this candidate"


class Client(serve.Client):
    """Asks without times, which take a minute on two cores, and sets accidents apart."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.accidents = 0

    def body(self, index):
        body, known = super().body(index)
        return {**body, "measure": False}, known

    def check(self, verdict, known, text):
        if verdict["status"] == "crash" and LOST in verdict["detail"]:
            self.accidents += 1
        else:
            super().check(verdict, known, text)


class Judges:
    """Judges that are processes of this one, and `ray`, a nodes_ray.RayJudges or None."""

    def __init__(self, khost, url, count, log, ray):
        self.ray = ray
        self.command = [khost, "serve", "--judge", url, "--target", "cpu", "--jobs", "1"]
        self.log, self.random, self.killed = log, random.Random(2), collections.Counter()
        self.processes = [self.start() for _ in range(count)]

    def start(self):
        return subprocess.Popen(self.command, stdout=self.log, stderr=self.log)

    def kill(self):
        """A whole judge, which comes back, or the process below one that judges."""
        if self.ray and (self.random.random() < 0.5 or not self.processes):
            self.killed[self.ray.kill(self.random) or "none of Ray's: none ran"] += 1
            return
        place = self.random.randrange(len(self.processes))
        process = self.processes[place]
        below = [pid for pid, name in serve.descendants(process.pid) if name.startswith("khost-judge")]
        if below and self.random.random() < 0.3:
            os.kill(below[0], signal.SIGKILL)
            self.killed["khost-judge"] += 1
            return
        process.kill()
        process.wait()
        self.killed["machine"] += 1
        time.sleep(RESTART_S)
        self.processes[place] = self.start()

    def end(self):
        for process in self.processes:
            process.terminate()
        codes = [process.wait(120) for process in self.processes]
        return codes + ([self.ray.end()] if self.ray else [])


def state_of(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/v1/nodes")
    return json.loads(connection.getresponse().read())


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"after {seconds} s: {what}")
        time.sleep(0.2)


def port_of_front(service):
    def found():
        return next((m for m in (re.search(r"judges register at http://127\.0\.0\.1:(\d+)", line) for line in service.said)
                     if m), None)
    until(found, 30, f"the front does not listen: {service.said}")
    return int(found()[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("khost")
    parser.add_argument("--judges", type=int, default=4)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--kill-every", type=float, default=15)
    parser.add_argument("--lease", type=float, default=4)
    parser.add_argument("--ray", type=int, default=0, help="of the judges, those that Ray starts")
    options = parser.parse_args()
    tokens = [f"{i:032x}" for i in range(4)]
    with tempfile.TemporaryDirectory() as name, open(os.path.join(name, "judges.log"), "w+") as log:
        service = serve.Service(options.khost, pathlib.Path(name), tokens,
                                ["--front", "127.0.0.1:0", "--lease", str(options.lease)])
        port = port_of_front(service)
        url = f"http://127.0.0.1:{port}"
        ray = nodes_ray.RayJudges(options.khost, url, options.ray, pathlib.Path(name), log) if options.ray else None
        judges = Judges(options.khost, url, options.judges - options.ray, log, ray)
        until(lambda: len(state_of(port)["nodes"]) == options.judges, BEGIN_S, "not all judges are registered")
        end, seen = time.monotonic() + options.seconds, {}
        clients = [Client(i, service, tokens[i % 4], end, seen) for i in range(options.clients)]
        for client in clients:
            client.start()
        while time.monotonic() < end - options.kill_every:
            time.sleep(options.kill_every)
            judges.kill()
        last = time.monotonic() + PATIENCE_S
        for client in clients:
            client.join(max(0, last - time.monotonic()))
        state, answered = state_of(port), service.count(tokens[0])
        faults = [fault for c in clients for fault in c.faults]
        faults += [f"client {c.number} has no answer" for c in clients if c.is_alive()]
        asked = sum((c.statuses for c in clients), collections.Counter())
        latencies = [t for c in clients for t in c.latencies]
        accidents = sum(c.accidents for c in clients)
        print(f"{len(latencies)} verdicts by {options.clients} clients and {options.judges} judges in {options.seconds:.0f} s; "
              f"answers by status {dict(asked)}; killed {dict(judges.killed)}; the front counts {state['counts']}")
        if latencies:
            print(f"latency mean {statistics.mean(latencies):.2f} s, longest {max(latencies):.2f} s")
        else:
            faults.append("no verdict at all")
        if asked != answered:
            faults.append(f"the service counts {answered}, the clients {dict(asked)}")
        if accidents != state["counts"]["crashed"]:
            faults.append(f"{accidents} candidates were told as crashed, the front counts {state['counts']['crashed']}")
        codes = judges.end()
        if any(codes):
            faults.append(f"judges ended with {codes} after SIGTERM")
        service.process.send_signal(signal.SIGTERM)
        if service.process.wait(60) != 0:
            faults.append(f"the front ended with {service.process.returncode} after SIGTERM")
        left = [name for _, name in serve.descendants(os.getpid()) if name.startswith("khost")]
        if left:
            faults.append(f"left over: {left}")
        if faults:
            log.seek(0)
            print(log.read()[-3000:])
    for fault in faults[:20]:
        print("FAULT", fault)
    print("all hold" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
