"""Load on `khost serve`: N clients ask for verdicts for M seconds while processes of the judge are killed.

    KHOST_ROOT=. KHOST_PYTHON=... tests/manual/bench/serve.py build/khost [--clients 64] [--seconds 600] [--kill-every 20]
    KHOST_ROOT=. KHOST_PYTHON=... tests/manual/bench/serve.py build/khost --short        8 clients, 40 s, a kill every 12 s

Every request must get exactly one answer, with nothing behind it: a verdict with the status that is known for its
candidate and the hash that belongs to its text, or 503 (a judge was lost) or 429 (too many wait), after which the client
asks again. At the end the service's own counts must equal the clients'. In turn a judge, a process in a jail and a
compiler is killed. Prints rates, latencies, fairness and resident memory; exits 1 when something did not hold.

Memory (the mean of the last minute over that of the second, at most 1.05) needs a run of three minutes or more, and so
does the claim that each kind of process was killed; fairness (no client's mean wait is twice the mean of all) needs
five verdicts of each client. What a run is too short to show is said, and a run of ten minutes must show all of it."""

import argparse
import collections
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

FIXTURES = ["cpu/good/relu_plus_one", "cpu/good/row_softmax", "cpu/wrong/off_by_one"]
BROKEN = "int broken(\n"
MOST_GROWTH = 1.05   # of resident memory, of the last minute over the second
MOST_UNFAIR = 2.0    # of a client's mean time over the mean of all
LEAST_VERDICTS = 5   # of a client whose mean time says something
LEAST_S = 180        # of a run that shows growth of memory, and kills of every kind
WHOLE_S = 600        # of a run that must show everything
PATIENCE_S = 400     # after the last kill
ANSWER_S = 600       # for one answer
DRAIN_S = 90         # after SIGTERM, with nothing in work
MOST_WAITING = 1000  # requests of a client
# What is killed in turn. Compilers live for a second or two, so that they are waited for.
KINDS = {"judge": ("khost-judge",), "jail": ("khost-jail-exec", "khost-subject", "python"),
         "build": ("cc1plus", "c++", "g++", "ld", "as", "collect2")}


def fixtures(root):
    """(task text, files, known status) of each candidate."""
    for name in FIXTURES:
        folder = root / "tests/data/kernels" / name
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


