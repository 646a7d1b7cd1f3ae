"""Processes that run the code of many candidates, one after the other or side by side, in one jail. They are forked from a
zygote that has imported what they need, are confined before they read their request, and what they left in the jail's
folders is removed as soon as none of them lives.

Threads: a fork takes only the thread that calls it. Libraries that are merely imported may leave threads behind (a GPU's
driver does when it is asked for devices), and a child may miss them. So one child tries before the first candidate comes;
where it fails beside such threads, the zygote starts again and leaves the imports to its children."""

import ctypes
import os
import resource
import shutil
import signal
import sys
import time
import traceback

FOLDERS = ("/tmp", "/dev/shm")  # of the jail, writable for everybody in it
LIMITS = {resource.RLIMIT_NPROC: 256, resource.RLIMIT_FSIZE: 64 << 20}
PR_SET_DUMPABLE = 4
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
        from recorder import warm_up
        import mixed_audit  # noqa: F401
        if self.with_extensions:
            import candidate_record  # noqa: F401
        warm_up()

    def trial(self):
        """Why a child cannot record, or None."""
        pid = os.fork()
        if pid == 0:
            try:
                self.confine()
                from recorder import record
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
        for limit, value in LIMITS.items():
            hard = resource.getrlimit(limit)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (value, value))
        error = self.library.khost_confine()
        if error:
            raise OSError(error, "the process cannot be confined: " + os.strerror(error))
