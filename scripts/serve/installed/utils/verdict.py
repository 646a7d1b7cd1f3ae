"""python3 -m utils.verdict: the verdict that counts on the kernels of this workspace, as JSON."""

import json
import pathlib
import sys

from utils.request import files_of, post

if __name__ == "__main__":
    try:
        task = {"source": pathlib.Path("model.py").read_text()}
        answer = post("/v1/verdict", {"task": task, "files": files_of(".")})
    except (OSError, RuntimeError) as error:
        print(f"verdict: {error}", file=sys.stderr)
        sys.exit(1)
    print(json.dumps(answer["verdict"], indent=2))
    print("reward:", answer["reward"], answer.get("reason") or "")
    sys.exit(0 if answer["verdict"]["correct"] else 1)
