"""Outliers: a few elements of float inputs far beyond the others, at random places, so that an answer must be right there
too."""

import torch

OUTLIERS = 1e-4  # of the elements, at least one in a tensor of 64


def add_outliers(tensor):
    if not tensor.is_floating_point() or tensor.numel() < 64 or tensor.numel() != tensor.untyped_storage().nbytes(
    ) // tensor.element_size():
        return
    flat = tensor.reshape(-1) if tensor.is_contiguous() else None
    if flat is None:
        return
    count = max(1, int(OUTLIERS * flat.numel()))
    where = torch.randint(flat.numel(), (count,), device=flat.device)
    scale = max(float(flat[:65536].abs().max()), 1e-3)
    sign = torch.randint(0, 2, (count,), device=flat.device) * 2 - 1
    flat[where] = (sign * scale * (2 + 4 * torch.rand(count, device=flat.device))).to(flat.dtype)
