"""Processes that run the code of many candidates, or of many tasks, one after the other or side by side, in one jail. They
are forked from a zygote that has imported what they need, and are confined before anything of a stranger runs. What
candidates left in the jail's folders is removed as soon as none of them lives; of tasks, see TaskConfinement.

Threads: a fork takes only the thread that calls it. Libraries that are merely imported may leave threads behind (a GPU's
driver does when it is asked for devices), and a child may miss them. So one child tries before the first candidate comes;
where it fails beside such threads, the zygote starts again and leaves the imports to its children."""

import contextlib
import ctypes
import hashlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback

FOLDERS = ("/tmp", "/dev/shm")  # of the jail, writable for everybody in it
# Threads and processes are counted for all of the jail's children together, and those of one share the cores with the
# only thread that another one needs. Beside a GPU more of them record at once, and none of them is timed.
MOST_THREADS, MOST_THREADS_BESIDE_DEVICE = 128, 256
# Recording needs none. A child that records starts one only while there are fewer than this in the jail, so that it cannot
# use up those of a child that plays a kernel with threads.
MOST_THREADS_RECORDING = 16
MOST_FILE = 64 << 20
MOST_PROCESSES = 256  # of children that compile
CROWD = MOST_PROCESSES - 16  # a compiler is a handful of processes: with so many in the jail it may not come up
LEAST_ROOM = 0.4  # of a jail's /tmp, its bytes and its names, before another child begins there
TASK_FOLDERS = "/tmp/tasks"
PR_SET_DUMPABLE, PR_SET_THP_DISABLE = 4, 41
TRIAL_S = 20  # a child that waits for a thread that it does not have would wait without an end
LATE = "--late-imports"

TRIAL_MODEL = "import torch\nclass Model(torch.nn.Module):\n    def forward(self):\n        return None\n"
TRIAL = {"model_source": TRIAL_MODEL, "model_new_source": TRIAL_MODEL.replace("Model(", "ModelNew("), "signatures": {},
         "inputs": {"storages": [], "tree": {"kind": "tuple", "items": []}},
         "state": {"storages": [], "tree": {"kind": "tuple", "items": []}}}


def threads():
    """The names of this process's threads, its first one apart."""
    names = []
    for thread in os.listdir("/proc/self/task"):
        if int(thread) != os.getpid():
            with open(f"/proc/self/task/{thread}/comm", encoding="utf-8", errors="replace") as file:
                names.append(file.read().strip())
    return names


def mount_points():
    """Folders and files of others that the jail shows inside the writable folders: these stay."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        points = [line.split()[4].replace("\\040", " ") for line in file]
    return {point for point in points if any(point.startswith(folder + "/") for folder in FOLDERS)}


def remove_below(folder, mounts):
    for entry in os.scandir(folder):
        if entry.path in mounts:
            continue
        if any(point.startswith(entry.path + "/") for point in mounts):
            remove_below(entry.path, mounts)
        elif entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def outcome_of_trial(pid):
    """Why the child on trial failed, or None. Time in which this process itself stands still is not counted: it is stopped
    while something is timed."""
    for _ in range(TRIAL_S * 50):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return f"a child on trial ended with status {os.waitstatus_to_exitcode(status)}" if status else None
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"a child on trial did not record in {TRIAL_S} s"


def lower_limits(limits):
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def small_pages():
    """As in the baselines (zygote.py), for good: what narrow() of sandbox/subject refuses includes to take it back."""
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def check_confined(error):
    if error:
        raise OSError(error, "the process cannot be confined: " + os.strerror(error))


def parent_of(pid):
    """The number of a process's parent; 0 when it is gone or has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, parent = file.read().rsplit(")", 1)[1].split()[:2]
    except (OSError, IndexError):
        return 0
    return 0 if state in "ZX" else int(parent)


class Folders:
    """The writable folders of a jail, which are empty again whenever no child lives."""

    def __init__(self):
        if os.getppid() != 1:
            raise RuntimeError("this zygote empties /tmp: it is started in a jail (zygote.cpp) and nowhere else")
        self.mounts = mount_points()
        self.living = set()

    def began(self, pid):
        self.living.add(pid)

    def ended(self, pid):
        """What cannot be removed ends the jail, and the next one begins without it."""
        self.living.discard(pid)
        if self.living:
            return
        try:
            for folder in FOLDERS:
                remove_below(folder, self.mounts)
        except (OSError, RecursionError):
            os._exit(0)


