"""The health of a task by measurement, in stages: structure (no memory), run, compile, again. Each stage is a request of its
own to one child, so that what was found stays when a later stage hangs or is killed."""

import base64
import contextlib
import copy
import hashlib
import math
import os
import resource
import shutil
import sys
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from khost.check import check_device
from khost.check import check_idle
from khost.check import check_nulls
from khost.check import check_structure
from khost.task.manifest import leaves
from khost.task.task_file import Task, TaskFault, call, compile_model, finite, fresh
from khost.task.task_inspection import check_outputs, inspect_task

TIMED_CALLS = 5
MOST_CACHE = 32 << 20   # bytes of what the compiler made of one task
TIMED_SECONDS = 2.0    # further calls are left out when this is used up
SMALL = 1e-2           # outputs below it pass the paper's absolute tolerance whatever they are
SAME = 1e-4            # a module or operator that changes its input by less does nothing
PASSIVE = {"view", "_unsafe_view", "detach", "alias", "clone", "contiguous", "expand", "_to_copy", "copy_", "empty_like",
           "lift_fresh", "t", "transpose", "permute", "reshape", "unsqueeze", "squeeze", "slice", "select", "fill_"}


def limit_child(memory_bytes, compiles, device):
    """What a task of a broken suite may cost: memory beyond what is mapped now, and no further process or thread. The
    driver of a GPU reserves addresses by the terabyte and starts threads: there what is written to counts, and threads
    are the jail's to bound."""
    with open("/proc/self/statm") as file:
        fields = file.read().split()
    kind, pages = (resource.RLIMIT_AS, fields[0]) if device == "cpu" else (resource.RLIMIT_DATA, fields[5])
    most = int(pages) * os.sysconf("SC_PAGE_SIZE") + memory_bytes
    resource.setrlimit(kind, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most_file = 1 << 20 if device == "cpu" or not compiles else 1 << 26
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_file, most_file))
    if not compiles:
        if device == "cpu":
            torch.zeros((), requires_grad=True).clone().backward()  # autograd's threads, for a model that takes gradients
            torch.set_num_threads = torch.set_num_interop_threads = lambda count: None  # there are none for it
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
                result.layout == first.layout == torch.strided and \
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
                    output.shape == inputs[0].shape and output.dtype == inputs[0].dtype and \
                    output.is_floating_point() and \
                    check_nulls.all_close(output, inputs[0], SAME, SAME):
                found.append(f"{name} ({type(module).__name__})")
        return hook

    for name, module in model.named_modules():
        if name and not list(module.children()) and not isinstance(module, torch.jit.ScriptModule):  # which takes no hook
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


def timed(model, values, device):
    """Seconds of some calls in ascending order, and whether nobody else used the device meanwhile."""
    times, begin = [], time.perf_counter()
    with check_device.alone() if device != "cpu" else contextlib.nullcontext(True) as undisturbed:
        finish(device)
        while len(times) < TIMED_CALLS and (not times or time.perf_counter() - begin < TIMED_SECONDS):
            start = time.perf_counter()
            call(model, values)
            finish(device)
            times.append(time.perf_counter() - start)
    return sorted(times), undisturbed


