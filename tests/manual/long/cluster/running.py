"""A real `khost serve` for the tests of adapters: the CPU judge, two tasks, the tokenizer of a toy model."""

import array
import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[4]
CLUSTER = ROOT / "recipes" / "cluster"
TASKS = pathlib.Path(__file__).resolve().parent / "tasks"
TOKENIZER = "toy"

sys.path.insert(0, str(CLUSTER))


def khost(*words):
    """The command line of this checkout's khost."""
    return [str(ROOT / "khost"), *words]


def add_tokenizer_config(folder):
    """What `transformers` wants beside a tokenizer.json."""
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


class Running:
    """url, folder (of the toy model), run (the folder of the service's run)."""

    def __init__(self, process, lines, folder):
        self.process, self.folder, self.lines = process, folder, lines
        self.url = self.run = None

    def stored(self):
        """What the service has stored: a dictionary for each episode. Its other fields stand in `data`, as JSON."""
        with contextlib.closing(sqlite3.connect(f"file:{self.run}/run.sqlite?mode=ro", uri=True)) as store:
            store.row_factory = sqlite3.Row
            rows = [dict(row) for row in store.execute("SELECT * FROM trajectories ORDER BY id")]
        return [{**json.loads(row["data"] or "{}"), **row} for row in rows]

    def trajectory(self, number):
        """The stored episode of a number."""
        return next(row for row in self.stored() if row["id"] == number)


def numbers(kept, kind):
    """A list of the run's store: JSON, or numbers one after the other ("i": 4 bytes, "b": 1)."""
    if isinstance(kept, str):
        return json.loads(kept)
    values = array.array(kind)
    values.frombytes(kept)
    return list(values)


def _read(running, stream, ready):
    for line in stream:
        running.lines.append(line)
        if found := re.search(r"go to (\S+)", line):
            running.run = found[1]
        if found := re.search(r"khost serves (http://\S+)", line):
            running.url = found[1]
            ready.set()
    ready.set()


@contextlib.contextmanager
def service(*options):
    """A service that is stopped behind the block."""
    with tempfile.TemporaryDirectory(prefix="khost-cluster-") as name:
        folder = pathlib.Path(name)
        model = folder / "model"
        subprocess.run(khost("tests/manual/long/cluster/folder.lua", str(model)), cwd=ROOT, check=True)
        add_tokenizer_config(model)
        words = ["serve", "--suite", str(TASKS), "--tokenizer", f"{TOKENIZER}={model}", "--port", "0", "--drain", "5"]
        process = subprocess.Popen(
            khost(*words, "--set", f"machine.runs={folder}/runs", *options),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running, ready = Running(process, [], model), threading.Event()
        threading.Thread(target=_read, args=(running, process.stdout, ready), daemon=True).start()
        try:
            ready.wait(300)
            if not running.url:
                raise RuntimeError("khost serve did not start:\n" + "".join(running.lines[-20:]))
            yield running
        except BaseException:
            sys.stderr.write("".join(running.lines[-40:]))
            raise
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def kill_judges(running):
    """Ends every judge below the service, as a machine that fails does."""
    count = 0
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
            name, parent = stat[stat.index("(") + 1 : stat.rindex(")")], int(stat[stat.rindex(")") + 2 :].split()[1])
            if name == "khost-judge" and parent == running.process.pid:
                os.kill(int(entry), 9)
                count += 1
    return count
