"""The graph of a task as plain data: what its Model computes, operator by operator, with shapes."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.func import functional_call

from khost.task.task_file import Task

# ATen's internal names, where PyTorch's public one is another.
PUBLIC = {"_softmax": "softmax", "_log_softmax": "log_softmax", "native_layer_norm": "layer_norm", "_to_copy": "to",
          "t": "transpose", "mm": "matmul", "addmm": "addmm"}
VIEWS = {"view", "_unsafe_view", "detach", "alias"}


def short_name(target):
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", str(target))
    name = target._schema.name.split("::")[-1]
    return PUBLIC.get(name, name)


def attributes_of(node):
    """Arguments by the schema's names, for those that are neither tensors nor defaults."""
    values = {}
    if isinstance(node.target, torch._ops.OpOverload):
        for argument, value in zip(node.target._schema.arguments, node.args):
            if isinstance(value, (bool, int, float, list, tuple)) and argument.name not in ("self", "other"):
                values[argument.name] = list(value) if isinstance(value, (list, tuple)) else value
    values.update({key: value for key, value in node.kwargs.items() if isinstance(value, (bool, int, float, str))})
    return values


def tensor_facts(value):
    if isinstance(value, (tuple, list)):
        value = value[0]
    return {"size": list(value.shape), "dtype": str(value.dtype)[6:]}


def line_of(node):
    parts = [str(i) for i in node["inputs"]]
    parts += [f"{key}={value}" for key, value in node["attributes"].items()]
    return f"{node['name']} = {node['op']}({', '.join(parts)})"


def trace(source):
    """{"inputs": facts, "nodes", "output": names, "text"} of a task's source."""
    task = Task(source)
    model = task.model(0)
    return graph_of(model, *positional(task, task.inputs(0)))


def positional(task, values):
    """Inputs and their names, in order."""
    if not isinstance(values, dict):
        return list(values), task.names(values)
    names = [name for name in task.names() if name in values]
    return [values[name] for name in names], names


def graph_of(model, inputs, names):
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state_names = list(state)

    def run(*values):
        tensors = dict(zip(state_names, values[len(inputs):]))
        return functional_call(model, tensors, values[:len(inputs)])

    with torch.no_grad():
        graph = make_fx(run)(*inputs, *[state[n].detach() for n in state_names])
    all_names = [n for n, v in zip(names, inputs)] + state_names
    known, nodes, facts = {}, [], []
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    for node, name, value in zip(placeholders, all_names, [*inputs, *[state[n] for n in state_names]]):
        known[node] = name.replace(".", "_")
        if isinstance(value, torch.Tensor):
            kind = "input" if len(facts) < len(inputs) else "state"
            facts.append({"name": known[node], "kind": kind, **tensor_facts(value)})
    output = None
    for node in graph.graph.nodes:
        if node.op == "call_function":
            meta = node.meta.get("val", node.meta.get("tensor_meta"))
            op = short_name(node.target)
            if op == "getitem" or (op in VIEWS and node.args[0].meta.get("val") is not None and
                                   meta is not None and node.args[0].meta["val"].shape == meta.shape):
                known[node] = known[node.args[0]]
                continue
            known[node] = f"t{len(nodes) + 1}"
            arguments = []
            for value in node.args:
                if isinstance(value, torch.fx.Node):
                    arguments.append(known[value])
                elif isinstance(value, (int, float, bool)) and isinstance(node.target, torch._ops.OpOverload) and \
                        node.target._schema.arguments[len(arguments)].name in ("self", "other", "exponent"):
                    arguments.append(value)
            nodes.append({"name": known[node], "op": op, "inputs": arguments,
                          "attributes": attributes_of(node), **tensor_facts(meta)})
        elif node.op == "output":
            value = node.args[0]
            values = value if isinstance(value, (tuple, list)) else [value]
            output = [known[v] for v in values if isinstance(v, torch.fx.Node)]
    return {"inputs": facts, "nodes": nodes, "output": output, "text": "\n".join(line_of(n) for n in nodes)}
