"""What a candidate in Python may not do: by its text, and by the operators that torch dispatches while it runs.

None of it makes a verdict safe: the clock, the inputs and the comparison are elsewhere. It names what a candidate did
that the rules forbid, and it stops what is written without intent to evade."""

import ast
import sys

from torch.utils._python_dispatch import TorchDispatchMode

SOURCE_NAME = "model_new.py"

IMPORTS = {
    "__future__", "torch", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.parameter", "torch.cuda",
    "torch.autograd", "torch.utils", "torch.utils.cpp_extension", "cuda_extension", "math", "typing", "os", "sys", "time",
    "functools", "itertools", "collections", "dataclasses", "enum", "string", "textwrap", "pathlib", "tempfile", "random",
    "numpy", "warnings", "contextlib", "hashlib", "operator", "copy", "abc", "re",
}
# The compilers, the dispatcher's inside, and what other modules are reached by.
ATTRIBUTES = {
    "torch.compile", "torch.jit", "torch.ops", "torch._C", "torch._VF", "torch._dynamo", "torch._inductor", "torch.fx",
    "torch.library", "torch.overrides", "torch.multiprocessing", "torch.hub", "torch.utils._python_dispatch", "torch.classes",
    "torch.utils.data", "torch.utils.dlpack", "sys.modules", "sys._getframe", "sys.settrace", "sys.setprofile",
    "os.system", "os.popen", "os.fork", "os.kill", "os.execv", "os._exit", "torch.cuda.cudart", "torch._tensor",
}
# Ways around names.
INSIDE = {"__dict__", "__globals__", "__code__", "__closure__", "__subclasses__", "__bases__", "__mro__", "f_globals",
          "f_back", "f_builtins", "gi_frame", "tb_frame", "__loader__", "__spec__", "__reduce__"}
NAMES = {"exec", "eval", "compile", "__import__", "globals", "vars", "__builtins__", "__loader__"}

# Creating and moving; views are allowed too.
OPERATORS = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "zeros", "zeros_like", "new_zeros", "ones",
    "ones_like", "new_ones", "full", "full_like", "new_full", "scalar_tensor", "arange", "lift", "lift_fresh", "zero_",
    "fill_", "copy_", "clone", "_to_copy", "contiguous", "detach", "alias", "_unsafe_view", "_reshape_alias", "set_",
    "resize_", "record_stream", "_local_scalar_dense", "_pin_memory", "is_pinned", "is_same_size",
}
OWN = {"aten", "prims", "quantized", "_quantized", "mkldnn", "_nnpack", "inductor", "torch_attn"}  # torch's namespaces


class Refused(Exception):
    def __init__(self, reason, message, line=None):
        super().__init__(message)
        self.reason = reason
        self.line = line if line is not None else line_of_stack()


def line_of_stack():
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == SOURCE_NAME:
            return frame.f_lineno
        frame = frame.f_back
    return None


def line_of_traceback(error):
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == SOURCE_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


class Text(ast.NodeVisitor):
    """Which names stand for modules, and what is done with them."""

    def __init__(self):
        self.modules = {}  # name in the file -> dotted module or attribute

    def refuse(self, reason, node, text):
        raise Refused("violation/" + reason, text, getattr(node, "lineno", None))

    def visit_Import(self, node):
        for alias in node.names:
            self.imported(alias.name, node)
            name = alias.asname or alias.name.split(".")[0]
            self.modules[name] = alias.name if alias.asname else name

    def visit_ImportFrom(self, node):
        module = "." * node.level + (node.module or "")
        self.imported(module, node)
        for alias in node.names:
            full = f"{module}.{alias.name}"
            self.attribute(full, node)
            self.modules[alias.asname or alias.name] = full

    def imported(self, name, node):
        if name in ("model", "reference"):
            self.refuse("import", node, f"import of {name}: the reference is not here")
        if name not in IMPORTS:
            self.refuse("import", node, f"import of {name}; allowed are torch, its nn, cuda and cpp_extension, cuda_extension "
                                        "and a few modules of the standard library")
        self.attribute(name, node)

    def dotted(self, node):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.modules:
            return ".".join([self.modules[node.id], *reversed(parts)])
        return None

    def attribute(self, full, node):
        pieces = full.split(".")
        for end in range(1, len(pieces) + 1):
            if ".".join(pieces[:end]) in ATTRIBUTES:
                self.refuse("forbidden", node, f"{'.'.join(pieces[:end])} is not for candidates")

    def visit_Attribute(self, node):
        full = self.dotted(node)
        if node.attr in INSIDE:
            self.refuse("forbidden", node, f"{node.attr} is not for candidates")
        if full is not None:
            self.attribute(full, node)
            if isinstance(node.ctx, (ast.Store, ast.Del)) and not full.startswith("torch.backends."):
                self.refuse("patches", node, f"{full} is replaced; a candidate leaves modules as they are")
        self.generic_visit(node)

    def visit_Name(self, node):
        if node.id in NAMES and isinstance(node.ctx, ast.Load):
            self.refuse("forbidden", node, f"{node.id} is not for candidates")

    def visit_Call(self, node):
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        full = self.dotted(node.args[0]) if node.args else None
        if full is not None and function in ("setattr", "delattr"):
            self.refuse("patches", node, f"{full} is changed; a candidate leaves modules as they are")
        if full is not None and function == "getattr":
            name = node.args[1] if len(node.args) > 1 else None
            if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                self.refuse("forbidden", node, f"an attribute of {full} is named where it cannot be read")
            self.attribute(f"{full}.{name.value}", node)
        self.generic_visit(node)


class Names(ast.NodeVisitor):
    """All imports first: a function may use one that stands behind it."""

    def __init__(self, text):
        self.visit_Import, self.visit_ImportFrom = text.visit_Import, text.visit_ImportFrom


def check(source):
    tree = ast.parse(source, SOURCE_NAME)
    text = Text()
    Names(text).visit(tree)
    text.visit(tree)


class Watch(TorchDispatchMode):
    """Refuses operators of torch that compute, whoever calls them: an extension's own C++ too."""

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if func.namespace in OWN and not func.is_view and name not in OPERATORS:
            raise Refused("violation/torch_compute",
                          f"torch operator {name} computes; a candidate's own kernels do that")
        return func(*args, **(kwargs or {}))
