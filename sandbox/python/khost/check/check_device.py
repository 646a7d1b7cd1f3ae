"""How checks share a GPU: who may use it beside whom, what one of them may take, and how long a call takes there.

Files in the jail's /tmp are locked: everybody holds `use` together while it uses the device, alone while it times. Who
wants to time says so by `wish`: then nobody begins, those at work end, and all who wish time one after the other; so one
wait for the others serves many. A process that ends gives its locks up. What a task holds for too long is no longer
waited for: then times are disturbed, which the facts say. How many are there at once is the judge's to say, by the room
that each may take."""

import contextlib
import fcntl
import os
import time

import torch

PATIENCE_S = 10.0     # of who times, for those at work
TURN_S = 30.0         # of who begins, for those who time
FOLDER = "/tmp"


def patient_lock(fd, how, patience_s):
    """Whether the lock was got in time."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)


@contextlib.contextmanager
def files(*names):
    opened = [os.open(f"{FOLDER}/device.{name}", os.O_CREAT | os.O_RDWR, 0o600) for name in names]
    try:
        yield opened
    finally:
        for fd in opened:
            os.close(fd)


@contextlib.contextmanager
def together():
    with files("wish", "use") as (wish, use):
        patient_lock(wish, fcntl.LOCK_EX, TURN_S)  # nobody wishes to time
        got = patient_lock(use, fcntl.LOCK_SH, PATIENCE_S)
        fcntl.flock(wish, fcntl.LOCK_UN)
        yield got


@contextlib.contextmanager
def alone():
    with files("wish", "use") as (wish, use):
        patient_lock(wish, fcntl.LOCK_SH, PATIENCE_S)
        yield patient_lock(use, fcntl.LOCK_EX, PATIENCE_S)


def begin(room_bytes):
    """The device's context, and the most that this process may take of its memory: half more than the judge reckons."""
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(0.95, 1.5 * room_bytes / total))


def digest(tensors):
    """A number by which outputs are told apart, made on the device: a gigabyte is not copied to be hashed."""
    parts = []
    for tensor in tensors:
        words = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        words = words[:words.numel() // 4 * 4].view(torch.int32) if words.numel() >= 4 else words
        total = 0
        for at in range(0, words.numel(), 1 << 25):
            part = words[at:at + (1 << 25)].to(torch.int64)
            weights = torch.arange(at, at + part.numel(), device=part.device) * 0x9E3779B1 | 1
            total = (total * 31 + int((part * weights).sum())) % 2 ** 64
        parts.append(f"{total:016x}")
    return "-".join(parts)
