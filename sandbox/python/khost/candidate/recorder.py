"""Records what a candidate's model_new.py does, as a plan for khost-subject.

ModelNew runs here on meta tensors, which have shapes but no data: its forward may make views, call torch.empty and
call the launchers of `cuda_extension`. Everything else that would compute, or look at a value, is refused with its
line. The judge checks the plan against the compiled signatures afterwards; nothing that this process says is trusted.

    request  {"model_source", "model_new_source", "signatures": {name: "rfwfsl"}, "inputs": manifest, "state": manifest?,
              "rules": "own" or "mixed"}
             without "model_new_source" the reference itself runs, and the answer is {"computing": number of operators}
    answer   the plan (sandbox/abi/plan.h), or {"error": {"reason", "message", "line"}} with one of the reasons
             violation/torch_compute  a torch operator, or memory read that no launcher wrote
             not_replayable           depends on values: .item(), tolist(), if on a tensor
             violation/import         imports beyond those of recorder_guard.py
             bad_call                 arguments that do not fit the launcher
             bad_state                a parameter or buffer that Model does not have
             error                    any other exception, as Python words it

A forked child calls record(request) once; `python recorder.py` reads a request on stdin and writes the answer.
"""

import json
import math
import os
import sys
import types

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# For a run by itself; in a zygote the package is known.
sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))

from khost.task.init_inputs import arguments
from khost.task.manifest import named_key, scalar_node
from khost.candidate.candidate_policy import SOURCE_NAME, Refused, check as check_names, line_of_traceback
from khost.candidate.recorder_operators import Operators, compiles, computes, numbered, resolved_steps
from khost.candidate.recorder_guard import check_imports, run_source
from khost.candidate.recorder_layout import state_manifest, tensor_node, tensors_of, values_of
from khost.task.task_file import left_as_it_is

DTYPES = {
    "f": torch.float32, "d": torch.float64, "e": torch.float16, "g": torch.bfloat16, "?": torch.bool,
    "b": torch.int8, "B": torch.uint8, "h": torch.int16, "i": torch.int32, "I": torch.uint32, "l": torch.int64,
    "L": torch.uint64,
}
FLOATS = "fdeg"
SUPPLIED = "WTSH"  # the player passes these; Python does not
DEFAULT_WORKSPACE_BYTES = 64 << 20
MOST_LAUNCHES = 4096
aten = torch.ops.aten
FACTORIES = {aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default, aten.new_empty.default,
             aten.new_empty_strided.default}
VALUE_READS = {aten._local_scalar_dense.default, aten.is_nonzero.default, aten.equal.default}


class Memory:
    """What stands behind each storage, by the identity of the storage object (meta storages have no address)."""

    def __init__(self):
        self.slots = {}
        self.kept = []  # an identity must not be used again

    def add(self, storage, slot, index, written):
        self.kept.append(storage)
        entry = {"slot": slot, "index": index, "written": written, "bytes": storage.nbytes()}
        self.slots[storage._cdata] = entry
        return entry

    def of(self, tensor):
        return self.slots.get(tensor.untyped_storage()._cdata)


