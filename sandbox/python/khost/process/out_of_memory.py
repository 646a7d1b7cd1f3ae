"""Whether an error means that something is used up that others free again: the GPU's memory, or what the processes of a
jail have together."""

import torch

# cuBLAS reports the last one when there is no memory for its handle.
SIGNS = ("out of memory", "STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")


def is_out_of_memory(error):
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in SIGNS)


# Of the jail's folder, and of its processes. What compiles says so in its own words, so the text is looked at.
SIGNS_OF_NO_ROOM = ("No space left on device", "Resource temporarily unavailable", "can't start new thread")


def is_out_of_room(error):
    while error is not None:
        if any(sign in str(error) for sign in SIGNS_OF_NO_ROOM):
            return True
        error = error.__cause__ or error.__context__
    return False
