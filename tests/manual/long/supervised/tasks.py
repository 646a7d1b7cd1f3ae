#!/usr/bin/env python3
"""Makes the tasks of a supervised start, disjoint from those that are trained on afterwards and those held out.

    tasks.py OUT.json

given.json, beside this file, has the tasks to train on and those held out, and the fixed prompt's rules and worked
examples. OUT.json has "supervised", "train" and "held": lists of {id, family, source, combination, graph}. A task's combination is the sorted list of its
operators, with what each takes beside the first tensor ([v] a vector of the last dimension, [t] another tensor, [k] a
number). No combination of a held-out task is in another list, none of a supervised task in the training list, and the
operators UNSEEN are in no supervised task.
"""
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../sandbox/python"))
from khost.task.trace_graph import trace

UNSEEN = {"gelu", "hardswish", "softplus", "mish", "log_softmax"}
SIZES = [(1024, 2048), (2048, 1024), (512, 4096)]

UNARY = ["torch.relu({})", "torch.sigmoid({})", "torch.tanh({})", "F.elu({}, 0.7)", "F.leaky_relu({}, 0.05)",
         "torch.clamp({}, -1.5, 0.75)", "torch.abs({})", "-({})", "torch.sin({})", "torch.cos({})",
         "torch.exp(-torch.abs({}))", "torch.sqrt(torch.abs({}) + 2.0)", "torch.log(torch.abs({}) + 1.5)",
         "F.hardsigmoid({})", "F.hardtanh({})", "F.softsign({})", "({}) * 1.5", "({}) - 0.25", "({}) ** 3"]
PAIRS = ["a + b", "a - b", "a * b", "torch.maximum(a, b)", "torch.minimum(a, b)", "a / (torch.abs(b) + 1.0)",
         "a * torch.tanh(b)", "a - torch.relu(b)", "a + 0.5 * b"]
VECTORS = [("shift", "x + self.shift"), ("offset", "x - self.offset"), ("gain", "x * self.gain"),
           ("weight", "torch.tanh(x) * self.weight"), ("bias", "torch.sigmoid(x) + self.bias"),
           ("bias", "torch.abs(x) + self.bias"), ("scale", "x * self.scale + x")]
REDUCED = ["{}.sum(dim=1)", "{}.mean(dim=1)", "{}.max(dim=1).values", "{}.min(dim=1).values", "{}.amax(dim=1) * 2.0",
           "torch.sqrt(({} ** 2).sum(dim=1) + 1.0)"]
ROWS = ["{x} - {x}.min(dim=1, keepdim=True).values", "{x} * {x}.sum(dim=1, keepdim=True)",
        "{x} / ({x}.abs().mean(dim=1, keepdim=True) + 1.0)", "{x} - 0.5 * {x}.max(dim=1, keepdim=True).values",
        "torch.softmax({x}, dim=1)", "torch.softmax({x}, dim=1) * 3.0", "F.layer_norm({x}, ({cols},))",
        "{x} / torch.sqrt(({x} * {x}).mean(dim=1, keepdim=True) + 1e-5)", "{x} / ({x}.norm(dim=1, keepdim=True) + 1.0)",
        "({x} - {x}.mean(dim=1, keepdim=True)) * {x}"]
INNER = ["torch.relu(x)", "torch.sigmoid(x)", "torch.tanh(x)", "torch.abs(x)", "torch.sin(x)", "(x * 0.5)", "(x + 1.0)",
         "(x * self.gain)", "(x + self.bias)", "F.leaky_relu(x, 0.3)", "torch.cos(x)"]


def source(forward, size, parameters=(), inputs=("x",)):
    lines = "".join(f"        self.{name} = nn.Parameter(torch.randn(width))\n" for name in parameters)
    lines = lines or "        pass\n"
    drawn = ", ".join(f"torch.randn({size[0]}, {size[1]})" for _ in inputs)
    return ("import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n"
            f"    def __init__(self{', width' if parameters else ''}):\n        super().__init__()\n{lines}\n"
            f"    def forward(self, {', '.join(inputs)}):\n        return {forward}\n\n\ndef get_inputs():\n"
            f"    return [{drawn}]\n\n\ndef get_init_inputs():\n    return [{size[1] if parameters else ''}]\n")


