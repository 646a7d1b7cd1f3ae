"""The health of a task by measurement, in stages: structure (no memory), run, compile. Each stage is a request of its
own to one child, so that what was found stays when a later stage hangs or is killed."""

import copy
import hashlib
import math
import os
import resource
import sys
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import check_nulls
import check_structure
from manifest import leaves
from reference import Task, call, finite

TIMED_CALLS = 5
TIMED_SECONDS = 2.0    # further calls are left out when this is used up
SMALL = 1e-2           # outputs below it pass the paper's absolute tolerance whatever they are
SAME = 1e-4            # a module or operator that changes its input by less does nothing
PASSIVE = {"view", "_unsafe_view", "detach", "alias", "clone", "contiguous", "expand", "_to_copy", "copy_", "empty_like",
           "lift_fresh", "t", "transpose", "permute", "reshape", "unsqueeze", "squeeze", "slice", "select", "fill_"}


def limit_child(memory_bytes, processes):
    """What a task of a broken suite may cost: memory beyond what is mapped now, and no further process or thread."""
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes, mapped + memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    if not processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        sys.addaudithook(forbid)


# What no task needs: with it a task would reach its neighbours in the jail. Native code is not stopped by this; it is
# there so that such a task is named, and others are asked again when their process was taken from them.
FORBIDDEN = {"os.kill", "os.killpg", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system",
             "subprocess.Popen", "socket.connect", "socket.bind"}


def forbid(event, arguments):
    if event in FORBIDDEN:
        raise PermissionError(f"a task may not call {event}")


def is_the_task_s_own(name):
    """Whether an operator stands in the task itself. What a library module is made of is that module's business
    (idle_modules looks at the whole), and a function of torch.nn.functional counts when it is one operator."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != "model.py":
        path = frame.f_code.co_filename
        if "torch/nn/modules/" in path and not path.endswith(("module.py", "container.py")):
            return False
        if path.endswith("torch/nn/functional.py") and frame.f_code.co_name != name:
            return False
        frame = frame.f_back
    return frame is not None


class NoOps(TorchDispatchMode):
    """Operators whose result is their first operand: a clamp that never clamps, a second mean over one element."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.__name__.split(".")[0]
        first = args[0] if args else None
        if name not in PASSIVE and isinstance(result, torch.Tensor) and isinstance(first, torch.Tensor) and \
                result is not first and result.shape == first.shape and result.dtype == first.dtype and \
                result.is_floating_point() and result.numel() > 0 and torch.equal(result, first) and \
                is_the_task_s_own(name):
            self.found.append(name)
        return result


def idle_modules(model, values):
    """Names of leaf modules whose output is their input: a dropout or a batch normalisation in evaluation."""
    found, hooks = [], []

    def look(name):
        def hook(module, inputs, output):
            if len(inputs) == 1 and isinstance(output, torch.Tensor) and isinstance(inputs[0], torch.Tensor) and \
                    output.shape == inputs[0].shape and output.is_floating_point() and \
                    torch.allclose(output, inputs[0], SAME, SAME):
                found.append(f"{name} ({type(module).__name__})")
        return hook

    for name, module in model.named_modules():
        if name and not list(module.children()):
            hooks.append(module.register_forward_hook(look(name)))
    try:
        call(model, copy.deepcopy(values))
    finally:
        for hook in hooks:
            hook.remove()
    return found


def idle_operators(task, values):
    """With weights as the judge draws them: a fresh gain of ones would make every normalisation look idle."""
    model = task.model(1, live=True)
    with NoOps() as operators:
        call(model, copy.deepcopy(values))
    return operators.found


def eager_times(model, values):
    times, begin = [], time.perf_counter()
    while len(times) < TIMED_CALLS and (not times or time.perf_counter() - begin < TIMED_SECONDS):
        start = time.perf_counter()
        call(model, values)
        times.append(time.perf_counter() - start)
    return sorted(times)


def uniform_axes(outputs):
    """Axes of outputs along which nothing changes."""
    return [f"output {place}, axis {axis}" for place, x in enumerate(outputs) for axis in range(x.dim())
            if x.shape[axis] > 1 and x.numel() > 0 and bool((x == x.narrow(axis, 0, 1)).all())]


