"""The judge's memory on a GPU, and the device's side of a turn, as a Python subject reaches them."""

import ctypes
import mmap
import os

import torch


def load_library(path):
    library = ctypes.CDLL(path)
    for name, result, arguments in (
            ("khost_wait_go", ctypes.c_int, (ctypes.c_void_p, ctypes.c_uint32)),
            ("khost_ack", None, (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)),
            ("khost_message", None, (ctypes.c_void_p, ctypes.c_char_p)),
            ("khost_threads_only", ctypes.c_int, ()),
            ("khost_arena_open", ctypes.c_uint64, (ctypes.c_int, ctypes.c_uint64)),
            ("khost_gpu_map", ctypes.c_uint64, (ctypes.c_int, ctypes.c_uint64)),
            ("khost_gpu_page", ctypes.c_uint64, (ctypes.c_void_p,)),
            ("khost_gpu_queued", ctypes.c_int, (ctypes.c_void_p,)),
            ("khost_gpu_wait", ctypes.c_int, (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32)),
            ("khost_gpu_ack", ctypes.c_int, (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32))):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def load_profiler(path, fd, cupti):
    """libkhost_profiler.so on its page (sandbox/profiler). Before the device is used; what goes wrong stands in the page,
    and its calls then do nothing."""
    profiler = ctypes.CDLL(path)
    profiler.khost_profile_open.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    profiler.khost_profile_begin.argtypes = [ctypes.c_uint32]
    page = mmap.mmap(fd, os.fstat(fd).st_size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    profiler.page = ctypes.c_char.from_buffer(page)  # held, or the memory would go with this function
    profiler.khost_profile_open(ctypes.addressof(profiler.page), cupti.encode())
    return profiler


class DeviceBytes:
    """Memory that somebody else owns, as torch takes it."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def region(library, fd, size):
    if size == 0:
        return torch.empty(0, dtype=torch.uint8, device="cuda")
    address = library.khost_gpu_map(fd, size)
    if not address:
        raise RuntimeError("the judge's memory cannot be mapped")
    return torch.as_tensor(DeviceBytes(address, size), device="cuda")