class Recorder:
    def __init__(self, signatures, rules="own", counts_only=False):
        self.signatures = signatures
        self.memory = Memory()
        self.operators = Operators(self, counts_only) if rules == "mixed" else None
        self.launches = []
        self.scratch = []
        self.recording = False
        self.first_refusal = None  # stands even when model_new.py catches the exception

    def refuse(self, reason, message, line=None):
        error = Refused(reason, message, line)
        if self.first_refusal is None:
            self.first_refusal = error
        raise error

    def launch(self, name, args, workspace_bytes):
        if not self.recording:
            self.refuse("bad_call", f"{name} is called outside forward")
        if len(self.launches) >= MOST_LAUNCHES:
            self.refuse("bad_call", f"more than {MOST_LAUNCHES} launches in one forward")
        text = self.signatures[name]
        roles = [(text[i], text[i + 1]) for i in range(0, len(text), 2)]
        wanted = sum(role not in SUPPLIED for role, _ in roles)
        if wanted != len(args):
            self.refuse("bad_call", f"{name} takes {wanted} arguments (without workspace, threads, stream, handles), "
                                    f"not {len(args)}")
        given = iter(args)
        arguments, entries_written = [], []
        for position, (role, letter) in enumerate(roles, 1):
            if role == "W":
                arguments.append({"role": "W", "index": self.scratch_piece(workspace_bytes)}
                                 if workspace_bytes > 0 else {"role": "W"})
            elif role in SUPPLIED:
                arguments.append({"role": role})
            elif role == "s":
                arguments.append(self.scalar(f"argument {position} of {name}", letter, next(given)))
            else:
                arguments.append(self.pointer(f"argument {position} of {name}", role, letter, next(given),
                                              entries_written))
        for entry in entries_written:
            entry["written"] = True
        self.launches.append({"symbol": name, "arguments": arguments})
        return 0

    def scratch_piece(self, size):
        """All launches share one piece: what a workspace holds before a call is arbitrary."""
        entry = next((entry for entry in self.scratch if entry.get("shared")), None)
        if entry is None:
            entry = {"slot": "workspace", "shared": True, "bytes": 0}
            self.scratch.append(entry)
        entry["bytes"] = max(entry["bytes"], int(size))
        return entry

    def scalar(self, place, letter, value):
        if isinstance(value, torch.Tensor):
            self.refuse("not_replayable", f"{place} is a number, not a tensor: pass a pointer, or a Python number")
        if not isinstance(value, (bool, int, float)):
            self.refuse("bad_call", f"{place} is a number, not {type(value).__name__}")
        if letter in FLOATS:
            value = float(value)
            if not math.isfinite(value):
                value = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        elif isinstance(value, float):
            self.refuse("bad_call", f"{place} is an integer, not a float")
        return {"role": "s", "dtype": letter, "value": value}

    def pointer(self, place, role, letter, value, entries_written):
        if value is None:
            return {"role": role, "slot": "null"}
        if not isinstance(value, torch.Tensor):
            self.refuse("bad_call", f"{place} is a tensor or None, not {type(value).__name__}")
        if value.dtype != DTYPES[letter]:
            self.refuse("bad_call", f"{place} is {DTYPES[letter]}, not {value.dtype}")
        entry = self.memory.of(value)
        if entry is None or (role == "r" and not entry["written"]):
            self.refuse("violation/torch_compute", f"{place} reads memory that no launcher wrote: only inputs, the "
                                                "entries of the state dict and what a launcher wrote hold values")
        entry["used"] = True
        if role == "w":
            if entry["slot"] in ("input", "state"):
                self.refuse("bad_call", f"{place} would write into an input or a weight")
            entries_written.append(entry)
        return {"role": role, "slot": entry, "offset": value.storage_offset() * value.element_size()}


class OneDevice(TorchFunctionMode):
    """device="cuda" in forward means the device of the plan; naming it would start CUDA here."""

    FACTORIES = {torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty,
                 torch.Tensor.new_empty_strided}

    def __init__(self, all_of_them=False):
        super().__init__()
        self.all_of_them = all_of_them

    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in self.FACTORIES or self.all_of_them and kwargs.get("device") is not None:
            kwargs["device"] = "meta"
            kwargs.pop("pin_memory", None)
        return func(*args, **kwargs)


class Watch(TorchDispatchMode):
    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in FACTORIES:
            result = func(*args, **kwargs)
            entry = self.recorder.memory.add(result.untyped_storage(), "workspace", None, written=False)
            self.recorder.scratch.append(entry)
            return result
        if func.is_view or func is aten._unsafe_view.default:
            return func(*args, **kwargs)
        name = str(func).removeprefix("aten.").split(".")[0]
        if func in VALUE_READS:
            self.recorder.refuse("not_replayable", f"{name} looks at a tensor's value; the plan is the same for all "
                                                   "inputs")
        if self.recorder.operators is not None:
            return self.recorder.operators.run(func, args, kwargs)
        self.recorder.refuse("violation/torch_compute", f"torch operator {name} computes; forward may make views, call "
                                                     "torch.empty and call launchers")