def exchange(port, token, body):
    """Status, headers and value of the one answer to a request; ValueError where there is not exactly one whole answer
    until the service closes the connection."""
    head = (f"POST /v1/verdict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as peer:
        peer.sendall(head.encode() + body)
        while block := peer.recv(65536):
            received += block
    head, end, content = received.partition(b"\r\n\r\n")
    first, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    if not end or not first.startswith("HTTP/1.1 ") or len(content) != int(headers.get("content-length", -1)):
        raise ValueError(f"not one whole answer: {received[:300]!r}")
    return int(first.split()[1]), headers, json.loads(content)


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
        status, headers, answer = exchange(self.service.port, self.token, json.dumps(body).encode())
        self.statuses[status] += 1
        if status in (429, 503):
            time.sleep(min(2, float(headers["retry-after"])))
            return False
        if status != 200:
            raise ValueError(f"{status} {answer}")
        self.check(answer["verdict"], known, json.dumps(body["files"], sort_keys=True))
        return True

    def check(self, verdict, known, text):
        if verdict["status"] != known:
            self.faults.append(f"{verdict['status']} {verdict['reason']} {verdict['detail']!r} where {known} is known")
            return
        artefact = verdict["evidence"].get("artefact_hash")
        if artefact and self.seen.setdefault(text, artefact) != artefact:
            self.faults.append("an answer belongs to another candidate")


def kill_one(service, kind, rng):
    """Kills a process of a kind below the service; its name, or None when there is none."""
    found = [(pid, name) for pid, name in descendants(service.process.pid) if name.startswith(KINDS[kind])]
    if not found:
        return None
    pid, name = rng.choice(found)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return name


class Killer(threading.Thread):
    """Kills a judge, a process in a jail and a compiler in turn, each at least so many seconds after the last. Where a
    kind has no process it waits for one half as long, then for the next kind."""

    def __init__(self, service, every, end):
        super().__init__(daemon=True)
        self.service, self.every, self.end = service, every, end
        self.random, self.killed = random.Random(1), collections.Counter()

    def run(self):
        at = time.monotonic() + self.every
        for kind in itertools.cycle(KINDS):
            while time.monotonic() < at:
                if self.over():
                    return
                time.sleep(0.1)
            while time.monotonic() < at + self.every / 2:
                if self.over():
                    return
                if name := kill_one(self.service, kind, self.random):
                    self.killed[kind, name] += 1
                    at = time.monotonic() + self.every
                    break
                time.sleep(0.05)

    def over(self):
        return time.monotonic() >= self.end or self.service.process.poll() is not None


def watch(service, options, end):
    """Kills, and the resident memory of the service each second."""
    killer, memory = Killer(service, options.kill_every, end), []
    killer.start()
    while time.monotonic() < end and service.process.poll() is None:
        memory.append(resident_mb(service.process.pid))
        time.sleep(1)
    killer.join(10)
    return killer.killed, memory


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def growth(memory):
    """The last minute over the second, and what is wrong with it."""
    if len(memory) < LEAST_S:
        return f"resident memory: the run of {len(memory)} s is too short to show growth", []
    ratio = statistics.mean(memory[-60:]) / statistics.mean(memory[60:120])
    return (f"resident memory, last minute over second minute: {ratio:.3f}",
            [f"resident memory grew by {ratio:.3f}"] if ratio > MOST_GROWTH else [])


def fairness(clients):
    """The slowest client's mean wait over the mean of all, and what is wrong with it."""
    mean = statistics.mean(t for c in clients for t in c.latencies)
    fewest = min(len(c.latencies) for c in clients)
    slowest = max((c for c in clients if c.latencies), key=lambda c: statistics.mean(c.latencies))
    worst = statistics.mean(slowest.latencies) / mean
    said = (f"the slowest client's mean wait is {worst:.2f} times the mean ({len(slowest.latencies)} verdicts); "
            f"each client has at least {fewest} verdicts")
    if fewest < LEAST_VERDICTS:
        return said + ", too few to show that none waits longer than others", []
    return said, ["a client waited more than twice as long as the mean"] if worst > MOST_UNFAIR else []


def untold(options, clients, killed, memory):
    """What a whole run has to show and did not."""
    faults = []
    if options.seconds >= LEAST_S:
        kinds = {kind for kind, _ in killed}
        faults += [f"no {kind} was killed" for kind in KINDS if kind not in kinds]
    if options.seconds >= WHOLE_S and len(memory) < LEAST_S:
        faults.append("the service ended early")
    if options.seconds >= WHOLE_S and min(len(c.latencies) for c in clients) < LEAST_VERDICTS:
        faults.append(f"a client has fewer than {LEAST_VERDICTS} verdicts: the machine is too slow, or a client starves")
    return faults


def report(options, clients, killed, memory):
    latencies = [t for c in clients for t in c.latencies]
    statuses = sum((c.statuses for c in clients), collections.Counter())
    faults = [fault for c in clients for fault in c.faults]
    if not latencies:
        return ["no verdict at all", *faults]
    print(f"{len(latencies)} verdicts by {options.clients} clients in {options.seconds:.0f} s; answers by status "
          f"{dict(statuses)}; killed {({f'{kind} {name}': n for (kind, name), n in killed.items()})}")
    print(f"latency mean {statistics.mean(latencies):.2f} s, p50 {quantile(latencies, 0.5):.2f} s, "
          f"p99 {quantile(latencies, 0.99):.2f} s, longest {max(latencies):.2f} s")
    print(f"resident memory of the service: {memory[0]:.1f} MB at first, {max(memory):.1f} MB at most, "
          f"{memory[-1]:.1f} MB at last")
    for said, wrong in (growth(memory), fairness(clients)):
        print(said)
        faults += wrong
    return faults + untold(options, clients, killed, memory)


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
        killed, memory = watch(service, options, end)
        last = time.monotonic() + PATIENCE_S
        for client in clients:
            client.join(max(0, last - time.monotonic()))
        faults = report(options, clients, killed, memory)
        faults += [f"client {c.number} has no answer {PATIENCE_S} s after the last kill" for c in clients if c.is_alive()]
        asked, answered = sum((c.statuses for c in clients), collections.Counter()), service.count(tokens[0])
        if asked != answered:
            faults.append(f"the service counts {answered}, the clients {dict(asked)}")
        service.process.send_signal(signal.SIGTERM)
        try:
            if service.process.wait(DRAIN_S) != 0:
                faults.append(f"the service ended with {service.process.returncode} after SIGTERM")
        except subprocess.TimeoutExpired:
            faults.append(f"the service did not end within {DRAIN_S} s after SIGTERM")
            service.process.kill()
            service.process.wait()
        left = [name for _, name in descendants(os.getpid()) if name.startswith("khost")]
        if left:
            faults.append(f"left over: {left}")
    for fault in faults[:20]:
        print("FAULT", fault)
    print("all hold" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