def finish(device):
    if device != "cpu":
        torch.cuda.synchronize()


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
    if outputs[0].is_cuda:
        return check_device.digest(outputs)
    state = hashlib.sha256()
    for x in outputs:
        state.update(x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def run(request):
    """What some calls show. On a device others are at work there too, but for the calls that are timed."""
    device = request.get("device", "cpu")
    if device == "cpu":
        return timed_facts(observed(request), device)
    check_device.begin(request["room_bytes"])
    with check_device.together():
        seen = observed(request)
        finish(device)
        torch.cuda.empty_cache()
    return timed_facts(seen, device)


def timed_facts(seen, device):
    facts, model, values = seen
    times, facts["undisturbed"] = timed(model, values, device)
    facts["eager_s"], facts["eager_calls"] = times[len(times) // 2], len(times)
    facts["peak_resident_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if device != "cpu":
        facts["device"], facts["device_bytes"] = torch.cuda.get_device_name(), torch.cuda.max_memory_allocated()
    return facts


def observed(request):
    """Facts, and the model and inputs by which it is timed."""
    source, shrink = request["source"], request.get("shrink")
    task = Task(source, device=request.get("device", "cpu"))

    def draw(seed):
        return check_structure.draw(task, seed + request.get("seed", 0), shrink)

    begin = time.perf_counter()
    values = draw(2)
    input_s = time.perf_counter() - begin
    facts = {"runs": True, "torch": torch.__version__, "input_s": input_s, "seed": request.get("seed", 0)}
    if request.get("worth_s"):
        model = task.model(1)
        call(model, fresh(values))
        if beyond(call_seconds(task, model, values), request["worth_s"]):
            return {**facts, "cut_short": True}, model, values
        del model
    del values
    seen = inspect_task(task, 1, draw=draw)
    model, kept, first = seen.model, seen.values, leaves(seen.value)
    facts["changes_inputs"] = seen.changes_inputs
    facts["infinite"] = not finite(first)
    earlier = []
    for seed in (3, 4):
        other = draw(seed)
        earlier.append((other, leaves(call(model, copy.deepcopy(other)))))
        check_outputs(first, earlier[-1][1])
    facts["constant_output"] = all(x.numel() > 1 and bool((x == x.reshape(-1)[0]).all()) for x in first)
    facts["same_across_inputs"] = all(map(check_nulls.close, first, earlier[0][1]))
    facts["input_independent"] = same_tensors(first, earlier[0][1])
    facts["below_tolerance"] = all(x.is_floating_point() and bool((x.abs() <= SMALL).all()) for x in first)
    facts["uniform_axes"] = uniform_axes(first)
    facts["output"], facts["output_digest"] = statistics(first), digest(first)
    facts["null_candidates"] = check_nulls.null_candidates(model, kept, first, earlier)
    facts["sketch"], other = check_idle.sketch(first), earlier[0][0]
    del earlier
    facts["returns_given_memory"] = check_idle.returns_given_memory(model, kept)
    facts["unfilled_memory"] = check_idle.reads_unfilled_memory(model, kept, first)
    facts["idle_inputs"] = check_idle.idle_inputs(task, model, kept, first, other)
    del other
    facts["idle_parameters"] = check_idle.idle_parameters(task, kept)
    facts["idle_modules"], facts["no_operators"] = idle_modules(model, kept), idle_operators(task, kept)
    return facts, model, kept


def call_seconds(task, model, values):
    given = fresh(values)
    finish(task.device)
    begin = time.perf_counter()
    call(model, given)
    finish(task.device)
    return time.perf_counter() - begin


def beyond(seconds, worth_s):
    """Whether a call takes so long or so little that the rest need not be known: beside others it is never quicker than
    alone, and twice as slow at most where few share."""
    return seconds < 0.5 * worth_s[0] or seconds > 8 * worth_s[1]


def compiled(request):
    device = request.get("device", "cpu")
    if device == "cpu":
        return compile_facts(request, contextlib.nullcontext)
    check_device.begin(request["room_bytes"])
    return compile_facts(request, check_device.together)


OTHER_DRAWS = 1000  # seeds of a process that looks again


def looked_at_again(task, model, request):
    """For a process that has not seen the task before: what the first call returns, and whether answers without work
    pass on inputs that were not drawn before."""
    def draw(seed):
        return check_structure.draw(task, seed, request.get("shrink"))

    expected = leaves(call(model, draw(2)))
    facts = {"output_digest": digest(expected), "sketch": check_idle.sketch(expected)}
    del expected
    first = OTHER_DRAWS + request.get("seed", 0)
    values = draw(first)
    outputs = leaves(call(model, copy.deepcopy(values)))
    earlier = [(inputs, leaves(call(model, copy.deepcopy(inputs)))) for inputs in (draw(first + 1), draw(first + 2))]
    for _, others in earlier:
        check_outputs(outputs, others)
    facts["null_candidates"] = check_nulls.null_candidates(model, values, outputs, earlier)
    return facts


def again(request):
    """The stage of a task that was admitted: is it the same here, and still more than an answer without work?"""
    device = request.get("device", "cpu")
    task = Task(request["source"], device=device)
    if device == "cpu":
        return looked_at_again(task, task.model(1), request)
    check_device.begin(request["room_bytes"])
    with check_device.together():
        return looked_at_again(task, task.model(1), request)


def compile_facts(request, together):
    device = request.get("device", "cpu")
    task = Task(request["source"], device=device)
    with together():
        model = task.model(1)
        facts = looked_at_again(task, model, request)
        values = check_structure.draw(task, 2, request.get("shrink"))
        expected = leaves(call(model, copy.deepcopy(values)))
        if device != "cpu":
            torch.cuda.empty_cache()
    make_room()
    begin = time.perf_counter()
    fast = compile_model(model)
    got = leaves(call(fast, copy.deepcopy(values)))
    finish(device)
    facts["compile_first_s"], facts["compiles"] = time.perf_counter() - begin, True
    with together():
        facts["compile_agrees"] = check_nulls.passes(got, expected)
    del got, expected
    times, facts["compile_undisturbed"] = timed(fast, values, device)
    facts["compile_s"] = times[len(times) // 2]
    if request.get("cache"):
        artifacts = torch.compiler.save_cache_artifacts()
        if artifacts is not None and len(artifacts[0]) <= MOST_CACHE:
            facts["cache"] = base64.b64encode(artifacts[0]).decode()
    return facts


def make_room():
    """Compilers keep what they made, for all tasks of the jail: the oldest go before there is no room."""
    for folder in ("/tmp/inductor", "/tmp/triton"):
        place = os.statvfs("/tmp")
        if place.f_bavail > 0.4 * place.f_blocks or not os.path.isdir(folder):
            continue
        made = sorted((os.stat(entry).st_mtime, entry.path) for entry in os.scandir(folder) if entry.is_dir())
        for changed, path in made[:len(made) // 2]:
            if time.time() - changed > 120:
                shutil.rmtree(path, ignore_errors=True)


def answer(request, state):
    """One stage of a check. `request`: stage, source, limits, and `shrink` as the structure stage gave it."""
    limits, stage = request["limits"], request["stage"]
    if not state.get("limited"):
        limit_child(limits["memory_bytes"], stage == "compile", request.get("device", "cpu"))
        state["limited"] = True
    if stage == "structure":
        return check_structure.structure(request["source"], limits)
    try:
        return {"run": run, "again": again, "compile": compiled}[stage](request)
    except TaskFault as fault:
        if stage != "run":
            raise
        return {"runs": True, "torch": torch.__version__, "seed": request.get("seed", 0), "fault": fault.name,
                "text": str(fault)}
