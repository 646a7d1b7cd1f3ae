"""Finds seed operators in an installed PyTorch: module classes of torch.nn and functions of torch and its functional
namespace. Constructor and call arguments come from signatures and schemas; which values are legal, which inputs fit and
what comes out is measured on small tensors. Whatever is left out has a named reason.

    {"find": "torch"}                    {"operators": [record…], "skipped": {name: reason}, "torch": version}
    {"find": "transformers", "root"?}    the same for classes of transformers (crawl_transformers.py)
    {"find"…, "part": [k, n]}            only every n-th candidate, beginning with the k-th (from 0): n children share it
    {"probe": [source…]}                 {"probed": [facts by shape (check_structure.py) or {"error"}…]}

A record: name, form ("module" or "function"), category, bound {constructor argument: dimension of the input that it
must equal}, cases [{size, out, needs, gives, legal {argument: values that work}, first?}], heavy, same_shape, source,
place (among all candidates), same (equal in two records of which one is enough).
`needs` and `gives` say which values an operator takes and returns: any, bounded (by 1), positive, unit (0 to 1)."""

import hashlib
import inspect
import signal

import torch
import torch.nn as nn
import torch.nn.functional as F

from khost.check.check_structure import facts_of, fake_run
from khost.task.task_file import make_live

SMALL = {2: [6, 16], 3: [6, 16, 16], 4: [2, 16, 8, 8], 5: [2, 16, 4, 4, 4]}
# What a size argument of a constructor must equal: the second dimension of the input, or its last.
BOUND = {"in_channels": 1, "num_features": 1, "num_channels": 1, "in_features": -1, "normalized_shape": -1,
         "input_size": -1, "d_model": -1, "embed_dim": -1, "in1_features": -1, "in2_features": -1}
# Values tried for an argument; those that work are its legal range.
TRIED = {
    "out_channels": [16, 32, 64], "out_features": [16, 32, 64, 128], "hidden_size": [16, 32], "kernel_size": [3, 1, 2, 5],
    "stride": [1, 2], "padding": [0, 1, 2], "dilation": [1, 2], "groups": [1, 2, 4], "num_groups": [4, 2, 8],
    "num_heads": [4, 2], "nhead": [4, 2], "dim_feedforward": [32, 64], "output_size": [1, 2, 4], "scale_factor": [2],
    "upscale_factor": [2], "downscale_factor": [2], "negative_slope": [0.01, 0.1, 0.2], "alpha": [1.0, 0.5],
    "beta": [1.0, 2.0], "threshold": [0.1, 0.5], "value": [0.0, 0.5], "lambd": [0.5, 0.2], "min_val": [-1.0, -0.5],
    "max_val": [1.0, 0.5], "norm_type": [2.0, 1.0], "dim": [-1, 1], "eps": [1e-5], "size": [3, 5], "p": [2.0, 1.0],
    "k": [0.5, 2.0], "bias": [True, False], "affine": [True, False], "elementwise_affine": [True, False],
    "approximate": ["none", "tanh"], "mode": ["nearest", "bilinear"], "ceil_mode": [False, True], "keepdim": [True],
    "exponent": [2.0, 3.0], "min": [-1.0, 0.0], "max": [1.0, 0.5], "other": [0.5, 2.0], "weight": [0.3], "diagonal": [0],
    "dims": [[-1], [1]], "shifts": [1, 2], "num_parameters": [1], "max_norm": [1.0], "n": [1], "decimals": [1],
}
OPTIONAL = {"stride", "padding", "groups", "negative_slope", "alpha", "beta", "lambd", "min_val", "max_val", "bias",
            "affine", "elementwise_affine", "approximate", "dim", "dilation", "keepdim"}
