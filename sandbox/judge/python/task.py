"""A task in a process of its own: the reference that makes input sets, or a baseline that is timed.

Operations on the socket, each answered by {"ok": …} or {"error": {"reason", "message", "line"}}:
    load      {"source", "seed"}           exec the task, build Model, run it once; manifests of inputs, state, outputs
    make_set  {"seed", "oracle"} + 3 fds   draw inputs and live state, write them and the expected output
    subject   {"mode"} + control, inputs, state fds   build Model over the regions, then play turns until told to leave
    trace, admit                            see trace_graph.py; deterministic, constant output, times
"""

import copy
import ctypes
import inspect
import math
import mmap
import random
import sys
import time
import traceback

import torch

import wire
from manifest import Region, describe

SOURCE_NAME = "model.py"
OUTLIER_SHARE = 1e-4
OUTLIER_SCALE = 4.0


class TaskError(Exception):
    """The task itself is at fault: a verdict `bad_task`."""

    def __init__(self, reason, message, line=None):
        super().__init__(message)
        self.reason, self.line = reason, line


def seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed & 0xFFFFFFFF)


def line_in_task(error):
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == SOURCE_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


class Task:
    def __init__(self, source):
        self.names = {"__name__": "task"}
        self.guard("syntax", lambda: exec(compile(source, SOURCE_NAME, "exec"), self.names))
        for needed in ("Model", "get_inputs"):
            if needed not in self.names:
                raise TaskError("missing", f"the task defines no {needed}")
        self.init = self.guard("get_init_inputs", lambda: list(self.names.get("get_init_inputs", list)()))

    @staticmethod
    def guard(what, fn):
        try:
            return fn()
        except TaskError:
            raise
        except Exception as error:  # whatever the task's own code raises is the task's fault
            raise TaskError(what, f"{type(error).__name__}: {error}", line_in_task(error)) from error

    def model(self):
        model = self.guard("init", lambda: self.names["Model"](*self.init))
        return model.eval()

    def inputs(self):
        return list(self.guard("get_inputs", lambda: self.names["get_inputs"]()))

    def forward(self, model, inputs):
        with torch.no_grad():
            return self.guard("forward", lambda: model(*inputs))

    def input_names(self, model, inputs):
        names = [p.name for p in inspect.signature(model.forward).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        names += [f"input{i}" for i in range(len(names), len(inputs))]
        return names[:len(inputs)]


def live_entries(model):
    """Parameters and normalisation statistics: what is drawn anew for every set."""
    live = dict(model.named_parameters(remove_duplicate=False))
    for name, buffer in model.named_buffers(remove_duplicate=False):
        if name.rsplit(".", 1)[-1] in ("running_mean", "running_var"):
            live[name] = buffer
    return live


def perturb(model):
    """Noise on what an initialiser leaves constant, so that no weight can be guessed."""
    with torch.no_grad():
        for name, tensor in live_entries(model).items():
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            if (tensor == tensor.reshape(-1)[0]).all():
                if name.endswith("running_var"):
                    tensor.mul_(torch.exp(0.25 * torch.randn_like(tensor)))
                else:
                    tensor.add_(torch.rand_like(tensor) - 0.5)


def plant_outliers(inputs):
    """A few large values at random places: a kernel that is right only where inputs are tame fails."""
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() >= 64:
            flat = value.view(-1) if value.is_contiguous() else None
            if flat is None:
                continue
            count = max(1, int(value.numel() * OUTLIER_SHARE))
            places = torch.randint(value.numel(), (count,))
            flat[places] = (flat[places] + torch.randn(count, dtype=value.dtype)) * OUTLIER_SCALE


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors_in(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors_in(v)]
    return []


def finite(value):
    return all(bool(torch.isfinite(t).all()) for t in tensors_in(value) if t.is_floating_point())


def to_double(value):
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value.clone()
    if isinstance(value, (tuple, list)):
        return type(value)(to_double(v) for v in value)
    return value


class Server:
    def __init__(self, sock, library):
        self.sock, self.library = sock, library
        self.task = None

    def load(self, request, _fds):
        self.task = Task(request["source"])
        seed_all(request["seed"])
        model = self.task.model()
        inputs = self.task.inputs()
        state = model.state_dict(keep_vars=True)
        self.inputs_manifest, _ = describe(inputs, self.task.input_names(model, inputs))
        self.state_manifest, _ = describe(dict(state))
        self.mutates = [t.clone() for t in tensors_in(inputs)]
        output = self.task.forward(model, inputs)
        if any(not torch.equal(a, b) for a, b in zip(self.mutates, tensors_in(inputs)) if not torch.isnan(a).any()):
            raise TaskError("mutates_inputs", "forward changes its inputs in place, which the CPU target cannot time")
        self.outputs_manifest, _ = describe(output)
        # Outliers that make the reference overflow would only test how infinities are printed.
        self.outliers = finite(output)
        if self.outliers:
            plant_outliers(inputs)
            self.outliers = finite(self.task.forward(model, inputs))
        return {"inputs": self.inputs_manifest, "state": self.state_manifest, "outputs": self.outputs_manifest,
                "outliers": self.outliers}

    def make_set(self, request, fds):
        seed_all(request["seed"])
        model = self.task.model()
        perturb(model)
        inputs = self.task.inputs()
        if self.outliers:
            plant_outliers(inputs)
        in_manifest, in_tensors = describe(inputs, self.task.input_names(model, inputs))
        state_manifest, state_tensors = describe(dict(model.state_dict(keep_vars=True)))
        if in_manifest != self.inputs_manifest or state_manifest != self.state_manifest:
            raise TaskError("varying_shapes", "get_inputs or Model changes shapes or strides from call to call")
        Region(fds[0], in_manifest, True).write(in_tensors)
        Region(fds[1], state_manifest, True).write(state_tensors)
        scales = []
        twin = None
        if request.get("oracle"):
            try:
                # The fp64 twin is made before the run, which may mutate state.
                twin = (copy.deepcopy(model).double(), to_double(inputs))
            except Exception:  # a model that does not convert is judged by the strict class
                twin = None
        output = self.task.forward(model, inputs)
        manifest, tensors = describe(output)
        if manifest != self.outputs_manifest:
            raise TaskError("varying_shapes", "forward changes the shape or strides of its output from call to call")
        Region(fds[2], manifest, True).write(tensors)
        if twin is not None:
            try:
                with torch.no_grad():
                    exact = twin[0](*twin[1])
                for value, truth in zip(tensors_in(output), tensors_in(exact)):
                    if value.is_floating_point():
                        error = (value.double() - truth).abs()
                        scales.append({"error": float(error.max()) if error.numel() else 0.0,
                                       "rms": float(truth.double().pow(2).mean().sqrt()) if error.numel() else 0.0})
                    else:
                        scales.append({"error": 0.0, "rms": 0.0})
            except Exception:
                scales = []
        if any(not math.isfinite(s["error"]) or not math.isfinite(s["rms"]) for s in scales):
            scales = []
        return {"scales": scales}

    def subject(self, request, fds):
        """A baseline over the judge's regions. Its output stays in torch's memory: nobody needs to copy it."""
        page = mmap.mmap(fds[0], 4096, mmap.MAP_SHARED)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        turns = ctypes.CDLL(self.library)
        turns.khost_wait_go.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
        turns.khost_ack.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
        inputs = Region(fds[1], self.inputs_manifest, True)
        state = Region(fds[2], self.state_manifest, True)
        model = self.task.model()
        self.adopt(model, state)
        arguments = inputs.value(self.inputs_manifest["tree"])
        call = model
        begin = time.monotonic()
        if request["mode"] == "compile":
            call = torch.compile(model)
        with torch.no_grad():
            for _ in range(3):
                call(*arguments)
            import gc
            gc.collect()
            gc.freeze()
            gc.disable()
            wire.send(self.sock, {"ok": {"warm_up_s": time.monotonic() - begin}})
            turns.khost_ack(address, 1, 0)
            seq = 2
            while turns.khost_wait_go(address, seq):
                output = call(*arguments)
                turns.khost_ack(address, seq, 0)
                del output
                seq += 1

    def adopt(self, model, region):
        """Parameters and buffers become views of the region: the judge changes weights in place."""
        nodes = self.state_manifest["tree"]["items"]
        for name, tensor in model.state_dict(keep_vars=True).items():
            tensor.data = region.tensor(nodes[name])

    def trace(self, _request, _fds):
        import trace_graph
        seed_all(0)
        model = self.task.model()
        inputs = self.task.inputs()
        return self.task.guard("trace", lambda: trace_graph.trace(
            model, inputs, self.task.input_names(model, inputs)))

    def admit(self, _request, _fds):
        """What the filter asks: deterministic, not constant, told apart by inputs, eager time."""
        seed_all(1)
        model = self.task.model()
        first, second = self.task.inputs(), self.task.inputs()
        a, b = self.task.forward(model, first), self.task.forward(model, first)
        c = self.task.forward(model, second)
        pairs = list(zip(tensors_in(a), tensors_in(b), tensors_in(c)))
        times = []
        with torch.no_grad():
            for _ in range(5):
                begin = time.perf_counter()
                model(*first)
                times.append(time.perf_counter() - begin)
        return {
            "runs": True,
            "finite": finite(a),
            "deterministic": all(torch.equal(x, y) for x, y, _ in pairs),
            "constant_output": all(x.numel() < 2 or bool((x == x.reshape(-1)[0]).all()) for x, _, _ in pairs),
            "same_across_inputs": all(torch.allclose(x.double(), z.double(), 1e-2, 1e-2) for x, _, z in pairs),
            "eager_s": sorted(times)[2],
            "null_candidates": self.null_candidates(first, pairs),
            "bytes": sum(t.untyped_storage().nbytes() for t in tensors_in(first)) +
                     sum(t.untyped_storage().nbytes() for t in tensors_in(a)),
        }

    @staticmethod
    def null_candidates(inputs, pairs):
        """Names of the answers without work that would pass at 1e-2."""
        passing = []

        def accepts(make):
            return all(x.is_floating_point() and torch.allclose(make(x, z), x, 1e-2, 1e-2) for x, _, z in pairs)

        if accepts(lambda x, z: torch.zeros_like(x)):
            passing.append("zeros")
        if accepts(lambda x, z: x.mean().expand_as(x)):
            passing.append("constant")
        if accepts(lambda x, z: z):
            passing.append("previous_output")
        for value in tensors_in(inputs):
            same = [x for x, _, _ in pairs if x.shape == value.shape]
            if same and len(same) == len(pairs) and accepts(lambda x, z: value.to(x.dtype)):
                passing.append("pass_through")
                break
        return passing


def serve(sock, library):
    server = Server(sock, library)
    while True:
        request, fds = wire.receive(sock)
        if request is None:
            return
        try:
            answer = {"ok": getattr(server, request["op"])(request, fds)}
        except TaskError as error:
            answer = {"error": {"reason": error.reason, "message": str(error)[:2000], "line": error.line}}
        except MemoryError as error:
            answer = {"error": {"reason": "oom", "message": str(error)[:500], "line": None}}
        except Exception as error:  # our own fault, or torch's: void, with what it said
            text = "".join(traceback.format_exception(error))[-2000:]
            answer = {"error": {"reason": "host", "message": text, "line": None}}
        wire.send(sock, answer)
