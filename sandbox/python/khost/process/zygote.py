"""A jailed process that has imported torch and forks a single-use child for each request. It starts no thread, holds
no secret and runs nobody's code but ours. Where children run candidates' code, what they need is imported before, they are
confined before they read their request, and what they left in the jail's folders is removed (confinement.py).

Descriptor 3: a SOCK_SEQPACKET; each message carries one descriptor, the child's own channel. On a channel, both ways:
four bytes of length, then JSON; descriptors come with the length."""

import ctypes
import faulthandler
import json
import math
import mmap
import os
import select
import signal
import socket
import struct
import sys
import traceback

sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
IDLE_MS = 200  # nobody asks
OF_TASKS = {"load", "sets", "calibrate", "check", "trace"}  # requests that run a task's own code and nobody else's
MOST_WITHOUT = 3  # children without the compiler, if there is always somebody

CANDIDATE = "--candidate" in sys.argv
if CANDIDATE:
    # Its allocations stand before those of the CUDA runtime that torch brings (sandbox/subject/cuda_arena.cpp).
    ctypes.CDLL(sys.argv[sys.argv.index("--candidate") + 1], ctypes.RTLD_GLOBAL)

PR_SET_THP_DISABLE = 41
if "--compile" in sys.argv:
    # A candidate's outputs and inputs are shared memory, which has small pages nearly everywhere: so has a baseline's heap.
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)

import torch  # noqa: E402

from khost.task.advice import advice_for  # noqa: E402
from khost.process.out_of_memory import is_out_of_memory, is_out_of_room  # noqa: E402

START_S = 170  # the judge waits a little longer (zygote.cpp)


def receive(channel):
    head, fds, _, _ = socket.recv_fds(channel, 4, 64)
    if len(head) < 4:
        os._exit(0)
    size = struct.unpack("<I", head)[0]
    body = bytearray()
    while len(body) < size:
        piece = channel.recv(min(1 << 20, size - len(body)))
        if not piece:
            os._exit(0)
        body += piece
    return json.loads(body), fds


def send(channel, answer):
    body = as_json(answer).encode()
    channel.sendall(struct.pack("<I", len(body)) + body)


def as_json(answer):
    """JSON has no NaN and no infinities, and its readers refuse them: an answer that holds one is an error that names it.
    Half of a surrogate pair, which a stranger's message may hold and UTF-8 has no form for, is a question mark."""
    try:
        return json.dumps(answer, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace").decode()
    except ValueError:
        return json.dumps({"error": f"the answer's {not_finite_in(answer, '')}, for which JSON has no form"})


def not_finite_in(value, place):
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place} is {value}"
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    found = (not_finite_in(item, f"{place}.{key}" if place else str(key)) for key, item in items)
    return next((text for text in found if text), "")


def map_fd(fd):
    size = os.fstat(fd).st_size
    if size == 0:
        return b""
    try:
        return mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError:  # sealed against writing
        return mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)


def error_of(error, of_task=False):
    """`of_task`: whether a task's own code was run, so that advice to its author may help."""
    from khost.process.confinement import uses_up_the_room
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "model.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f"model.py line {line}: " if line else ""
    kind = "" if hasattr(error, "name") and type(error).__name__ == "TaskFault" else f"{type(error).__name__}: "
    advice = advice_for(error) if of_task else ""
    return {"error": f"{where}{kind}{error}"[:2000 - len(advice)] + advice, "is_out_of_memory": is_out_of_memory(error),
            "is_out_of_room": is_out_of_room(error) and not uses_up_the_room(), "trace": traceback.format_exc()[-3000:]}


def answer(request, fds, state, channel):
    kind = request["kind"]
    if kind == "mixed_subject":
        from khost.candidate.mixed_player import run
        run(request["subject"], fds, lambda value: send(channel, value))
    on_device = kind in ("baseline_cuda", "candidate_cuda", "profile_cuda") or request.get("device", "cpu") != "cpu"
    regions = [] if on_device else [map_fd(fd) for fd in fds]  # a GPU's memory is no file
    if kind == "load":
        from khost.task.reference import Session
        state["session"] = Session(request)
        return state["session"].describe()
    if kind == "sets":
        if on_device:
            from khost.baselines.device_memory import load_library, region
            library = load_library(request["library"])
            regions = [region(library, fd, size) for fd, size in zip(fds, request["sizes"])]
        return state["session"].sets(request["seeds"], regions, request.get("planted") or [False] * len(regions),
                                     request.get("kinds"))
    if kind == "calibrate":
        return state["session"].calibrate(request.get("settle", True))
    if kind == "record":
        from khost.candidate.recorder import record
        return record(request["request"])
    if kind == "baseline":
        from khost.baselines.baselines import run
        run(request["baseline"], regions, lambda value: send(channel, value))
        os._exit(0)
    if kind == "baseline_cuda":
        from khost.baselines.baselines_cuda import run
        run(request["baseline"], fds, lambda value: send(channel, value), lambda: receive(channel))
        os._exit(0)
    if kind in ("profile_cuda", "ceilings_cuda"):
        from khost.baselines.profile_cuda import answer as profile
        return profile(request, fds)
    if kind == "candidate_record":
        from khost.candidate.candidate_record import record
        return record(request["request"])
    if kind == "candidate_cuda":
        from khost.candidate.candidate_turns import run
        run(request["candidate"], fds)
    if kind == "mixed":
        from khost.task.questions import mixed
        return mixed(request, regions[0])
    if kind == "compulsory":
        from khost.task.questions import compulsory
        return compulsory(request)
    if kind == "trace":
        from khost.task.trace_graph import trace
        return trace(request["source"])
    if kind == "check":
        from khost.check.check import answer as check
        return check(request, state)
    if kind == "crawl":
        from khost.crawl.crawl import answer as crawl
        return crawl(request["request"])
    raise ValueError(f"unknown request {kind}")


