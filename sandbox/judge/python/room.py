"""Whether an error is want of the device's memory, which may be there when others have given theirs back."""

import torch

SIGNS = ("CUDA out of memory", "CUDA error: out of memory", "STATUS_ALLOC_FAILED")


def wants_room(error):
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in SIGNS)
