"""Whether an error is want of the device's memory, which may be there when others have given theirs back."""

import torch

# The last is what cuBLAS says when it finds no room for its handle.
SIGNS = ("out of memory", "STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")


def wants_room(error):
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in SIGNS)