def child(channel, confinement):
    if confinement:
        try:
            confinement.at_start()
        except BaseException as error:
            send(channel, error_of(error))
            raise
    torch.set_num_threads(1)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    send(channel, {"hello": True})
    state = {}
    while True:
        request, fds = receive(channel)
        try:
            if confinement:
                confinement.at_request(request)
            result = answer(request, fds, state, channel)
        except BaseException as error:  # sys.exit of a task is an answer too
            result = error_of(error, request.get("kind") in OF_TASKS)
        send(channel, result)


def warm_up_compiler():
    """Compiles something small, so that every child begins with Inductor's modules imported, the processor probed and
    the headers precompiled: that takes 5 s a child otherwise. With one OpenMP thread no pool is started, so a fork
    afterwards is safe."""
    torch.set_num_threads(1)
    with torch.no_grad():
        torch.compile(lambda x: torch.tanh(x).sum(-1))(torch.zeros(8, 64))
    torch._dynamo.reset()
    # Where a GPU's driver is installed, Inductor's look for devices leaves threads of the driver behind. A pool's threads
    # would be missed by a child, the driver's are not: one child tries.
    if len(os.listdir("/proc/self/task")) != 1 and not child_computes():
        raise RuntimeError("compiling started a thread that a child misses")


def import_compiler():
    """What compiling needs, so that every child has it: 2.7 s, taken when nobody asks, since the first child, which makes a
    task's inputs, can do without. No CUDA call: it would poison the children."""
    import torch._dynamo, torch._inductor.compile_fx  # noqa: E401
    if torch.cuda.is_initialized():
        raise RuntimeError("importing torch initialised CUDA")


def child_computes():
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)  # a child that waits for a thread it does not have would wait for ever
        try:
            with torch.no_grad():
                value = torch.compile(lambda x: torch.relu(x).sum(-1))(torch.ones(8, 64))
            os._exit(0 if bool((value == 64).all()) else 1)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.register(signal.SIGALRM, chain=True)  # says where a start that takes too long was, and ends it
    signal.alarm(START_S)
    if "--compile" in sys.argv:
        warm_up_compiler()
    compiler_wanted, forked = "--cuda" in sys.argv, 0
    if CANDIDATE:
        import_compiler()  # some stand ready, and nothing of theirs may change beside a candidate
        compiler_wanted = False
        # One candidate's processes are forked from here, with nothing of a task in it; they cannot look into it either.
        from khost.candidate.candidate_turns import warm_up
        warm_up()
        ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE
    confinement = folders = None
    if "--empties" in sys.argv:
        from khost.process.confinement import Folders
        folders = Folders()
    if "--confine" in sys.argv:
        from khost.process.confinement import Confinement
        library = sys.argv[sys.argv.index("--confine") + 1]
        confinement = Confinement(library, with_extensions="--extensions" in sys.argv)
    elif "--alone" in sys.argv:
        from khost.process.confinement import TaskConfinement
        confinement = TaskConfinement(sys.argv[sys.argv.index("--alone") + 1], compiles="--compile" in sys.argv)
    if folders:
        folders.ended(None)  # what the imports left there
    signal.alarm(0)
    if "--quiet" in sys.argv:
        # What is written before tells the judge why this process did not come up. No child may write there.
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
    server = socket.socket(fileno=3)
    compiled = torch.__spec__.cached
    server.send(b"ready" if compiled and os.path.exists(compiled) else os.path.dirname(torch.__file__).encode())
    poller = select.poll()
    poller.register(server, select.POLLIN)
    while True:
        if not poller.poll(IDLE_MS if compiler_wanted else 1000) or forked >= MOST_WITHOUT:
            if compiler_wanted:
                import_compiler()
            compiler_wanted = False
        try:
            while (ended := os.waitpid(-1, os.WNOHANG)[0]):
                if folders:
                    folders.ended(ended)
                if confinement:
                    confinement.child_ended()
        except ChildProcessError:
            pass
        try:
            data, fds, _, _ = socket.recv_fds(server, 16, 4, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        if not data:
            os._exit(0)
        forked += 1
        if confinement:
            confinement.before_child()
        pid = os.fork()
        if pid == 0:
            server.close()
            try:
                child(socket.socket(fileno=fds[0]), confinement)
            finally:
                os._exit(1)
        if folders:
            folders.began(pid)
        os.close(fds[0])


if __name__ == "__main__":
    main()
