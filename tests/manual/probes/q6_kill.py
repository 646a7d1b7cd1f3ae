"""Question 6: a client in a kernel that will not end is killed. How long until a new process works, and what happens
to a third, idle client?   usage: q6_kill.py FOLDER kill|terminate|idle|jailed
idle: the victim computes nothing when it is killed; jailed: the victim lives in other namespaces, and is named to
MPS as the daemon lists it, then killed."""
import os
import subprocess
import sys
import time

folder, how = sys.argv[1:3]
hello = os.path.join(folder, "hello")
mps = os.path.isdir(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent"))


def start(*arguments):
    return subprocess.Popen([hello, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def control(command):
    try:
        done = subprocess.run(["nvidia-cuda-mps-control"], input=command + "\n", text=True, capture_output=True, timeout=15)
        return (done.stdout + done.stderr).strip()
    except subprocess.TimeoutExpired:
        return "no answer in 15 s"


def ask(process, seconds=10):
    """One kernel in the idle client; bounded."""
    try:
        process.stdin.write("x\n")
        process.stdin.flush()
    except OSError:
        return "gone"
    os.set_blocking(process.stdout.fileno(), False)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        line = process.stdout.readline()
        if line:
            return line.strip()
        if process.poll() is not None:
            return f"exited {process.returncode}"
        time.sleep(0.01)
    return f"no answer in {seconds} s"


idle = start("serve")
idle.stdout.readline()
before = ask(idle)
if how == "jailed":
    jail = [os.path.join(folder, "q4_jail"), "bind=" + os.environ["CUDA_MPS_PIPE_DIRECTORY"], "--", hello, "spin", "20"]
    victim = subprocess.Popen(jail, stdout=subprocess.PIPE, text=True)
else:
    victim = start("serve") if how == "idle" else start("spin", "20")
victim.stdout.readline()
if how != "idle":
    victim.stdout.readline()
time.sleep(0.3)
t0 = time.monotonic()
note = ""
target = victim.pid
if how == "jailed":
    server = control("get_server_list").split()[0]
    clients = control(f"get_client_list {server}").split()
    children = open(f"/proc/{victim.pid}/task/{victim.pid}/children").read().split()
    target = int(children[0])
    note = f" | clients as listed: {clients}, idle client {idle.pid}, victim from outside {target}"
    named = [c for c in clients if int(c) != idle.pid][0]
    note += f" | terminate_client {named}: '{control(f'terminate_client {server} {named}')}'"
if how == "terminate" and mps:
    server = control("get_server_list").split()[0]
    note = f" | terminate_client: '{control(f'terminate_client {server} {victim.pid}')}' in {time.monotonic() - t0:.2f} s"
os.kill(target, 9)
try:
    victim.wait(25)
    reaped = f"{time.monotonic() - t0:.2f} s"
except subprocess.TimeoutExpired:
    reaped = "not in 25 s"
tries, works = 0, None
while time.monotonic() - t0 < 8:
    tries += 1
    try:
        done = subprocess.run([hello, "once"], capture_output=True, text=True, timeout=12)
        if "works" in done.stdout:
            works = time.monotonic() - t0
            break
        last = done.stdout.strip()
    except subprocess.TimeoutExpired:
        last = "hangs 12 s"
    if tries == 1:
        note += f" | first try: {last}"
    time.sleep(0.1)
after = ask(idle)
if not works:  # the last client of the failed server: does its end make room?
    idle.kill()
    idle.wait(10)
    t1 = time.monotonic()
    while time.monotonic() - t1 < 20:
        done = subprocess.run([hello, "once"], capture_output=True, text=True, timeout=12)
        if "works" in done.stdout:
            note += f" | works {time.monotonic() - t1:.2f} s after the idle client's end"
            break
        time.sleep(0.05)
print(f"Q6 {'mps' if mps else 'sliced'} {how}: idle client before: {before} | victim reaped after {reaped} | new process "
      f"works after {f'{works:.2f} s' if works else 'not in 8 s'} ({tries} tries){note} | idle client after: {after}",
      flush=True)
idle.kill()
idle.wait(10)