def combination(graph):
    vectors = {i["name"] for i in graph["inputs"] if i["kind"] == "state"}
    names = []
    for node in graph["nodes"]:
        second = node["inputs"][1] if len(node["inputs"]) > 1 else None
        kind = "" if second is None else "[v]" if second in vectors else "[t]" if isinstance(second, str) else "[k]"
        names.append(node["op"] + kind)
    return " ".join(sorted(names))


def draw(family, stream):
    size = stream.choice(SIZES)
    if family == "chain":
        forward = "x"
        for unary in stream.sample(UNARY, stream.choice([1, 2, 2, 3])):
            forward = unary.format(forward)
        return source(forward, size)
    if family == "pair":
        forward = stream.choice(PAIRS)
        if stream.random() < 0.7:
            forward = stream.choice(UNARY).format(forward)
        return source(forward, size, inputs=("a", "b"))
    if family == "vector":
        name, forward = stream.choice(VECTORS)
        if stream.random() < 0.7:
            forward = stream.choice(UNARY).format(forward)
        return source(forward, size, parameters=(name,))
    inner = stream.choice(INNER)
    parameters = [name for name in ("gain", "bias") if "self." + name in inner]
    if family == "reduce":
        return source(stream.choice(REDUCED).format(inner), size, parameters)
    if stream.random() < 0.4:
        inner, parameters = "x", []
    forward = stream.choice(ROWS).format(x=inner, cols=size[1])
    if inner == "x" or stream.random() < 0.2:
        forward = stream.choice(UNARY).format(forward)
    return source(forward, size, parameters)


def facts(name, family, text):
    graph = trace(text)
    return {"id": name, "family": family, "source": text, "combination": combination(graph), "graph": graph}


def supervised(counts, taken, stream):
    made = []
    for family, count in counts.items():
        found = 0
        while found < count:
            task = facts(f"{family}{found + 1}", family, draw(family, stream))
            operators = {node["op"] for node in task["graph"]["nodes"]}
            if task["combination"] in taken or operators & UNSEEN:
                continue
            taken.add(task["combination"])
            made.append(task)
            found += 1
    return made


def given_source(entry, size=(2048, 4096)):
    return source(entry["forward"], entry.get("size", size), entry.get("parameters", ()), entry.get("inputs", ("x",)))


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "given.json")) as file:
        given = json.load(file)
    held = [facts(t["id"], "held", given_source(t)) for t in given["held"]]
    taken, train = {t["combination"] for t in held}, []
    for t in given["train"]:
        task = facts("train_" + t["id"], "train", given_source(t))
        if task["combination"] not in taken:
            train.append(task)
    taken |= {t["combination"] for t in train}
    made = supervised({"chain": 24, "pair": 12, "vector": 16, "reduce": 10, "rows": 22}, taken, random.Random(21))
    operators = {node["op"] for t in made + train for node in t["graph"]["nodes"]}
    for task in held:
        task["unseen"] = sorted({node["op"] for node in task["graph"]["nodes"]} - operators)
    examples = []
    for entry in given["examples"]:
        examples.append({"role": "user", "text": "Model:\n```python\n" + given_source(entry) + "```"})
        examples.append({"role": "assistant", "text": entry["answer"]})
    with open(sys.argv[1], "w") as file:
        json.dump({"system": given["system"], "examples": examples, "supervised": made, "train": train, "held": held},
                  file)
    print(f"{len(made)} supervised, {len(train)} to train on, {len(held)} held out;",
          f"with an operator that is in neither of the first two: {sum(bool(t['unseen']) for t in held)}")


if __name__ == "__main__":
    main()
