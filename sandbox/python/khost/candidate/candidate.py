"""A candidate in Python (KernelBench's single file, CUDA-Agent's workspace): what it asks to be built, and its module with
those extensions in place.

The extensions are built elsewhere, before: candidate_record.py runs the file in a process without a GPU, where load_inline
and load write down what they are asked for; `load_module` runs it again where it computes, and there they open what was
built."""

import ast
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import types

import torch.utils.cpp_extension as cpp_extension

from khost.candidate.candidate_policy import SOURCE_NAME, Refused
from khost.task.init_inputs import arguments
from khost.task.manifest import key_of, scalar_of

WORKSPACE = "cuda_extension"
IMPLICIT_CUDA = ["#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"]


def as_list(value):
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def bindings(functions, guarded):
    """What load_inline puts behind the sources, so that Python sees the functions."""
    names = functions if isinstance(functions, dict) else {name: name for name in as_list(functions)}
    lines = []
    for name, text in names.items():
        target = f"torch::wrap_pybind_function({name})" if guarded else name
        lines.append(f'm.def("{name}", {target}, {json.dumps(str(text))});')
    return ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"]


def described(name, sources, cflags, cuda_cflags, ldflags):
    if not str(name).isidentifier():
        raise ValueError(f"an extension's name is an identifier, not {name!r}")
    request = {"name": str(name), "sources": sources, "cflags": as_list(cflags), "cuda_cflags": as_list(cuda_cflags),
               "ldflags": as_list(ldflags)}
    request["key"] = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    return request


def inline_request(name, cpp_sources, cuda_sources=None, sycl_sources=None, functions=None, extra_cflags=None,
                   extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None, extra_include_paths=None,
                   build_directory=None, verbose=False, with_cuda=None, with_sycl=None, is_python_module=True,
                   with_pytorch_error_handling=True, keep_intermediates=True, use_pch=False, no_implicit_headers=False):
    head = [] if no_implicit_headers else ["#include <torch/extension.h>"]
    tail = [] if functions is None else bindings(functions, with_pytorch_error_handling)
    sources = {"main.cpp": "\n".join(head + as_list(cpp_sources) + tail) + "\n"}
    if as_list(cuda_sources):
        head = [] if no_implicit_headers else IMPLICIT_CUDA
        sources["cuda.cu"] = "\n".join(head + as_list(cuda_sources)) + "\n"
    return described(name, sources, extra_cflags, extra_cuda_cflags, extra_ldflags)


def file_request(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None,
                 extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None, with_sycl=None,
                 is_python_module=True, is_standalone=False, keep_intermediates=True):
    texts = {}
    for path in as_list(sources):
        with open(path, encoding="utf-8") as file:
            texts[f"{len(texts)}_{os.path.basename(path)}"] = file.read()
    return described(name, texts, extra_cflags, extra_cuda_cflags, extra_ldflags)


def replace_loaders(answer):
    """load_inline and load give what `answer` makes of a request."""
    def load_inline(*args, **kwargs):
        return answer(inline_request(*args, **kwargs))

    def load(*args, **kwargs):
        return answer(file_request(*args, **kwargs))

    cpp_extension.load_inline, cpp_extension.load = load_inline, load


def folders_need_not_be_made():
    """Files make a folder to build in before they build, which no process of a candidate may do and none needs."""
    def forgiving(make, otherwise):
        def made(*args, **kwargs):
            try:
                return make(*args, **kwargs)
            except OSError:
                return otherwise
        return made

    os.mkdir, os.makedirs = forgiving(os.mkdir, None), forgiving(os.makedirs, None)
    tempfile.mkdtemp = forgiving(tempfile.mkdtemp, "/tmp/build")


def run_source(source):
    folders_need_not_be_made()
    module = types.ModuleType(SOURCE_NAME.removesuffix(".py"))
    module.__file__ = SOURCE_NAME
    sys.modules[module.__name__] = module
    exec(compile(source, SOURCE_NAME, "exec"), module.__dict__)
    if not isinstance(getattr(module, "ModelNew", None), type):
        raise Refused("error", f"{SOURCE_NAME} defines no class ModelNew")
    return module


def arguments_of(node, made_of):
    """Positional and named arguments of the class `made_of`, from the tree of what get_init_inputs returned."""
    def value(one):
        kind = one["kind"]
        if kind in ("scalar", "none"):
            return scalar_of(one) if kind == "scalar" else None
        if kind == "dict":
            return {key_of(item): value(item) for item in one["items"]}
        items = [value(item) for item in one["items"]]
        return tuple(items) if kind == "tuple" else items

    return arguments(value(node) if node else [], made_of)


def imports_workspace(source):
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
            [node.module] if isinstance(node, ast.ImportFrom) else []
        if WORKSPACE in names:
            return True
    return False


not_built = []  # names of extensions that load_module's module asked for in vain, whether or not it hides that


def open_extension(name, fd):
    loader = importlib.machinery.ExtensionFileLoader(name, f"/proc/self/fd/{fd}")
    spec = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def load_module(source, built, wrapped=lambda module: module):
    """The candidate's module. `built`: descriptors of shared libraries by the key of their request, the workspace's own
    under "cuda_extension". `wrapped`: what the candidate is given in the place of an extension."""
    opened = {}

    def opener(asked):
        key = asked["key"]
        if key not in built:
            not_built.append(asked["name"])
            raise Refused("error", f"extension {asked['name']} was asked for in another way than when it was built")
        if key not in opened:
            opened[key] = wrapped(open_extension(asked["name"], built[key]))
        return opened[key]

    replace_loaders(opener)
    if WORKSPACE in built:
        sys.modules[WORKSPACE] = wrapped(open_extension(WORKSPACE, built[WORKSPACE]))
    return run_source(source)
