"""Whether an error means that the GPU is out of memory, which may pass once other processes free theirs."""

import torch

# cuBLAS reports the last one when there is no memory for its handle.
SIGNS = ("out of memory", "STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")


def is_out_of_memory(error):
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in SIGNS)
