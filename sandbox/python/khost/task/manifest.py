"""Lays Python values out in a region of shared memory, and makes tensors over one (sandbox/abi/manifest.h)."""

import math

import torch

ALIGNMENT = 256  # what a kernel on a GPU may count on


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def aligned(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def name_items(node, name):
    """Names a node, and what a list or a tuple holds behind it: features_0, features_1."""
    node["name"] = name
    if node["kind"] in ("tuple", "list"):
        for place, item in enumerate(node["items"]):
            name_items(item, f"{name}_{place}")


class Layout:
    """The manifest of a value, and the storages that its region holds, in the manifest's order."""

    def __init__(self, value, names=(), contiguous=False):
        self.storages, self.described, self.positions, self.end = [], [], {}, 0
        self.contiguous = contiguous
        self.tree = self.node(value, names)

    def manifest(self):
        return {"storages": self.described, "tree": self.tree}

    @property
    def bytes(self):
        return self.end

    def node(self, value, names=()):
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if value is None:
            return {"kind": "none"}
        if isinstance(value, (bool, int, float, str)):
            return scalar_node(value)
        if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():  # a number of numpy's
            return self.node(value.item())
        if isinstance(value, dict):
            return {"kind": "dict", "items": [{**self.node(item), **named_key(key)} for key, item in value.items()]}
        if isinstance(value, (tuple, list)):
            items = [self.node(item) for item in value]
            for item, name in zip(items, names):
                name_items(item, name)
            return {"kind": "tuple" if isinstance(value, tuple) else "list", "items": items}
        raise TypeError(f"a value of type {type(value).__name__} cannot cross to the judge: tensors, numbers, texts and None can, "
                        "and tuples, lists and dicts of them")

    def tensor(self, tensor):
        tensor = tensor.detach()
        if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_quantized:
            helps = ("torch.view_as_real(x) can" if tensor.is_complex() else
                     "x.int_repr() can" if tensor.is_quantized else "x.to_dense() can")
            raise TypeError(f"a {tensor.layout} {tensor.dtype} tensor cannot cross to the judge: {helps}")
        if self.contiguous:
            tensor = tensor.contiguous().clone()
        storage = tensor.untyped_storage()
        if storage._cdata not in self.positions:
            self.positions[storage._cdata] = len(self.storages)
            self.storages.append(storage)
            self.described.append({"bytes": storage.nbytes(), "offset": self.end})
            self.end += aligned(storage.nbytes())
        return {"kind": "tensor", "storage": self.positions[storage._cdata], "dtype": dtype_name(tensor.dtype),
                "size": list(tensor.shape), "stride": list(tensor.stride()), "offset": tensor.storage_offset()}

    def write(self, region, at):
        """Copies the storages to `at` in a uint8 tensor over the shared memory."""
        for storage, described in zip(self.storages, self.described):
            if described["bytes"]:
                start = at + described["offset"]
                region[start:start + described["bytes"]].copy_(as_bytes(storage))


def scalar_node(value):
    """JSON has no infinities and no NaN: they are written as text, and `float` says so."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"kind": "scalar", "value": str(value), "float": True}
    return {"kind": "scalar", "value": value}


def scalar_of(node):
    return float(node["value"]) if node.get("float") else node["value"]


def named_key(key):
    """The key of a dict as the name of its node; `key` keeps a whole number what it is."""
    if isinstance(key, str):
        return {"name": key}
    if isinstance(key, int):
        return {"name": str(key), "key": key}
    raise TypeError(f"a dict's key of type {type(key).__name__} cannot cross to the judge: texts and whole numbers can")


def key_of(node):
    return node.get("key", node["name"])


def as_bytes(storage):
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def difference(one, other):
    """How two manifests differ, as a text that names the place; "" where they do not."""
    if one == other:
        return ""
    return node_difference(one["tree"], other["tree"], "") or "its tensors share memory in another way"


def node_difference(one, other, place):
    label = f"'{place}'" if place else "it"
    if one["kind"] != other["kind"]:
        return f"{label} is a {one['kind']}, then a {other['kind']}"
    if one["kind"] == "scalar" and one["value"] != other["value"]:
        return f"{label} is the number {one['value']}, then {other['value']}"
    if one["kind"] == "tensor":
        for what in ("dtype", "size", "stride", "offset"):
            if one[what] != other[what]:
                return f"{label} has {what} {one[what]}, then {other[what]}"
        return ""
    mine, theirs = one.get("items", []), other.get("items", [])
    if [item.get("name") for item in mine] != [item.get("name") for item in theirs]:
        return f"{label} has the items {names_of(mine)}, then {names_of(theirs)}"
    for index, (a, b) in enumerate(zip(mine, theirs)):
        step = a.get("name") or str(index)
        found = node_difference(a, b, f"{place}.{step}" if place else step)
        if found:
            return found
    return ""


def names_of(items):
    return ", ".join(item.get("name") or str(index) for index, item in enumerate(items)) or "none"


def has_scalar(node):
    return node["kind"] == "scalar" or any(has_scalar(item) for item in node.get("items", []))


def over_region(manifest, region):
    """The value whose tensors live in the region."""
    storages = [region[s["offset"]:s["offset"] + s["bytes"]] for s in manifest["storages"]]

    def make(node):
        kind = node["kind"]
        if kind == "tensor":
            tensor = torch.empty(0, dtype=getattr(torch, node["dtype"]), device=region.device)
            base = storages[node["storage"]]
            skip = base.storage_offset() // tensor.element_size() + node["offset"]
            return tensor.set_(base.untyped_storage(), skip, node["size"], node["stride"])
        if kind == "scalar":
            return scalar_of(node)
        if kind == "none":
            return None
        if kind == "dict":
            return {key_of(item): make(item) for item in node["items"]}
        items = [make(item) for item in node["items"]]
        return tuple(items) if kind == "tuple" else items

    return make(manifest["tree"])


def with_tensors(value, change):
    """The nested value with each tensor replaced by what `change` makes of it."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: with_tensors(item, change) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [with_tensors(item, change) for item in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items) if isinstance(value, tuple) else items
    return value


def real(tensor):
    """Whether a tensor holds floats that a rounding may move. Floats of one byte are codes of a quantised format: like whole
    numbers they stay as they are drawn, and torch has few operators for them."""
    return tensor.is_floating_point() and tensor.element_size() > 1


def codes(tensor):
    """A tensor that is not real(), floats of one byte as their bits: torch compares and indexes those of whole numbers."""
    return tensor.view(torch.uint8) if tensor.is_floating_point() else tensor


def leaves(value):
    """The tensors of a nested value, in manifest order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def mapped(data):
    """A uint8 tensor over an mmap object."""
    return torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
