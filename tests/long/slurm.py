#!/usr/bin/env python3
"""A real Slurm of one node, whose job starts a judge by recipes/cluster/judges/slurm.sh; a verdict comes through it.

    KHOST_ROOT=. KHOST_PYTHON=... tests/long/slurm.py build/khost

Needs slurmctld, slurmd, srun, sbatch and munged (`apt-get install slurmd slurmctld slurm-client munge`) and root. All that it
configures lies in a temporary folder, and its daemons end with it. Exits with 1 where something does not hold."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import nodes
import serve

PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo", "scancel"]
STARTER = pathlib.Path(__file__).resolve().parents[2] / "recipes" / "cluster" / "judges" / "slurm.sh"
CONFIGURATION = """ClusterName=khost
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={controller}
SlurmdPort={node}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
KillWait=60
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    """Ports that nobody listens to now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm:
    """The daemons, as children of this process."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        controller, node = free_ports(2)
        configuration = folder / "slurm.conf"
        host = socket.gethostname().split(".")[0]
        configuration.write_text(CONFIGURATION.format(host=host, folder=folder, controller=controller, node=node,
                                                      cores=os.cpu_count()))
        self.environment = {**os.environ, "SLURM_CONF": str(configuration)}
        self.start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}",
                   f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed")
        nodes.until((folder / "munge.socket").exists, 20, "munged does not listen")
        self.start("slurmctld", "-D", "-f", str(configuration))
        self.start("slurmd", "-D", "-f", str(configuration))
        nodes.until(self.is_idle, 60, f"the node is not idle; see {folder}")

    def start(self, *words):
        with open(self.folder / f"{words[0]}.out", "w") as out:
            self.processes.append(subprocess.Popen(words, stdout=out, stderr=out, env=self.environment))

    def is_idle(self):
        return self.ask("sinfo", "--noheader", "--format=%T") == "idle"

    def ask(self, *words):
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False).stdout.strip()

    def logs(self):
        return "\n".join(f"{path.name}:\n{path.read_text()[-1500:]}" for path in sorted(self.folder.glob("*.log")))

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def check(khost, slurm, folder):
    """What does not hold."""
    tokens = [f"{0:032x}"]
    service = serve.Service(khost, folder, tokens, ["--front", "127.0.0.1:0"])
    try:
        url = f"http://127.0.0.1:{nodes.port_of_front(service)}"
        out = folder / "job.out"
        job = slurm.ask("sbatch", "--parsable", "--ntasks=1", "--gpus-per-task=0", "--cpus-per-task=1", f"--output={out}",
                        f"--chdir={os.getcwd()}", f"--export=ALL,KHOST={pathlib.Path(khost).resolve()}", str(STARTER), url,
                        "--target", "cpu", "--jobs", "1")
        if not job.isdigit():
            return [f"sbatch took no job: {job}\n{slurm.logs()}"]
        nodes.until(lambda: len(nodes.state_of(int(url.rsplit(":", 1)[1]))["nodes"]) == 1, 120,
                    f"the judge of job {job} does not register: {out.read_text() if out.exists() else slurm.logs()}")
        client = nodes.Client(0, service, tokens[0], time.monotonic() + 1, {})
        client.run()  # until its first second is over: one verdict at least
        print(f"job {job}: {len(client.latencies)} verdicts through Slurm's judge, answers by status {dict(client.statuses)}")
        faults = list(client.faults) + ([] if client.latencies else ["no verdict"])
        slurm.ask("scancel", "--signal=TERM", job)
        nodes.until(lambda: not slurm.ask("squeue", "--noheader", "--jobs", job), 90, f"job {job} does not end")
        said = out.read_text()
        print(said.strip())
        if "jobs done" not in said:
            faults.append("the judge did not end by itself at SIGTERM")
        return faults
    finally:
        service.process.send_signal(signal.SIGTERM)
        service.process.wait(60)


def main():
    """Exit code."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing or os.geteuid() != 0 or len(sys.argv) != 2:
        sys.exit(f"slurm.py KHOST, by root; not installed: {', '.join(missing) or 'nothing'} "
                 "(apt-get install slurmd slurmctld slurm-client munge)")
    with tempfile.TemporaryDirectory(prefix="khost-slurm-") as name:
        folder = pathlib.Path(name)
        slurm = Slurm(folder)
        try:
            faults = check(sys.argv[1], slurm, folder)
        finally:
            slurm.end()
    for fault in faults:
        print("FAULT", fault)
    print("all hold" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
