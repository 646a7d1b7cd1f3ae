"""Asks the host for a verification, a measurement or a sweep: a request file in .khost/, and a wait for its response."""

import json
import os
import re
import sys
import time

FOLDER = ".khost"
WAIT_S = 600


def ask(kind, folder=FOLDER, wait_s=WAIT_S, **fields):
    """The host's text, and whether all is well. TimeoutError when it does not answer."""
    os.makedirs(folder, exist_ok=True)
    numbers = [int(match[1]) for match in map(re.compile(r"re\w+-(\d+)\.json$").match, os.listdir(folder)) if match]
    number = max(numbers, default=0) + 1
    request = os.path.join(folder, f"request-{number}.json")
    response = os.path.join(folder, f"response-{number}.json")
    with open(request + ".new", "w") as file:
        json.dump({"kind": kind, **fields}, file)
    os.rename(request + ".new", request)  # the host never sees half a request
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        try:
            with open(response) as file:
                answer = json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.05)
            continue
        return answer["text"], answer.get("ok", True)
    raise TimeoutError(f"no answer within {wait_s:.0f} s")


def main(kind, **fields):
    try:
        text, good = ask(kind, **fields)
    except TimeoutError as error:
        print(f"{kind}: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0 if good else 1
