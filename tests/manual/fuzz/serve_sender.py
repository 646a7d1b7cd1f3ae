"""Sends broken HTTP to a service on loopback (tests/manual/fuzz/serve.lua starts it) and checks what comes back: nothing, or
whole answers with a status that a client's fault may have, in time.

    serve_sender.py PORT SECONDS SEED"""

import collections
import random
import re
import socket
import sys
import threading
import time

ALLOWED = {200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 421, 422, 429, 431, 503}
LONGEST_S = 20
THREADS = 16
LINES = [b"POST /v1/verdict HTTP/1.1\r\n", b"POST /v1/feedback HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\n",
         b"GET /metrics HTTP/1.0\r\n", b"PUT /v1/verdict?form=number HTTP/1.1\r\n", b"GET * HTTP/1.1\r\n",
         b"POST /v1/episodes HTTP/1.1\r\n", b"POST /v1/episodes/" + b"0" * 32 + b"/step HTTP/1.1\r\n",
         b"DELETE /v1/episodes/" + b"0" * 32 + b" HTTP/1.1\r\n",
         b"POST /v1/verdict?form=%00&&= HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
FIELDS = [b"Host: 127.0.0.1\r\n", b"Host: evil\r\n", b"Host: a\r\nHost: b\r\n", b"Content-Length: 12\r\n",
          b"Content-Length: 99999999999999999999\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n",
          b"Transfer-Encoding: gzip, chunked\r\n", b"Content-Encoding: gzip\r\n", b"Expect: 100-continue\r\n",
          b"Authorization: Bearer " + b"a" * 5000 + b"\r\n", b"Connection: keep-alive\r\n", b"Connection: upgrade\r\n",
          b"Upgrade: websocket\r\n", b" folded: yes\r\n", b"X: \x00\xff\r\n", b"A" * 20000 + b": b\r\n", b": empty\r\n",
          b"Origin: null\r\n"]
BODIES = [b"{}", b'{"task": "task", "tokenizer": "toy", "format": "files", "limits": {"idle_s": 1}}',
          b'{"task": "task", "limits": {"idle_s": 1}}', b"[[[[", b'{"task": "task", "files": {"kernels/k.cpp": "x"}}', b"5\r\nhello\r\n0\r\n\r\n",
          b"ffffffffffffffff\r\n", b"3;ext=1\r\nabc\r\n0\r\nTrailer: x\r\n\r\n", b"-1\r\n", b"x" * 3000, b""]

# Of MCP over HTTP: most requests are of one session, which is opened first.
MCP_LINES = [b"POST /mcp HTTP/1.1\r\n"] * 6 + [b"GET /mcp HTTP/1.1\r\n", b"POST /mcp?x HTTP/1.1\r\n"]
MCP_FIELDS = [b"Content-Type: application/json\r\n", b"Accept: application/json, text/event-stream\r\n"]
MCP_EXTRA = [b"Mcp-Protocol-Version: 2025-06-18\r\n", b"Mcp-Protocol-Version: 1\r\n", b"Accept: text/html\r\n",
             b"Mcp-Session-Id: " + b"0" * 32 + b"\r\n", b"Mcp-Session-Id: \xff\r\n", b"Last-Event-Id: 3\r\n"]
INITIALIZE = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}'
MCP_BODIES = [INITIALIZE, b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
              b'{"jsonrpc": "2.0", "id": "a", "method": "tools/list"}', b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}',
              b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "evaluate", "arguments": '
              b'{"workspace": "w"}}}',
              b'{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "tune", "arguments": '
              b'{"workspace": "../../w", "values": [1e400]}}}',
              b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}',
              b'{"jsonrpc": "2.0", "id": {}, "method": 3}', b"[" * 5000, b"[]", b"null", b'{"id": 1e999}', b""]


