"""Frames between judge and Python children: 4 bytes of length, JSON, and file descriptors beside them."""

import json
import socket
import struct

MOST_FDS = 8


def send(sock, value):
    data = json.dumps(value).encode()
    sock.sendall(struct.pack("<I", len(data)) + data)


def receive(sock):
    """(value, fds), or (None, []) at the end of the stream."""
    head, fds = b"", []
    while len(head) < 4:
        part, more, _, _ = socket.recv_fds(sock, 4 - len(head), MOST_FDS)
        if not part:
            return None, []
        head += part
        fds += more
    size = struct.unpack("<I", head)[0]
    data = b""
    while len(data) < size:
        part, more, _, _ = socket.recv_fds(sock, min(size - len(data), 1 << 20), MOST_FDS)
        if not part:
            return None, []
        data += part
        fds += more
    return json.loads(data), fds