def extension_module(recorder):
    module = types.ModuleType("cuda_extension")

    def launcher(name):
        def call(*args, workspace_bytes=DEFAULT_WORKSPACE_BYTES):
            return recorder.launch(name, args, workspace_bytes)
        call.__name__ = name
        return call

    for name in recorder.signatures:
        setattr(module, name, launcher(name))

    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)
        recorder.refuse("bad_call", f"no launcher '{name}' is exported; there are: {', '.join(recorder.signatures)}")

    module.__getattr__ = missing
    return module


def adopt_state(model, manifest, memory):
    """Puts the judge's tensors in the place of the parameters and buffers of the same name."""
    nodes = {item["name"]: item for item in manifest["tree"]["items"]} if manifest["tree"]["kind"] == "dict" else {}
    make = tensors_of(manifest, memory, "state")
    persistent = set(model.state_dict(keep_vars=True))
    for prefix, module in model.named_modules():
        for table in (module._parameters, module._buffers):
            for key, old in list(table.items()):
                name = f"{prefix}.{key}" if prefix else key
                if old is None:
                    continue
                if name not in nodes:
                    if name in persistent:
                        raise Refused("bad_state", f"state entry {name} is not in Model's state dict, which has: "
                                                   f"{', '.join(nodes) or 'nothing'}")
                    continue
                tensor = make(nodes[name])
                if tensor.shape != old.shape or tensor.dtype != old.dtype:
                    if name not in persistent:
                        continue  # a buffer of ModelNew's own
                    raise Refused("bad_state", f"state entry {name} is {tuple(old.shape)} {old.dtype}, in Model "
                                               f"{tuple(tensor.shape)} {tensor.dtype}")
                old.data = tensor  # in place: a model may keep a list of its parameters


def output_tree(recorder, value, outputs):
    if isinstance(value, torch.Tensor):
        entry = recorder.memory.of(value)
        if entry is not None and entry["slot"] in ("input", "state"):
            recorder.refuse("bad_call", "forward returns an input or a weight as it is; let a launcher copy it")
        if entry is None or not entry["written"]:
            recorder.refuse("violation/torch_compute", "forward returns memory that no launcher wrote")
        if entry["slot"] in ("workspace", "value"):
            entry["slot"], entry["index"] = "output", len(outputs)
            outputs.append(entry["bytes"])
        return tensor_node(value, entry["index"])
    if value is None:
        return {"kind": "none"}
    if isinstance(value, (bool, int, float, str)):
        return scalar_node(value)
    if isinstance(value, (tuple, list)):
        return {"kind": "tuple" if isinstance(value, tuple) else "list",
                "items": [output_tree(recorder, item, outputs) for item in value]}
    if isinstance(value, dict):
        return {"kind": "dict", "items": [{**output_tree(recorder, item, outputs), **named_key(key)}
                                          for key, item in value.items()]}
    recorder.refuse("error", f"forward returns {type(value).__name__}")


def finish(recorder, tree, outputs):
    """Numbers what did not become an output, and replaces entries by slot and index."""
    workspace, values = [], numbered(recorder.operators) if recorder.operators else []
    for entry in recorder.scratch:
        if entry["slot"] == "workspace":
            entry["index"] = len(workspace)
            workspace.append(entry["bytes"])
    for launch in recorder.launches:
        for argument in launch["arguments"]:
            if argument["role"] == "W" and "index" in argument:
                argument["index"] = argument["index"]["index"]
            elif isinstance(argument.get("slot"), dict):
                entry = argument["slot"]
                argument["slot"], argument["index"] = entry["slot"], entry["index"]
    plan = {"launches": recorder.launches, "workspace": workspace, "outputs": tree, "output_storages": outputs}
    if recorder.operators is not None and recorder.operators.steps:
        plan.update(operators=resolved_steps(recorder.operators), values=values)
    return plan


