"""Serves one file as web servers and the networks before them do, for specs of downloads.

    files.py FILE [PORT]

writes its port to FILE. GET /MODE/... answers by the mode: whole, cut (the first answer breaks off in the middle, the
next ones serve ranges), stubborn (every answer breaks off before its first byte), no_ranges (the first answer breaks
off, later ones begin anew), other (another file of the same size), long (a larger file), short (a smaller one), busy
(503 first), moved (a redirect to /whole/), relative (the same without a host), loop, 401, 403, 404. GET /seen tells the
ranges that were asked for, by mode. The file: SIZE bytes, byte i is i * 7 % 251."""

import http.server
import json
import os
import sys
import threading

SIZE = 300_000
DATA = bytes(i * 7 % 251 for i in range(SIZE))
SEEN = {}
LOCK = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body, headers=None, length=None, sent=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body if sent is None else body[:sent])
        if sent is not None:
            self.wfile.flush()
            self.close_connection = True

    def send_range(self, data, sent=None):
        asked = self.headers.get("Range")
        if not asked:
            return self.send(200, data, length=len(data), sent=sent)
        begin = int(asked.removeprefix("bytes=").split("-")[0])
        if begin >= len(data):
            return self.send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        rest = data[begin:]
        return self.send(206, rest, {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}, len(rest), sent)

    def do_GET(self):
        mode = self.path.split("/")[1]
        if mode == "seen":
            return self.send(200, json.dumps(SEEN).encode())
        with LOCK:
            ranges = SEEN.setdefault(mode, [])
            ranges.append(self.headers.get("Range") or "")
            first = len(ranges) == 1
        if mode == "cut":
            return self.send_range(DATA, SIZE // 3 if first else None)
        if mode == "no_ranges":
            return self.send(200, DATA, sent=SIZE // 3 if first else None)
        if mode == "stubborn":
            return self.send_range(DATA, 0)
        if mode == "busy" and first:
            return self.send(503, b"later", {"Retry-After": "1"})
        if mode == "other":
            return self.send_range(bytes(SIZE))
        if mode in ("long", "short"):
            return self.send(200, DATA + b"x" if mode == "long" else DATA[:-1])
        if mode in ("moved", "relative", "loop"):
            host = "" if mode == "relative" else "http://" + self.headers["Host"]
            return self.send(302, b"", {"Location": host + ("/loop/x" if mode == "loop" else "/whole/file")})
        if mode in ("401", "403", "404"):
            return self.send(int(mode), b"no")
        return self.send_range(DATA)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
    with open(sys.argv[1] + ".new", "w") as out:
        out.write(str(server.server_address[1]))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    server.serve_forever()


if __name__ == "__main__":
    main()
