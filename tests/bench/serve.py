"""Load on `khost serve`: N clients ask for verdicts for M seconds while processes of the judge are killed.

    KHOST_ROOT=. KHOST_PYTHON=... tests/bench/serve.py build/khost [--clients 64] [--seconds 600] [--kill-every 20]
    KHOST_ROOT=. KHOST_PYTHON=... tests/bench/serve.py build/khost --short        8 clients, 40 s, a kill every 12 s

Every request must get exactly one answer: a verdict with the status that is known for its candidate and the hash that
belongs to its text, or 503 (a judge was lost) or 429 (too many wait), after which the client asks again. At the end the
service's own counts must equal the clients'. Prints rates, latencies, fairness and resident memory; exits 1 when
something did not hold. Memory is judged only where the run has three minutes or more."""

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
import threading
import time

FIXTURES = ["good/relu_plus_one", "good/row_softmax", "wrong/off_by_one"]
BROKEN = "int broken(\n"
MOST_GROWTH = 1.05  # of resident memory, of the last minute over the second
MOST_UNFAIR = 2.0   # of a client's mean time over the mean of all
PATIENCE_S = 400     # after the last kill
MOST_WAITING = 1000  # requests of a client


def fixtures(root):
    """(task text, files, known status) of each candidate."""
    for name in FIXTURES:
        folder = root / "tests" / "kernels" / name
        paths = [p for p in (folder / "kernels").rglob("*") if p.is_file()]
        if (folder / "model_new.py").exists():
            paths.append(folder / "model_new.py")
        files = {str(p.relative_to(folder)): p.read_text() for p in paths}
        known = json.loads((folder / "expected.json").read_text())["status"]
        yield (folder / "model.py").read_text(), files, known


def descendants(pid):
    """Processes below one, with their names."""
    children = collections.defaultdict(list)
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        parent = int(text[text.rindex(")") + 2 :].split()[1])
        children[parent].append((int(path.parent.name), name))
    found, queue = [], [pid]
    while queue:
        for child, name in children[queue.pop()]:
            found.append((child, name))
            queue.append(child)
    return found


