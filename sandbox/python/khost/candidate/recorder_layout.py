"""Manifests (sandbox/abi/manifest.h) as meta tensors, and tensors as nodes of a manifest."""

import torch

from khost.task.manifest import key_of, scalar_of


def tensors_of(manifest, memory, slot):
    """One meta storage for each of the manifest's, and a function that makes the tensor of a node."""
    storages = []
    for index, described in enumerate(manifest["storages"]):
        storage = torch.empty(described["bytes"], dtype=torch.uint8, device="meta").untyped_storage()
        memory.add(storage, slot, index, written=True)
        storages.append(storage)

    def make(node):
        tensor = torch.empty(0, dtype=getattr(torch, node["dtype"]), device="meta")
        return tensor.set_(storages[node["storage"]], node["offset"], node["size"], node["stride"])

    return make


def values_of(node, make):
    kind = node["kind"]
    if kind == "tensor":
        return make(node)
    if kind == "scalar":
        return scalar_of(node)
    if kind == "none":
        return None
    if kind == "dict":
        return {key_of(item): values_of(item, make) for item in node["items"]}
    items = [values_of(item, make) for item in node["items"]]
    return tuple(items) if kind == "tuple" else items


def state_manifest(model):
    """The state dict of Model, each storage once, as the judge lays it out when it sends no manifest."""
    storages, positions, items = [], {}, []
    offset = 0
    for name, tensor in model.state_dict(keep_vars=True).items():
        storage = tensor.untyped_storage()
        if storage._cdata not in positions:
            positions[storage._cdata] = len(storages)
            storages.append({"bytes": storage.nbytes(), "offset": offset})
            offset += (storage.nbytes() + 63) // 64 * 64
        items.append({**tensor_node(tensor, positions[storage._cdata]), "name": name})
    return {"storages": storages, "tree": {"kind": "dict", "items": items}}


def tensor_node(tensor, storage):
    return {"kind": "tensor", "storage": storage, "dtype": str(tensor.dtype).removeprefix("torch."),
            "size": list(tensor.shape), "stride": list(tensor.stride()), "offset": tensor.storage_offset()}
