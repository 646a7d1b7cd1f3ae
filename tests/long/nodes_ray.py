"""Judges that recipes/cluster/judges/ray_judges.py starts in a Ray of its own, for nodes.py. Ray goes to an environment of
its own in the cache."""

import atexit
import os
import pathlib
import secrets
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

import environment
import serve

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "ray==2.60.0"
END_S = 300


class RayJudges:
    """`count` judges, as actors that ask for one core each."""

    def __init__(self, khost, url, count, folder, log):
        token = folder / "ray-token"
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        starter = ROOT / "recipes" / "cluster" / "judges" / "ray_judges.py"
        settings = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_TMPDIR": str(folder),
                    "RAY_USAGE_STATS_ENABLED": "0"}
        self.process = subprocess.Popen(
            [environment.python_with(PACKAGE), str(starter), url, "--count", str(count), "--gpus", "0", "--cpus", "1",
             "--khost", khost, "--", "--target", "cpu", "--jobs", "1"],
            stdout=log, stderr=log, env={**os.environ, **settings})
        atexit.register(self.process.terminate)  # where the test ends early

    def kill(self, rng):
        """Kills a judge that an actor started, the process below it that judges, or the actor; what it was. None where
        none runs just now."""
        found = [(pid, kind) for pid, name in serve.descendants(self.process.pid)
                 if (kind := {"khost": "machine of Ray", "ray::Judge": "actor"}.get(name)
                     or ("khost-judge of Ray" if name.startswith("khost-judge") else None))]
        if not found:
            return None
        pid, kind = rng.choice(found)
        os.kill(pid, signal.SIGKILL)
        return kind

    def end(self):
        """The exit code of the starter, which ends its judges."""
        self.process.terminate()
        return self.process.wait(END_S)