def resident_mb(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Service:
    def __init__(self, khost, folder, tokens, more=()):
        """`more`: words of the command beside its own."""
        suite = folder / "suite"
        suite.mkdir()
        root = pathlib.Path(os.environ["KHOST_ROOT"])
        self.cases = list(fixtures(root))
        for index, (task, _, _) in enumerate(self.cases):
            (suite / f"task_{index}.py").write_text(task)
        rights = '["candidates", "evidence", "metrics"]'
        path = folder / "tokens.toml"
        path.write_text("".join(f'[clients.c{i}]\ntoken = "{token}"\nrights = {rights}\nwaiting = {MOST_WAITING}\n'
                                for i, token in enumerate(tokens)))
        path.chmod(0o600)
        self.log = open(folder / "log", "w+")
        self.process = subprocess.Popen(
            [khost, "serve", "--port", "0", "--suite", str(suite), "--tokens", str(path), "--target", "cpu",
             "--waiting", "512", *more], stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if not found:
            self.log.seek(0)
            sys.exit(f"the service did not start: {line}{self.log.read()}")
        self.port, self.said = int(found[1]), [line]
        threading.Thread(target=self.drain_output, daemon=True).start()

    def drain_output(self):
        for line in self.process.stdout:
            self.said.append(line)

    def count(self, token):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/metrics", headers={"Authorization": "Bearer " + token})
        text = connection.getresponse().read().decode()
        counts = re.findall(r'khost_requests_total\{route="/v1/verdict",status="(\d+)"\} (\d+)', text)
        return {int(status): int(number) for status, number in counts}


class Client(threading.Thread):
    def __init__(self, number, service, token, end, seen):
        super().__init__(daemon=True)
        self.number, self.service, self.token, self.end, self.seen = number, service, token, end, seen
        self.random = random.Random(number)
        self.latencies, self.statuses, self.faults = [], collections.Counter(), []

    def body(self, index):
        """A candidate with a text of its own in one of four, and what is known of it."""
        task, files, known = self.random.choice(self.service.cases)
        files, draw = dict(files), self.random.random()
        path = next(p for p in files if p.startswith("kernels/") and p.endswith(".cpp"))
        if draw < 0.25:
            files[path] += f"// {self.number} {index}\n"
        elif draw < 0.4:
            files[path], known = files[path] + BROKEN, "build_failed"
        measure = self.random.random() < 0.05
        return {"task": {"source": task}, "files": files, "measure": measure}, known

    def run(self):
        index = 0
        while time.monotonic() < self.end:
            index += 1
            body, known = self.body(index)
            begin = time.monotonic()
            try:
                while not self.ask(body, known):
                    pass
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.faults.append(f"client {self.number}: {type(error).__name__}: {error}")
                return
            self.latencies.append(time.monotonic() - begin)

    def ask(self, body, known):
        """False when it must be asked again."""
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=600)
        connection.request("POST", "/v1/verdict", json.dumps(body),
                           {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        self.statuses[response.status] += 1
        if response.status in (429, 503):
            time.sleep(min(2, float(response.getheader("Retry-After"))))
            return False
        if response.status != 200:
            raise ValueError(f"{response.status} {answer}")
        self.check(answer["verdict"], known, json.dumps(body["files"], sort_keys=True))
        return True

    def check(self, verdict, known, text):
        if verdict["status"] != known:
            self.faults.append(f"{verdict['status']} {verdict['reason']} {verdict['detail']!r} where {known} is known")
            return
        artefact = verdict["evidence"].get("artefact_hash")
        if artefact and self.seen.setdefault(text, artefact) != artefact:
            self.faults.append("an answer belongs to another candidate")


def kill_one(service, names, rng):
    """Kills a process of the judge: the judge itself, or what it started."""
    found = [(pid, name) for pid, name in descendants(service.process.pid)]
    if not found:
        return None
    judges = [item for item in found if item[1].startswith("khost-judge")]
    pid, name = rng.choice(judges if judges and rng.random() < 0.5 else found)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    names[name] += 1
    return name


def watch(service, options, end):
    """Kills, and the resident memory of the service each second."""
    rng, names, memory, next_kill = random.Random(1), collections.Counter(), [], time.monotonic() + options.kill_every
    while time.monotonic() < end and service.process.poll() is None:
        memory.append(resident_mb(service.process.pid))
        if time.monotonic() >= next_kill:
            kill_one(service, names, rng)
            next_kill += options.kill_every
        time.sleep(1)
    return names, memory


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(options, clients, names, memory):
    latencies = [t for c in clients for t in c.latencies]
    statuses = sum((c.statuses for c in clients), collections.Counter())
    faults = [fault for c in clients for fault in c.faults]
    if not latencies:
        return ["no verdict at all", *faults]
    mean = statistics.mean(latencies)
    worst = max(statistics.mean(c.latencies) for c in clients if c.latencies)
    print(f"{len(latencies)} verdicts by {options.clients} clients in {options.seconds:.0f} s; answers by status "
          f"{dict(statuses)}; killed {dict(names)}")
    print(f"latency mean {mean:.2f} s, p50 {quantile(latencies, 0.5):.2f} s, p99 {quantile(latencies, 0.99):.2f} s, "
          f"longest {max(latencies):.2f} s; the slowest client's mean is {worst / mean:.2f} times the mean")
    print(f"resident memory of the service: {memory[0]:.1f} MB at first, {max(memory):.1f} MB at most, "
          f"{memory[-1]:.1f} MB at last")
    if len(memory) >= 180:
        growth = statistics.mean(memory[-60:]) / statistics.mean(memory[60:120])
        print(f"resident memory, last minute over second minute: {growth:.3f}")
        if growth > MOST_GROWTH:
            faults.append(f"memory grew by {growth:.3f}")
    if len(latencies) >= 20 * options.clients and worst > MOST_UNFAIR * mean:
        faults.append("a client waited more than twice as long as the mean")
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("khost")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kill-every", type=float, default=20)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    if options.short:
        options.clients, options.seconds, options.kill_every = 8, 40, 12
    tokens = [f"{i:032x}" for i in range(4)]
    with tempfile.TemporaryDirectory() as name:
        service = Service(options.khost, pathlib.Path(name), tokens)
        end, seen = time.monotonic() + options.seconds, {}
        clients = [Client(i, service, tokens[i % 4], end, seen) for i in range(options.clients)]
        for client in clients:
            client.start()
        names, memory = watch(service, options, end)
        last = time.monotonic() + PATIENCE_S
        for client in clients:
            client.join(max(0, last - time.monotonic()))
        faults = report(options, clients, names, memory)
        faults += [f"client {c.number} has no answer {PATIENCE_S} s after the last kill" for c in clients if c.is_alive()]
        asked, answered = sum((c.statuses for c in clients), collections.Counter()), service.count(tokens[0])
        if asked != answered:
            faults.append(f"the service counts {answered}, the clients {dict(asked)}")
        service.process.send_signal(signal.SIGTERM)
        if service.process.wait(60) != 0:
            faults.append(f"the service ended with {service.process.returncode} after SIGTERM")
        left = [name for _, name in descendants(os.getpid()) if name.startswith("khost")]
        if left:
            faults.append(f"left over: {left}")
    for fault in faults[:20]:
        print("FAULT", fault)
    print("all hold" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
