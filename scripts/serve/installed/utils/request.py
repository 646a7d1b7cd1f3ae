"""Asks a khost service about the workspace in the current folder. KHOST_URL names the service, KHOST_TOKEN_FILE a file
with the token."""

import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request

URL = "http://127.0.0.1:8420"
WAIT_S = 600
ENDINGS = {".cpp", ".cu", ".h", ".cuh"}


def files_of(folder):
    """What a candidate is made of: path to text."""
    root = pathlib.Path(folder)
    paths = sorted(p for p in (root / "kernels").rglob("*") if p.is_file() and p.suffix in ENDINGS)
    if (root / "model_new.py").is_file():
        paths.append(root / "model_new.py")
    return {str(p.relative_to(root)): p.read_text() for p in paths}


def headers():
    fields = {"Content-Type": "application/json"}
    if path := os.environ.get("KHOST_TOKEN_FILE"):
        fields["Authorization"] = "Bearer " + pathlib.Path(path).read_text().strip()
    return fields


def post(route, body, wait_s=WAIT_S):
    """The service's answer. Where it is busy, or its judge was lost, it is asked again when it says so."""
    url = os.environ.get("KHOST_URL", URL).rstrip("/") + route
    end = time.monotonic() + wait_s
    while True:
        request = urllib.request.Request(url, json.dumps(body).encode(), headers())
        try:
            with urllib.request.urlopen(request, timeout=max(1, end - time.monotonic())) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            pause = float(error.headers.get("Retry-After") or 1)
            if error.code not in (429, 503) or time.monotonic() + pause > end:
                raise RuntimeError(f"{url}: {error.code} {message_of(text)}") from error
            time.sleep(pause)
        except OSError as error:
            raise RuntimeError(f"{url}: {error}; is `khost serve` running there?") from error


def message_of(text):
    try:
        return json.loads(text)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return text[:200]


def ask(kind, folder=".", wait_s=WAIT_S, **fields):
    """The service's text, and whether all is well."""
    task = {"source": pathlib.Path(folder, "model.py").read_text()}
    answer = post("/v1/feedback", {"kind": kind, "task": task, "files": files_of(folder), **fields}, wait_s)
    return answer["text"], answer.get("ok", True)


def main(kind, **fields):
    try:
        text, good = ask(kind, **fields)
    except (OSError, RuntimeError) as error:
        print(f"{kind}: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0 if good else 1
