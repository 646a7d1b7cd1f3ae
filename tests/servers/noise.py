"""A server for tests/fuzz/http.lua that answers each connection with broken HTTP: the answer is made from the number in
the path, so that it can be asked for again. /endless is answered with a header that never ends. Usage: noise.py FILE;
the port that is served is written to FILE."""

import gzip
import json
import os
import random
import socket
import sys
import threading

CALL = {"id": "c", "type": "function", "function": {"name": "Bash", "arguments": "{\"command\": \"ls\"}"}}
BODIES = [
    json.dumps({"choices": [{"message": {"content": "text", "tool_calls": [CALL]}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}),
    "data: " + json.dumps({"choices": [{"delta": {"content": "a", "tool_calls": [{"index": 0, **CALL}]}}]}) + "\n\ndata: [DONE]\n\n",
    json.dumps({"error": {"message": "no", "code": None}}), json.dumps({"data": [{"id": "m"}]}), "", "[" * 5000, "\0" * 100, "{}",
]
STATUS = ["200 OK", "200", "429 Slow", "500 Oops", "400 Bad", "204 None", "301 Moved", "100 Continue", "999 ?", "0", "-1", "abc", ""]
NAMES = ["Retry-After", "Date", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Location", "Set-Cookie", "X", "", "A B", "Connection"]
VALUES = ["1", "-1", "1e9", "0", "Sun, 06 Nov 1994 08:49:37 GMT", "text/event-stream", "application/json", "gzip", "chunked", "file:///etc/passwd",
          "close", "keep-alive", "\0", "\xff" * 40, "x" * 20000, "", "a\r\n b"]


def chunked(body, rng):
    parts, at = [], 0
    while at < len(body):
        size = rng.randint(1, 50)
        piece = body[at:at + size]
        claimed = len(piece) if rng.random() < 0.95 else rng.randint(0, 1 << 40)
        parts.append(b"%x\r\n" % claimed + piece + b"\r\n")
        at += size
    return b"".join(parts) + (b"0\r\n\r\n" if rng.random() < 0.9 else b"")


def answer(number):
    rng = random.Random(number)
    body = rng.choice(BODIES).encode("latin-1")
    lines = [f"HTTP/{rng.choice(['1.1'] * 20 + ['1.0', '2', '9.9'])} {rng.choice(STATUS if rng.random() < 0.3 else STATUS[:1])}"]
    lines.extend(f"{rng.choice(NAMES)}: {rng.choice(VALUES)}" for _ in range(rng.choice([0, 0, 0, 1, 2, 4])))
    form = rng.random()
    if form < 0.3:
        lines.append("Transfer-Encoding: chunked")
        body = chunked(body, rng)
    elif form < 0.4:
        lines.append("Content-Encoding: gzip")
        body = gzip.compress(body)
    elif form < 0.8:
        lines.append(f"Content-Length: {rng.choice([len(body), len(body), len(body), len(body) // 2, -1, 1 << 62])}")
    whole = bytearray("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    for _ in range(rng.choice([0, 0, 0, 1, 2, 8])):
        at = rng.randrange(len(whole))
        if rng.random() < 0.5:
            whole[at] = rng.randrange(256)
        else:
            del whole[at:at + rng.randint(1, 30)]
            whole = whole or bytearray(b"H")
    return bytes(whole)


def serve(connection):
    with connection:
        connection.settimeout(5)
        try:
            request = b""
            while b"\r\n\r\n" not in request:
                more = connection.recv(65536)
                if not more:
                    return
                request += more
            if b" /endless" in request:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                for number in range(10**9):
                    connection.sendall(b"X-%d: %s\r\n" % (number, b"y" * 1000))
            connection.sendall(answer(int(request.split(b"/n/")[1].split(b"/")[0])))
            # What the client still sends is taken, or it would see a reset in place of the answer.
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            pass


def main():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(64)
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(server.getsockname()[1]))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


main()
