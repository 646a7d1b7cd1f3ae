"""What model_new.py may not do while it is recorded, and where it did it: refusals with their line, imports."""

import ast
import builtins
import sys

from khost.candidate.candidate_policy import SOURCE_NAME, Refused
from khost.task.task_file import executed

# torch.nn.functional is allowed because nothing in it can be called without being refused with a better message.
# Python's own modules are those that constructors of published models import, and that reach no file and no process.
ALLOWED_IMPORTS = {"torch", "torch.nn", "torch.nn.functional", "math", "typing", "cuda_extension", "__future__", "functools",
                   "dataclasses", "collections", "itertools"}


def check_imports(source):
    for node in ast.walk(ast.parse(source, SOURCE_NAME)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "." * node.level]
        for name in names:
            if name not in ALLOWED_IMPORTS:
                raise Refused("violation/import", f"import of {name}; allowed are torch, torch.nn, math, typing, "
                                               "functools, dataclasses, collections, itertools, cuda_extension", node.lineno)


def guarded_import(name, *args, **kwargs):
    """For __import__ and importlib tricks of model_new.py itself; torch's own imports are not its business."""
    caller = sys._getframe(1).f_code.co_filename
    if caller == SOURCE_NAME and name not in ALLOWED_IMPORTS:
        raise Refused("violation/import", f"import of {name}")
    return builtins.__import__(name, *args, **kwargs)


def run_source(source, filename, guarded):
    given = {"__builtins__": {**vars(builtins), "__import__": guarded_import}} if guarded else None
    return executed(source, filename.removesuffix(".py"), filename, given)