class Confinement:
    def __init__(self, library, with_extensions):
        """`library` exports khost_confine (alone_python.cpp). `with_extensions`: children record candidates in Python that
        build extensions, too (candidate_record.py)."""
        if os.getppid() != 1:
            raise RuntimeError("this zygote empties /tmp: it is started in a jail (zygote.cpp) and nowhere else")
        self.library = ctypes.CDLL(library)
        self.with_extensions = with_extensions
        self.prepare()
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0)  # children look neither into this process nor into each other

    def prepare(self):
        late = LATE in sys.argv
        if not late:
            self.import_all()
        failed = self.trial()
        if failed and threads() and not late:
            print(f"{failed} beside the threads {threads()}; children import for themselves", file=sys.stderr, flush=True)
            os.execv(sys.executable, [sys.executable, "-I", *sys.argv, LATE])
        if failed:
            raise RuntimeError(f"{failed}, beside the threads {threads()}")

    def import_all(self):
        """What children need, so that none of them imports beside a stranger's code."""
        from khost.candidate.recorder import warm_up
        from khost.candidate import mixed_audit  # noqa: F401
        if self.with_extensions:
            from khost.candidate import candidate_record  # noqa: F401
        warm_up()

    def trial(self):
        """Why a child cannot record, or None."""
        pid = os.fork()
        if pid == 0:
            try:
                self.confine()
                from khost.candidate.recorder import record
                answer = record(TRIAL)
                if "launches" in answer:
                    os._exit(0)
                print(answer, file=sys.stderr, flush=True)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        return outcome_of_trial(pid)

    def confine(self):
        """Nothing of the candidate has run yet. Afterwards this process can start threads alone, and reach no other one."""
        most = MOST_THREADS_BESIDE_DEVICE if self.with_extensions else MOST_THREADS
        lower_limits({resource.RLIMIT_NPROC: most, resource.RLIMIT_FSIZE: MOST_FILE})
        check_confined(self.library.khost_confine())

    def at_start(self):
        self.confine()

    def at_request(self, request):
        if request["kind"] == "record" and not self.with_extensions:
            lower_limits({resource.RLIMIT_NPROC: MOST_THREADS_RECORDING})
        if request["kind"] == "mixed_subject":  # it loads the candidate's library and is timed, as khost-subject does
            small_pages()
            check_confined(self.library.khost_narrow())

    def before_child(self):
        pass

    def child_ended(self):
        pass


class TaskConfinement:
    """Of children that run tasks: a task is a stranger's code, and must not reach the children of other tasks or what
    stays in the jail. Where they compile they may start processes: then each task has a folder of its own, which its
    children alone write to and where its compiler keeps what it made, and what they leave behind is ended."""

    PASSES = 20  # a process may fork until it is ended

    def __init__(self, library, compiles):
        self.library = ctypes.CDLL(library)
        self.compiles = compiles
        self.confined = False
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0)

    def at_start(self):
        lower_limits({resource.RLIMIT_NPROC: MOST_PROCESSES if self.compiles else MOST_THREADS})
        if not self.compiles:
            check_confined(self.library.khost_confine())

    def at_request(self, request):
        """Before the first of them is answered, which is when a stranger's code begins to run."""
        if not self.compiles or self.confined:
            return
        self.confined = True
        source = request.get("source") or request.get("baseline", {}).get("source") or str(os.getpid())
        folder = os.path.join(TASK_FOLDERS, hashlib.sha256(source.encode()).hexdigest())
        os.makedirs(folder, exist_ok=True)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
        if code := sys.modules.get("torch._inductor.codecache"):  # what is there already is only read
            code._HEADER_DIR = os.path.join(folder, "headers")
            code._HEADER_LOCK_DIR = os.path.join(folder, "headers", "locks")
        check_confined(self.library.khost_confine_compiler(folder.encode()))

    def child_ended(self):
        """Ends what is nobody's child any more: one that ended has left it."""
        for _ in range(self.PASSES if self.compiles else 0):
            left = [int(name) for name in os.listdir("/proc")
                    if name.isdigit() and int(name) not in (1, os.getpid()) and parent_of(name) == 1]
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self.compiles:
            make_room()

    def before_child(self):
        """A task may fill the folder that all tasks of this jail have, or use up its processes, and others could not compile.
        What is not removed, since a living child holds it, ends the jail: the next one begins without it."""
        if self.compiles and (not make_room() or crowd() > CROWD):
            os._exit(0)


def crowd():
    """Processes and threads of the jail, which one limit counts together."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                total += len(os.listdir(f"/proc/{name}/task"))
    return total


def has_room():
    """For bytes and for names: a folder may be full of either."""
    place = os.statvfs("/tmp")
    return place.f_bavail > LEAST_ROOM * place.f_blocks and (
        not place.f_files or place.f_favail > LEAST_ROOM * place.f_files)


def share_of(folder):
    """The part of /tmp that a folder takes, of its bytes or of its names, whichever is more. It may change meanwhile."""
    bytes_, names, root = 0, 0, os.statvfs("/tmp")
    for place, folders, files in os.walk(folder):
        names += len(folders) + len(files)
        for name in files:
            with contextlib.suppress(OSError):
                bytes_ += os.lstat(os.path.join(place, name)).st_blocks * 512
    return max(bytes_ / (root.f_blocks * root.f_frsize), names / root.f_files if root.f_files else 0)


def uses_up_the_room():
    """Whether it is this process's own task that leaves no room to others."""
    folder = os.environ.get("TMPDIR", "")
    return folder.startswith(TASK_FOLDERS) and share_of(folder) > LEAST_ROOM


def make_room():
    """Compilers keep what they made, for all tasks of the jail: the largest folders go before there is no room. Whether
    there is room now."""
    if has_room() or not os.path.isdir(TASK_FOLDERS):
        return has_room()
    for path in sorted((entry.path for entry in os.scandir(TASK_FOLDERS)), key=share_of, reverse=True):
        shutil.rmtree(path, ignore_errors=True)
        if has_room():
            return True
    return False