def mcp_request(rng, session):
    body = broken(rng, rng.choice(MCP_BODIES)) if rng.random() < 0.7 else rng.choice(MCP_BODIES)
    fields = [*MCP_FIELDS, b"Mcp-Session-Id: " + session + b"\r\n"] if rng.random() < 0.9 else MCP_FIELDS
    length = b"Content-Length: %d\r\n" % len(body)
    head = b"".join([rng.choice(MCP_LINES), FIELDS[0], *fields, *rng.choices(MCP_EXTRA, k=rng.choice([0, 0, 0, 1])), length])
    return (broken(rng, head) if rng.random() < 0.2 else head) + b"\r\n" + body


def open_session(port):
    """The id of an MCP session, as a client that keeps to the rules gets it."""
    head = b"".join([MCP_LINES[0], FIELDS[0], *MCP_FIELDS, b"Content-Length: %d\r\nConnection: close\r\n" % len(INITIALIZE)])
    with socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S) as peer:
        peer.sendall(head + b"\r\n" + INITIALIZE)
        received = b""
        while block := peer.recv(65536):
            received += block
    found = re.search(rb"(?i)\r\nmcp-session-id: (\w+)", received)
    if not found:
        raise ValueError(f"no session: {received[:300]!r}")
    return found[1]


def broken(rng, data):
    """The bytes with up to four changes."""
    data = bytearray(data)
    for _ in range(rng.randint(0, 4)):
        at = rng.randint(0, len(data))
        kind = rng.randint(0, 3)
        if kind == 0:
            data[at:at] = bytes([rng.randint(0, 255)])
        elif kind == 1:
            del data[at : at + rng.randint(1, 8)]
        elif kind == 2:
            data[at:at] = data[max(0, at - 30) : at]
        else:
            del data[at:]
    return bytes(data)


def request(rng, session):
    if rng.random() < 0.3:
        return mcp_request(rng, session)
    parts = [rng.choice(LINES), FIELDS[0], *rng.choices(FIELDS, k=rng.randint(0, 4)), b"\r\n", rng.choice(BODIES)]
    return broken(rng, b"".join(parts))


def answers(data):
    """The statuses in what a service sent; ValueError for anything that is no whole answer."""
    found = []
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.1 (\d{3}) ", head)
        if not status or not end:
            raise ValueError(f"no answer: {data[:80]!r}")
        if status[1] == b"100":
            data = rest
            continue
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        if not length or len(rest) < int(length[1]):
            raise ValueError(f"half an answer: {data[:200]!r}")
        found.append(int(status[1]))
        data = rest[int(length[1]) :]
    return found


def exchange(rng, port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S) as peer:
        try:
            at = 0
            while at < len(data):
                step = rng.choice([1, 7, 100, len(data)]) if len(data) < 2000 else len(data)
                peer.sendall(data[at : at + step])
                at += step
            if rng.random() < 0.7:
                peer.shutdown(socket.SHUT_WR)
            elif rng.random() < 0.3:
                return b""  # leaves without a word
            received = b""
            while block := peer.recv(65536):
                received += block
            return received
        except (BrokenPipeError, ConnectionResetError):
            return b""


def one(port, seed, index, session):
    """What is wrong with the answer to one input, or None; and the statuses that came."""
    rng = random.Random(f"{seed} {index}")
    data, begin, statuses = request(rng, session), time.monotonic(), []
    try:
        statuses = answers(exchange(rng, port, data))
        if bad := set(statuses) - ALLOWED:
            raise ValueError(f"status {bad}")
        if time.monotonic() - begin > LONGEST_S:
            raise ValueError("it took long")
    except (ValueError, OSError) as error:
        return f"http, input {index} of seed {seed}: {error}; sent {data[:300]!r}", statuses
    return None, statuses


def main():
    port, seconds, seed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    session = open_session(port)
    end, faults, counts = time.monotonic() + seconds, [], collections.Counter()

    def work(first):
        index = first
        while time.monotonic() < end and len(faults) < 20:
            fault, statuses = one(port, seed, index, session)
            counts.update(statuses)
            counts["inputs"] += 1
            if fault:
                faults.append(fault)
                print(fault)
            index += THREADS

    threads = [threading.Thread(target=work, args=(first,)) for first in range(1, THREADS + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"http: {counts.pop('inputs')} inputs, {len(faults)} failures, answers {dict(counts)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
