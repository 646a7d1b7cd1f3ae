"""Finds layers in an installed `transformers` that stand alone: classes over nn.Module that need nothing but torch, a
few helpers of their own file and plain numbers of a configuration. The package is read, not imported: classes by AST, the
numbers from the defaults of the configuration beside them. Each becomes one task file of its own, which is then run."""

import ast
import builtins
import hashlib
import importlib.util
import os

import torch

from khost.crawl.crawl import behaviour, record
from khost.task.task_file import Task, call

KNOWN = {"torch", "nn", "F", "math", "Optional", "Union", "Tuple", "List", "Callable", "Any", "ACT2FN", "Tensor"} | \
    set(dir(builtins))
HEAD = """import math
from types import SimpleNamespace
from typing import Any, Callable, List, Optional, Tuple, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
"""
ACTIVATIONS = """
ACT2FN = {"gelu": nn.GELU(), "gelu_new": nn.GELU(approximate="tanh"), "gelu_pytorch_tanh": nn.GELU(approximate="tanh"),
          "gelu_fast": nn.GELU(approximate="tanh"), "relu": nn.ReLU(), "silu": nn.SiLU(), "swish": nn.SiLU(),
          "tanh": nn.Tanh(), "sigmoid": nn.Sigmoid(), "quick_gelu": nn.SiLU()}
"""
# Arguments that are no configuration.
GIVEN = {"hidden_size": 512, "dim": 512, "embed_dim": 512, "normalized_shape": 512, "eps": 1e-6, "dims": 512,
         "hidden_dim": 512, "num_channels": 64, "in_features": 512, "out_features": 512, "intermediate_size": 1024,
         "num_heads": 8, "channels": 64, "d_model": 512, "in_dim": 512, "out_dim": 512, "mlp_dim": 1024}
WIDTHS = ("hidden_size", "d_model", "embed_dim", "dim", "normalized_shape", "n_embd", "in_features", "in_dim", "dims",
          "hidden_dim")
INPUTS = ("x", "hidden_states", "hidden_state", "input", "inputs", "features", "input_tensor", "inputs_embeds")
MOST_LINES = 120
MOST_WIDTH = 1024  # wider ones are narrowed; heads and groups divide it too


def free_names(node):
    """Names that a definition reads from its module. Attributes of other names are not among them."""
    bound, read = set(), set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            (bound if isinstance(part.ctx, (ast.Store, ast.Del)) else read).add(part.id)
        elif isinstance(part, ast.arg):
            bound.add(part.arg)
        elif isinstance(part, (ast.FunctionDef, ast.ClassDef)):
            bound.add(part.name)
    return read - bound


def without_annotations(node):
    """Annotations name classes of the package and say nothing to a task; decorators register what is not there."""
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            part.annotation = None
        elif isinstance(part, ast.FunctionDef):
            part.returns, part.decorator_list = None, []
        elif isinstance(part, ast.ClassDef):
            part.decorator_list = []
    return node


def definitions(tree):
    return {node.name: without_annotations(node) for node in tree.body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def is_module(node):
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base) in ("nn.Module", "torch.nn.Module")
                                                  for base in node.bases)


def closure(name, known):
    """Definitions that a class needs, dependencies first; a reason when it needs what a task file cannot have."""
    order, stack = [], [name]
    while stack:
        current = stack.pop()
        if current in order:
            order.remove(current)
        order.append(current)
        for needed in sorted(free_names(known[current])):
            if needed in known:
                if needed != current and len(order) < 20:
                    stack.append(needed)
            elif needed not in KNOWN:
                return None, "needs_" + needed
    return [known[n] for n in reversed(order)], None


def method(node, name):
    return next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == name), None)


def required_arguments(function):
    if function is None:
        return []
    names = [a.arg for a in function.args.args][1:]
    count = len(names) - len(function.args.defaults)
    return names[:count] + [a.arg for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults) if d is None]