def same_tensors(one, other):
    return len(one) == len(other) and all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(one, other))


def statistics(outputs):
    """Range and spread of the first floating output."""
    for x in outputs:
        if x.is_floating_point() and x.numel() > 0:
            std = float(x.std(unbiased=False)) if x.numel() > 1 else 0.0
            values = {"least": float(x.min()), "most": float(x.max()), "std": std}
            return {name: value for name, value in values.items() if math.isfinite(value)}  # JSON has no NaN
    return {}


def digest(outputs):
    """Of what the first call returns: another process must get the same."""
    state = hashlib.sha256()
    for x in outputs:
        state.update(x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def run(request):
    source, shrink = request["source"], request.get("shrink")
    task = Task(source)
    model = task.model(1)

    def draw(seed):
        return check_structure.draw(task, seed, shrink)

    begin = time.perf_counter()
    values = draw(2)
    input_s = time.perf_counter() - begin
    kept = copy.deepcopy(values)
    first = leaves(call(model, values))
    if not first:
        raise ValueError("forward returns no tensor")
    again = leaves(call(model, copy.deepcopy(kept)))  # before anything is seeded anew
    facts = {"runs": True, "torch": torch.__version__, "input_s": input_s, "finite": finite(first),
             "seeded": same_tensors(leaves(kept), leaves(draw(2))),
             "changes_inputs": not same_tensors(leaves(kept), leaves(values))}
    fresh = leaves(call(task.model(1), copy.deepcopy(kept)))
    facts["deterministic"] = same_tensors(first, again) or near(first, again)
    facts["stateful"] = not facts["deterministic"] and near(first, fresh)
    model = task.model(1)
    first = leaves(call(model, copy.deepcopy(kept)))
    earlier = []
    for seed in (3, 4):
        other = draw(seed)
        earlier.append((other, leaves(call(task.model(1) if facts["stateful"] else model, copy.deepcopy(other)))))
    facts["constant_output"] = all(x.numel() > 1 and bool((x == x.reshape(-1)[0]).all()) for x in first)
    facts["same_across_inputs"] = all(map(check_nulls.close, first, earlier[0][1]))
    facts["input_independent"] = same_tensors(first, earlier[0][1])
    facts["below_tolerance"] = all(x.is_floating_point() and bool((x.abs() <= SMALL).all()) for x in first)
    facts["uniform_axes"] = uniform_axes(first)
    facts["output"], facts["output_digest"] = statistics(first), digest(first)
    facts["null_candidates"] = check_nulls.null_candidates(model, kept, first, earlier)
    facts["idle_modules"], facts["no_operators"] = idle_modules(model, kept), idle_operators(task, kept)
    times = eager_times(model, kept)
    facts["eager_s"], facts["eager_calls"] = times[len(times) // 2], len(times)
    facts["peak_resident_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return facts


def near(one, other):
    return all(a.shape == b.shape and torch.allclose(a.float(), b.float(), 1e-5, 1e-6, equal_nan=True)
               for a, b in zip(one, other))


def compiled(request):
    task = Task(request["source"])
    model = task.model(1)
    values = check_structure.draw(task, 2, request.get("shrink"))
    expected = leaves(call(model, copy.deepcopy(values)))
    begin = time.perf_counter()
    fast = torch.compile(model)
    got = leaves(call(fast, copy.deepcopy(values)))
    facts = {"compile_first_s": time.perf_counter() - begin, "compiles": True}
    facts["output_digest"] = digest(expected)
    facts["compile_agrees"] = check_nulls.passes(got, expected)
    times = eager_times(fast, values)
    facts["compile_s"] = times[len(times) // 2]
    return facts


def answer(request, state):
    """One stage of a check. `request`: stage, source, limits, and `shrink` as the structure stage gave it."""
    limits, stage = request["limits"], request["stage"]
    if not state.get("limited"):
        limit_child(limits["memory_bytes"], processes=stage == "compile")
        state["limited"] = True
    if stage == "structure":
        return check_structure.structure(request["source"], limits)
    return {"run": run, "compile": compiled}[stage](request)