def candidate_class(request, recorder):
    """ModelNew; of a request without a candidate the reference itself."""
    if "model_new_source" not in request:
        return None
    if recorder.operators is not None:
        check_names(request["model_new_source"])
        compiles(recorder)
        sys.modules.pop("model", None)  # the reference is not the candidate's to call
    candidate = run_source(request["model_new_source"], SOURCE_NAME, guarded=True)
    if not hasattr(candidate, "ModelNew"):
        raise Refused("error", "model_new.py defines no class ModelNew")
    return candidate.ModelNew


def model_made(request, recorder):
    """ModelNew with its own weights, or the reference's Model, and the manifest of the state that it is to have."""
    compiled, torch.compile = torch.compile, left_as_it_is  # the task's own
    task = run_source(request["model_source"], "model.py", guarded=False)
    init = task.get_init_inputs() if hasattr(task, "get_init_inputs") else []

    def made(of):
        args, kwargs = arguments(init, of)
        return of(*args, **kwargs)

    state = request.get("state") or state_manifest(made(task.Model))
    if "model_new_source" in request:
        torch.compile = compiled
    model = made(candidate_class(request, recorder) or task.Model)
    model.eval()  # whose train() may return nothing
    return model, state


def plan_of(request, recorder, place):
    check_imports(request.get("model_new_source", ""))
    sys.modules["cuda_extension"] = extension_module(recorder)
    with torch.no_grad(), torch.device(place):
        model, state = model_made(request, recorder)
    with torch.no_grad(), torch.device("meta"):
        adopt_state(model.to("meta"), state, recorder.memory)
        values = values_of(request["inputs"]["tree"], tensors_of(request["inputs"], recorder.memory, "input"))
        with OneDevice(recorder.operators is not None), Watch(recorder):
            recorder.recording = True
            result = model(**values) if isinstance(values, dict) else model(
                *(values if isinstance(values, (tuple, list)) else [values]))
            recorder.recording = False
        if "model_new_source" not in request:
            return {"computing": sum(computes(step) for step in recorder.operators.steps)}
        outputs = []
        tree = output_tree(recorder, result, outputs)
    if recorder.first_refusal is not None:
        raise recorder.first_refusal
    return finish(recorder, tree, outputs)


def looks_at_values(error):
    text = str(error).lower()
    return "meta" in text and any(word in text for word in ("item", "tolist", "numpy", "data", "nonzero"))


def record(request, place="meta"):
    """`place`: where constructors and the files' other code run: on meta tensors, which costs nothing; and again with values
    where PyTorch says that meta tensors do not do, since they may look at them (rates of `torch.linspace` by `.item()`), which forward may not."""
    recorder = Recorder(request["signatures"], request.get("rules", "own"), "model_new_source" not in request)
    try:
        return plan_of(request, recorder, place)
    except BaseException as caught:  # SystemExit and KeyboardInterrupt from the candidate are answers too
        if place == "meta" and not recorder.recording and recorder.first_refusal is None and "meta" in str(caught).lower():
            return record(request, "cpu")
        error = recorder.first_refusal or caught
        refused = isinstance(error, Refused)
        if refused:
            reason, line = error.reason, error.line
        else:
            reason = "not_replayable" if looks_at_values(error) else "error"
            line = line_of_traceback(error)
        message = str(error) if refused else f"{type(error).__name__}: {error}"
        return {"error": {"reason": reason, "message": message[:2000], "line": line}}


def warm_up():
    """In the process that recordings are forked from: the first module and the first operator under a watch import what
    they need."""
    with torch.no_grad(), torch.device("meta"):
        torch.nn.Linear(1, 1).eval()
        with OneDevice(), Watch(Recorder({})):
            torch.empty_like(torch.empty(1))


def main():
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the candidate prints is no part of the answer
    json.dump(record(json.load(sys.stdin)), answer)
    answer.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