# Arguments that a signature hides behind *args or a default of None, without which nothing is made.
HIDDEN = {"LSTM": ["input_size", "hidden_size"], "GRU": ["input_size", "hidden_size"],
          "RNN": ["input_size", "hidden_size"], "Upsample": ["scale_factor"], "UpsamplingNearest2d": ["scale_factor"],
          "UpsamplingBilinear2d": ["scale_factor"]}
# How forward is called where it wants more than the input.
CALLS = {"MultiheadAttention": "{m}({x}, {x}, {x})[0]", "LSTM": "{m}({x})[0]", "GRU": "{m}({x})[0]",
         "RNN": "{m}({x})[0]", "LSTMCell": "{m}({x})[0]"}
STOCHASTIC = ("Dropout", "RReLU", "FractionalMaxPool", "dropout", "rrelu", "gumbel", "bernoulli", "fractional", "rand",
              "multinomial", "poisson", "normal")
CONTAINERS = {"Module", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Container"}
HEAVY_CATEGORIES = {"conv", "linear", "rnn", "transformer"}


def category_of(cls):
    return cls.__module__.rsplit(".", 1)[-1].removeprefix("_")


def module_reason(name, cls):
    """Why a class of torch.nn is no seed by its looks alone; None when it may be one."""
    if name.startswith("_"):
        return "private"
    if name in CONTAINERS:
        return "container"
    if name.startswith("Lazy"):
        return "lazy"
    if any(word in name for word in STOCHASTIC):
        return "stochastic"
    if name.endswith("Loss") or category_of(cls) == "loss":
        return "loss_of_two_tensors"
    if "Unpool" in name:
        return "needs_indices"
    if name in ("Embedding", "EmbeddingBag"):
        return "integer_input"
    if name in ("Fold", "SyncBatchNorm") or "Parallel" in name:
        return "not_one_device_layer"
    if cls.forward is nn.Module.forward:
        return "no_forward"
    return None


def parameters_of(function):
    """Required names, optional names that are worth drawing."""
    required, optional = [], []
    for name, parameter in list(inspect.signature(function).parameters.items()):
        if name in ("self", "input") or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty:
            required.append(name)
        elif name in OPTIONAL:
            optional.append(name)
    return required, optional


class ViewOnly(Exception):
    pass


def measured(run, size, shift=None):
    """What one call on small values shows; raises what the call raises. Of several tensors the first counts."""
    torch.manual_seed(0)
    x = torch.randn(size) if shift is None else torch.rand(size) * shift[1] + shift[0]
    given = x.clone()
    with torch.no_grad():
        y = run(given)
    several = isinstance(y, tuple) and len(y) > 0 and isinstance(y[0], torch.Tensor)
    if several:
        y = y[0]
    if not isinstance(y, torch.Tensor):
        raise TypeError("no tensor comes out")
    if y.untyped_storage().data_ptr() == given.untyped_storage().data_ptr():
        raise ViewOnly
    return x, y, several


DOMAINS = [("any", None), ("positive", (0.5, 2.0)), ("unit", (0.05, 0.9))]


def gives_of(y):
    low, high = float(y.min()), float(y.max())
    if low > 0:
        return "unit" if high < 1 else "positive"
    return "bounded" if low >= -1.001 and high <= 1.001 else "any"


def behaviour(run, size):
    """{size, out, needs, gives, …} of a callable for one size of input, or a reason why it is no operator."""
    reason = "not_finite"
    for needs, shift in DOMAINS:
        try:
            x, y, several = measured(run, size, shift)
            _, again, _ = measured(run, size, shift)
        except ViewOnly:
            return "view_only"
        except Exception:
            return "does_not_take_it"
        if y.dtype != x.dtype:
            return "another_dtype_comes_out"
        if y.numel() == 0:
            return "empty_output"
        if not torch.isfinite(y).all():
            continue
        if not torch.equal(y, again):
            return "stochastic"
        if y.shape == x.shape and torch.allclose(x, y, 1e-4, 1e-4):
            reason = "identity"
            continue
        if bool((y == y.reshape(-1)[0]).all()):
            return "constant_output"
        digest = hashlib.sha256(y.contiguous().numpy().tobytes()).hexdigest()
        return {"size": size, "out": list(y.shape), "needs": needs, "gives": gives_of(y), "first": several,
                "digest": digest}
    return reason


def explore(make, required, optional):
    """(arguments, cases, reason) of a maker `make(**arguments) -> callable`, over all small sizes."""
    unknown = [name for name in required if name not in BOUND and name not in TRIED]
    if unknown:
        return None, [], "argument_" + unknown[0]
    cases, reasons = [], []
    for size in SMALL.values():
        base = {n: size[BOUND[n]] if n in BOUND else TRIED[n][0] for n in required}
        outcome = attempt(make, base, size)
        for name in required:
            for value in TRIED.get(name, [])[1:] if isinstance(outcome, str) else []:
                outcome = attempt(make, {**base, name: value}, size)
                if not isinstance(outcome, str):
                    base[name] = value
                    break
        if isinstance(outcome, str):
            reasons.append(outcome)
            continue
        legal = {n: [v for v in TRIED[n] if not isinstance(attempt(make, {**base, n: v}, size), str)]
                 for n in [*required, *optional] if n in TRIED and n not in BOUND}
        cases.append({**outcome, "legal": legal})
    if not cases:
        return None, [], next((r for r in reasons if r != "does_not_take_it"), "no_input_fits")
    return {n: BOUND[n] for n in required if n in BOUND}, cases, None


def attempt(make, arguments, size):
    try:
        torch.manual_seed(0)
        run = make(**arguments)
    except Exception:
        return "does_not_take_it"
    return behaviour(run, size)


def module_maker(cls):
    call = CALLS.get(cls.__name__, "{m}({x})").format(m="module", x="x")

    def make(**arguments):
        module = cls(**arguments).eval()
        make_live(module)  # a normalisation with fresh statistics would look like nothing
        return lambda x: eval(call, {"module": module, "x": x})
    return make


def record(name, form, category, bound, cases, source):
    return {"name": name, "form": form, "category": category, "bound": bound, "cases": cases, "source": source,
            "heavy": category in HEAVY_CATEGORIES, "same_shape": all(c["size"] == c["out"] for c in cases)}


def mine(place, part):
    return place % part[1] == part[0]


def find_modules(found, skipped, part):
    """Returns how many candidates there are."""
    classes = [(n, c) for n, c in sorted(vars(nn).items()) if inspect.isclass(c) and issubclass(c, nn.Module)]
    for place, (name, cls) in enumerate(classes):
        if not mine(place, part):
            continue
        reason = module_reason(name, cls)
        if reason is None:
            required, optional = parameters_of(cls.__init__)
            required += [name for name in HIDDEN.get(name, []) if name not in required]
            bound, cases, reason = explore(module_maker(cls), required, optional)
        if reason:
            skipped["nn." + name] = reason
        else:
            entry = record("nn." + name, "module", category_of(cls), bound, cases, inspect.getsource(cls))
            found.append({**entry, "call": CALLS.get(name, "{m}({x})"), "place": place, "same": "nn." + name})
    return len(classes)


def function_reason(name, overload):
    if name.startswith("_") or name.endswith("_"):
        return "private_or_in_place"
    if any(word in name for word in STOCHASTIC):
        return "stochastic"
    if overload is None:
        return "no_schema"
    if torch.Tag.nondeterministic_seeded in overload.tags:
        return "stochastic"
    arguments = overload._schema.arguments
    if not arguments or str(arguments[0].type) != "Tensor":
        return "first_argument_is_no_tensor"
    if any("Tensor" in str(a.type) and not a.has_default_value() for a in arguments[1:]):
        return "several_tensors"
    if takes_dim(name):
        return None  # which overload is taken shows in the measurement
    if len(overload._schema.returns) != 1 or str(overload._schema.returns[0].type) != "Tensor":
        return "not_one_tensor_comes_out"
    if any(r.alias_info is not None for r in overload._schema.returns):
        return "view_only"
    if name.endswith("_copy") or name.startswith("native_"):
        return "internal"
    return None


def overload_of(name):
    packet = getattr(torch.ops.aten, name, None)
    for which in ("default", "dim", "dim_IntList", "int", "Tensor_Scalar", "Scalar"):
        overload = getattr(packet, which, None)
        arguments = overload._schema.arguments if overload is not None else []
        if arguments and str(arguments[0].type) == "Tensor" and not any(
                "Tensor" in str(a.type) and not a.has_default_value() for a in arguments[1:]):
            return overload
    return getattr(packet, "default", None)


def takes_dim(name):
    """Whether some overload reduces along a dimension, which a layer wants rather than one number."""
    packet = getattr(torch.ops.aten, name)
    return any(a.name == "dim" and "str" not in str(a.type) for overload in packet.overloads()
               for a in getattr(packet, overload)._schema.arguments)


def kind_of(overload):
    """pointwise, reduction or other, by the tags of the schema and the shape rule that the case shows."""
    if torch.Tag.pointwise in overload.tags:
        return "pointwise"
    return "reduction" if torch.Tag.reduction in overload.tags else "shape"


def call_of(label, cases):
    return label + "({x}{arguments})" + ("[0]" if cases[0]["first"] else "")


def find_functions(found, skipped, place, part):
    seen = {}
    for space, prefix in ((torch, "torch"), (F, "F")):
        for name in sorted(dir(space)):
            function = getattr(space, name)
            label = f"{prefix}.{name}"
            if not callable(function) or inspect.isclass(function) or name in vars(torch.jit) or \
                    (prefix == "F" and hasattr(torch, name)):
                continue
            place += 1
            if not mine(place, part):
                continue
            overload = overload_of(name)
            reason = function_reason(name, overload)
            if reason is None:
                schema = overload._schema.arguments[1:]
                required = [a.name for a in schema if not a.has_default_value()]
                if "dim" not in required and takes_dim(name):
                    required.append("dim")
                optional = [a.name for a in schema if a.has_default_value() and a.name in OPTIONAL]

                def make(_function=function, **arguments):
                    return lambda x: _function(x, **arguments)

                _, cases, reason = explore(make, required, optional)
                known = seen.setdefault(str(cases), label) if cases else label
                reason = reason or (known != label and "same_as_" + known) or None
            if reason:
                skipped[label] = reason
            else:
                entry = record(label, "function", kind_of(overload), {}, cases, str(overload._schema))
                same = hashlib.sha256(str(cases).encode()).hexdigest()
                found.append({**entry, "call": call_of(label, cases), "place": place, "same": same})


MOST_OPERATORS = 2000   # of a composed task
PROBE_SECONDS = 8       # of processor time; a proposal that needs more is none
LOST_SECONDS = 20       # likewise, where no Python runs that could be interrupted: the child ends


def took_too_long(number, frame):
    raise TimeoutError(f"shapes took more than {PROBE_SECONDS} s")


def probe(source):
    signal.signal(signal.SIGVTALRM, took_too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, PROBE_SECONDS)
    signal.setitimer(signal.ITIMER_PROF, LOST_SECONDS)
    try:
        return facts_of(fake_run(source, most_operators=MOST_OPERATORS))
    except Exception as error:  # a proposal that does not fit: the composer draws another
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def answer(request):
    if "probe" in request:
        return {"probed": [probe(source) for source in request["probe"]]}
    part = request.get("part", [0, 1])
    if request.get("find") == "transformers":
        from khost.crawl.crawl_transformers import find
        return find(request.get("root"), part)
    found, skipped = [], {}
    count = find_modules(found, skipped, part)
    find_functions(found, skipped, count, part)
    return {"operators": found, "skipped": skipped, "torch": torch.__version__}
