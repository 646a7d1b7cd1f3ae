"""What a candidate in Python asks to be built, found by running it without a GPU (candidate.py): its module, its
constructor and, where a call of load_inline or load is not reached by then, its forward on tensors without data.

A file that fails before it builds and hides that in an `except` would go on without its own kernels. The failure is told
as one of the build, with its line."""

import ast
import contextlib
import ctypes
import os
import sys
import threading
import types

import torch

from khost.candidate.candidate import WORKSPACE, arguments_of, imports_workspace, replace_loaders, run_source
from khost.candidate.candidate_policy import SOURCE_NAME, Refused, check, line_of_traceback
from khost.task.manifest import key_of, scalar_of

MOST_EXTENSIONS = 8
LOADERS = ("load_inline", "load")
FORWARD_S = 5  # for what forward does before it builds
CAPABILITY = (9, 0)


class Stub(types.ModuleType):
    """Stands for an extension that is not built yet: nothing in it can be called to an end."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class Inert:
    """Stands for a stream, an event or a graph: whatever is done with it does nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class TooLong(BaseException):
    """Forward does not come to its builds."""


@contextlib.contextmanager
def stopped_after(seconds):
    """Raises TooLong in this thread, again and again, in case it is hidden. A confined process may set no timer, but start
    threads."""
    done, this = threading.Event(), threading.get_ident()

    def watch():
        while not done.wait(seconds):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(this), ctypes.py_object(TooLong))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended = False
        while not ended:
            try:
                done.set()
                watcher.join()
                for _ in range(100):
                    pass  # where one that is still to be raised is raised
                ended = True
            except TooLong:
                pass


class Raised:
    """The exceptions that were raised in the candidate's own lines, hidden ones too."""

    def __init__(self):
        self.found = []  # (line, text)

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename != SOURCE_NAME:
            return None
        if event == "exception":
            kind, value, _ = argument
            self.found.append((frame.f_lineno, f"{kind.__name__}: {value}"))
        return self

    def __enter__(self):
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(None)


def is_loader(node):
    function = node.func if isinstance(node, ast.Call) else None
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    owner = function.value if isinstance(function, ast.Attribute) else None
    # torch.load and json.load are others; cpp_extension.load is meant.
    return name == "load_inline" or name == "load" and (owner is None or "cpp_extension" in ast.unparse(owner))


def within(line, node):
    return node.lineno <= line <= node.end_lineno


def unreached(tree, reached):
    """The calls that build and were not made, as nodes. `reached`: lines of those that were."""
    calls = [node for node in ast.walk(tree) if is_loader(node)]
    return [call for call in calls if not any(within(line, call) for line in reached)]


def hidden_failure(tree, calls, raised):
    """(line, text, line of the call) of a failure that kept a file from building, in the same `try`; None without one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try):
            continue
        first, last = node.body[0].lineno, node.body[-1].end_lineno
        for call in calls:
            if not first <= call.lineno <= last:
                continue
            for line, text in raised:
                if first <= line <= call.end_lineno:
                    return line, text, call.lineno
    return None


def stand_in_for_a_gpu():
    """Files ask which GPU there is before they build for it."""
    properties = types.SimpleNamespace(name="NVIDIA GPU", major=CAPABILITY[0], minor=CAPABILITY[1], multi_processor_count=132,
                                       total_memory=80 << 30, warp_size=32, max_threads_per_multi_processor=2048,
                                       shared_memory_per_block=48 << 10, shared_memory_per_multiprocessor=228 << 10,
                                       regs_per_multiprocessor=65536, L2_cache_size=50 << 20)
    answers = {"is_available": True, "device_count": 1, "current_device": 0,
               "get_device_capability": CAPABILITY, "get_device_name": properties.name, "synchronize": None,
               "get_device_properties": properties, "empty_cache": None, "set_device": None, "manual_seed": None,
               "manual_seed_all": None, "is_bf16_supported": True}
    for name, value in answers.items():
        setattr(torch.cuda, name, lambda *args, _value=value, **kwargs: _value)
    for name in ("Stream", "Event", "CUDAGraph", "current_stream", "default_stream", "stream", "graph", "device"):
        setattr(torch.cuda, name, Inert)


def stand_ins(node):
    """The inputs without their data."""
    if node["kind"] == "tensor":
        return torch.empty_strided(node["size"], node["stride"], dtype=getattr(torch, node["dtype"]), device="cuda")
    if node["kind"] in ("scalar", "none"):
        return scalar_of(node) if node["kind"] == "scalar" else None
    if node["kind"] == "dict":
        return {key_of(item): stand_ins(item) for item in node["items"]}
    items = [stand_ins(item) for item in node["items"]]
    return tuple(items) if node["kind"] == "tuple" else items


def run_forward(module, arguments, inputs):
    """Once, for what it asks to be built; what it computes and how it ends is not looked at."""
    available, torch.cuda.is_available = torch.cuda.is_available, lambda: False
    from torch._subclasses.fake_tensor import FakeTensorMode
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        torch.empty(1, device="cuda")  # the first one looks for a GPU
    torch.cuda.is_available = available
    try:
        with stopped_after(FORWARD_S), mode, torch.device("cuda"), torch.no_grad():
            args, kwargs = arguments
            model = module.ModelNew(*args, **kwargs)
            model.eval()
            values = stand_ins(inputs["tree"])
            values = values if isinstance(values, (tuple, list, dict)) else [values]
            model(**values) if isinstance(values, dict) else model(*values)
    except Refused:
        raise
    except BaseException:
        pass


class Recorder:
    def __init__(self, request):
        self.source, self.request = request["source"], request
        self.found, self.reached, self.raised = [], [], Raised()
        self.tree = ast.parse(self.source, SOURCE_NAME)

    def note(self, asked):
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == SOURCE_NAME:
                self.reached.append(frame.f_lineno)
                break
            frame = frame.f_back
        if all(one["key"] != asked["key"] for one in self.found):
            if len(self.found) >= MOST_EXTENSIONS:
                raise Refused("error", f"more than {MOST_EXTENSIONS} extensions")
            self.found.append(asked)
        return Stub(asked["name"])

    def missing(self):
        return unreached(self.tree, self.reached)

    def run(self):
        check(self.source)
        with self.raised:
            module = run_source(self.source)
            arguments = arguments_of(self.request.get("init"), module.ModelNew)
            try:
                with torch.device("meta"):
                    module.ModelNew(*arguments[0], **arguments[1])
            except Refused:
                raise
            except Exception:
                pass
            if self.missing() and self.request.get("inputs"):
                run_forward(module, arguments, self.request["inputs"])
        failure = hidden_failure(self.tree, self.missing(), self.raised.found)
        if failure:
            line, text, call = failure
            raise Refused("error", f"the extension of line {call} is not built, and an `except` hides why: {text}", line)


def record(request):
    """{"extensions": [request]} or {"error": {"reason", "message", "line"}}. `inputs`: the manifest of the task's inputs, for
    files that build in forward. What the constructor and forward do beyond asking for extensions is not looked at: they
    run again beside the GPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    stand_in_for_a_gpu()
    sys.modules[WORKSPACE] = Stub(WORKSPACE)
    try:
        recorder = Recorder(request)
        replace_loaders(recorder.note)
        recorder.run()
    except BaseException as error:
        reason = error.reason if isinstance(error, Refused) else "error"
        line = error.line if isinstance(error, Refused) else line_of_traceback(error)
        text = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        return {"error": {"reason": reason, "message": text[:2000], "line": line}}
    return {"extensions": recorder.found, "workspace": imports_workspace(request["source"])}
