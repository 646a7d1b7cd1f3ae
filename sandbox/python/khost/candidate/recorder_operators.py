"""Torch operators as steps of a plan, for the rule set `mixed` (recorder.py): what the dispatcher is asked for on meta
tensors is written down, and mixed_player.py asks for it again on the judge's memory.

    {"before": 2,                        how many launches precede it
     "name": "aten::convolution", "overload": "default",
     "arguments": [value], "keywords": {name: value},
     "results": [null or {"tensor": node, "bytes": of its storage}]}

A value is a number, a text, a truth value or null as it stands, a list of values, or an object with one key: "tensor" (a
node: slot, index, dtype, size, stride, offset), "float" (inf, -inf, nan), "dtype", "layout", "memory_format", "device".
A result of null is one that no later step looks at, or a tensor that was there before."""

import math

import torch

from khost.candidate.candidate_policy import OPERATORS

aten = torch.ops.aten
MOST_OPERATORS = 4096
# These change which memory a tensor has, which a plan fixes, or read files of the process that plays them.
UNPLAYABLE = {"set_", "resize_", "resize_as_", "from_file", "record_stream", "_pin_memory", "pin_memory"}


class Operators:
    def __init__(self, recorder, counts_only=False):
        """`counts_only`: of the reference, whose operators are counted and never played."""
        self.recorder, self.counts_only = recorder, counts_only
        self.steps = []
        self.values = []  # entries of memory that an operator made

    def run(self, func, args, kwargs):
        """Runs the operator on meta tensors and writes it down."""
        name = func._schema.name.split("::")[-1]
        if self.counts_only:
            self.steps.append({"name": func._schema.name})
            return func(*args, **{**kwargs, "device": torch.device("meta")} if "device" in kwargs else kwargs)
        if func.namespace != "aten" or name in UNPLAYABLE:
            self.recorder.refuse("violation/torch_compute", f"torch operator {func._schema.name} has no place in a plan")
        if len(self.steps) >= MOST_OPERATORS:
            self.recorder.refuse("bad_call", f"more than {MOST_OPERATORS} torch operators in one forward")
        if "device" in kwargs:
            kwargs["device"] = torch.device("meta")
        step = {"before": len(self.recorder.launches), "name": func._schema.name, "overload": func._overloadname}
        written = self.check_arguments(func, args, kwargs)
        step["arguments"] = [self.value(one) for one in args]
        step["keywords"] = {key: self.value(one) for key, one in kwargs.items()}
        result = func(*args, **kwargs)
        for entry in written:
            entry["written"] = True
        step["results"] = [self.result(one) for one in flat(result)]
        self.steps.append(step)
        return result

    def check_arguments(self, func, args, kwargs):
        """The entries that the operator writes to. Refuses one that reads what nobody wrote, or that changes an input."""
        written = []
        given = list(zip(func._schema.arguments, args)) + [
            (argument, kwargs[argument.name]) for argument in func._schema.arguments if argument.name in kwargs]
        for argument, value in given:
            writes = argument.alias_info is not None and argument.alias_info.is_write
            for tensor in flat(value):
                if not isinstance(tensor, torch.Tensor):
                    continue
                entry = self.recorder.memory.of(tensor)
                place = f"{argument.name} of torch operator {func._schema.name.split('::')[-1]}"
                if entry is None or not (writes or entry["written"]):
                    self.recorder.refuse("violation/torch_compute", f"{place} reads memory that nobody wrote in forward: "
                                         "only inputs, the entries of the state dict and what was computed hold values")
                if writes and entry["slot"] in ("input", "state"):
                    self.recorder.refuse("bad_call", f"{place} would write into an input or a weight")
                if writes:
                    written.append(entry)
        return written

    def node(self, tensor, entry):
        return {"slot": entry, "dtype": str(tensor.dtype).removeprefix("torch."), "size": list(tensor.shape),
                "stride": list(tensor.stride()), "offset": tensor.storage_offset()}

    def value(self, value):
        if isinstance(value, torch.Tensor):
            entry = self.recorder.memory.of(value)
            entry["used"] = True
            return {"tensor": self.node(value, entry)}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (tuple, list)):
            return [self.value(one) for one in value]
        for kind, word in ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format")):
            if isinstance(value, kind):
                return {word: str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"device": "cpu"}
        self.recorder.refuse("bad_call", f"a torch operator is given a {type(value).__name__}, which a plan cannot hold")

    def result(self, value):
        if not isinstance(value, torch.Tensor) or self.recorder.memory.of(value) is not None:
            return None
        entry = self.recorder.memory.add(value.untyped_storage(), "value", None, written=True)
        self.values.append(entry)
        return {"tensor": self.node(value, entry), "bytes": entry["bytes"]}


def computes(step):
    """Whether the operator counts: creating and moving do not (candidate_policy.py)."""
    return step["name"].split("::")[-1] not in OPERATORS


def flat(value):
    """The leaves of what an operator is given or gives, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def numbered(operators):
    """Numbers the storages that operators make and that did not become outputs; their bytes."""
    values = []
    for entry in operators.values:
        if entry["slot"] == "value":
            entry["index"] = len(values)
            values.append(entry["bytes"])
    return values


def resolved_steps(operators):
    """The steps with slots and indices in the place of entries, once all are numbered."""
    def resolved(value):
        if isinstance(value, list):
            return [resolved(one) for one in value]
        if isinstance(value, dict) and "tensor" in value:
            node = value["tensor"]
            place = {**node, "slot": node["slot"]["slot"], "index": node["slot"]["index"]}
            return {**value, "tensor": place}
        return value

    for step in operators.steps:
        step["arguments"] = resolved(step["arguments"])
        step["keywords"] = {key: resolved(value) for key, value in step["keywords"].items()}
        step["results"] = [resolved(one) if one and is_used(one) else None for one in step["results"]]
    return operators.steps


def is_used(result):
    entry = result["tensor"]["slot"]
    return bool(entry.get("used")) or entry["slot"] == "output"


def compiles(recorder):
    """The compilers of torch refuse: what they make is no step of a plan, and it would be torch's work under another
    name."""
    def refused(*args, **kwargs):
        recorder.refuse("violation/forbidden", "torch.compile and torch.jit are not for candidates")

    torch.compile = torch.jit.script = torch.jit.trace = torch.compiler.compile = refused