def configuration_defaults(folder):
    """Plain values of constructor arguments and class attributes in configuration files."""
    values = {}
    for name in sorted(os.listdir(folder)):
        if not (name.startswith("configuration_") and name.endswith(".py")):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                arguments = node.args.args[len(node.args.args) - len(node.args.defaults):]
                for argument, default in zip(arguments, node.args.defaults):
                    if isinstance(default, ast.Constant) and default.value is not None:
                        values.setdefault(argument.arg, default.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and \
                    isinstance(node.value, ast.Constant) and node.value.value is not None:
                values.setdefault(node.target.id, node.value.value)
    return values


def configuration_of(nodes, defaults):
    """Values for `config.NAME` as the definitions read them; a reason when one has no plain default."""
    wanted = {part.attr for node in nodes for part in ast.walk(node)
              if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "config"}
    values = {}
    for name in sorted(wanted):
        if name not in defaults:
            return None, "config_" + name
        value = defaults[name]
        if isinstance(value, int) and not isinstance(value, bool) and value > MOST_WIDTH:
            value = MOST_WIDTH
        values[name] = value
    return values, None


def task_of(nodes, defaults):
    """(source, width of the input) or (None, reason)."""
    target = nodes[-1]
    if sum(n.end_lineno - n.lineno for n in nodes) > MOST_LINES:
        return None, "long"
    inputs = required_arguments(method(target, "forward"))
    if len(inputs) != 1 or inputs[0] not in INPUTS:
        return None, "forward_takes_" + "_".join(inputs or ["nothing"])
    arguments, width = [], None
    for name in required_arguments(method(target, "__init__")):
        if name == "config":
            values, reason = configuration_of(nodes, defaults)
            if reason:
                return None, reason
            arguments.append(f"SimpleNamespace(**{values!r})")
            width = width or next((values[w] for w in WIDTHS if w in values), None)
        elif name in GIVEN:
            arguments.append(repr(GIVEN[name]))
            width = width or (GIVEN[name] if name in WIDTHS else None)
        else:
            return None, "argument_" + name
    parts = [HEAD]
    if any("ACT2FN" in free_names(n) for n in nodes):
        parts.append(ACTIVATIONS)
    parts += ["\n\n" + ast.unparse(node) + "\n" for node in nodes[:-1]]
    parts.append("\n\n" + ast.unparse(target) + "\n")
    parts.append(f"\n\nModel = {target.name}\n\n\ndef get_inputs():\n    return [torch.randn(8, 128, {width or 512})]\n"
                 f"\n\ndef get_init_inputs():\n    return [{', '.join(arguments)}]\n")
    return "".join(parts), width or 512


def measured_task(source, width):
    """The case of a task's layer, or a reason. A narrower sequence than the task's is enough to see what it does."""
    try:
        task = Task(source)
        model = task.model(1, live=True)
    except Exception as error:
        return f"does_not_build_{type(error).__name__}"
    return behaviour(lambda x: call(model, [x]), [2, 8, width])


def find(root=None, part=(0, 1)):
    """Every part[1]-th family, beginning with the part[0]-th."""
    if root is None:
        spec = importlib.util.find_spec("transformers")
        if spec is None:
            return {"operators": [], "skipped": {"transformers": "not_installed"}, "torch": torch.__version__}
        root = list(spec.submodule_search_locations)[0]
    found, skipped, seen = [], {}, {}
    models = os.path.join(root, "models")
    for place, family in enumerate(sorted(os.listdir(models))):
        if place % part[1] != part[0]:
            continue
        folder = os.path.join(models, family)
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        defaults = configuration_defaults(folder) if files else {}
        for name in files:
            if name.startswith("modeling_") and name.endswith(".py"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    look_at(f"{family}.", ast.parse(file.read()), defaults, found, skipped, seen)
        for entry in found:
            entry.setdefault("place", place)
    return {"operators": found, "skipped": skipped, "torch": torch.__version__}


def look_at(prefix, tree, defaults, found, skipped, seen):
    known = definitions(tree)
    for name, node in known.items():
        if not is_module(node):
            continue
        label = prefix + name
        nodes, reason = closure(name, known)
        source, width = task_of(nodes, defaults) if nodes else (None, reason)
        if source is None:
            skipped[label] = width if nodes else reason
            continue
        shape = ast.unparse(nodes[-1]).replace(name, "Layer")
        if shape in seen:
            skipped[label] = "same_as_" + seen[shape]
            continue
        seen[shape] = label
        case = measured_task(source, width)
        if isinstance(case, str):
            skipped[label] = case
            continue
        entry = record("transformers." + label, "module", "transformers", {}, [{**case, "legal": {}}], source)
        found.append({**entry, "task": source, "call": "", "same": hashlib.sha256(shape.encode()).hexdigest()})
