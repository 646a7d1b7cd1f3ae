"""A chat completions server that says what a spec tells it, byte by byte. Usage: scripted.py FILE [PORT]; the port that is
served is written to FILE.

    POST /NAME/script                  a JSON list of answers; the last one answers all further requests
    POST /NAME/v1/chat/completions     the next answer
    GET  /NAME/seen                    every request so far: {"body", "at"}, `at` in seconds

An answer: {"status", "type", "headers", "body" (text, or a value for JSON), "chunk" (bytes of a chunk of the transfer;
all at once when absent), "cut" (send so many bytes and close the connection), "hold" (keep it open for so many seconds
behind the body, which then has no length)}."""

import http.server
import json
import os
import sys
import threading
import time

SCRIPTS = {}
SEEN = {}
LOCK = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        _, name, rest = self.path.split("/", 2)
        self.reply(SEEN.get(name, []) if rest == "seen" else {"data": [{"id": "small-model"}]})

    def do_POST(self):
        _, name, rest = self.path.split("/", 2)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if rest == "script":
            SCRIPTS[name], SEEN[name] = body, []
            self.reply({})
            return
        with LOCK:
            number = len(SEEN[name])
            SEEN[name].append({"body": body, "at": time.time()})
        self.say(SCRIPTS[name][min(number, len(SCRIPTS[name]) - 1)])

    def say(self, answer):
        body = answer["body"].encode() if isinstance(answer["body"], str) else json.dumps(answer["body"]).encode()
        self.send_response(answer.get("status", 200))
        if answer.get("type", "application/json"):
            self.send_header("Content-Type", answer.get("type", "application/json"))
        for key, value in answer.get("headers", {}).items():
            self.send_header(key, value)
        chunk, cut, hold = answer.get("chunk"), answer.get("cut"), answer.get("hold")
        if chunk:
            self.send_header("Transfer-Encoding", "chunked")
        elif hold:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = bool(cut or hold)
        for at in range(0, cut or len(body), chunk or len(body) or 1):
            piece = body[at:at + (chunk or len(body))][:cut]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunk else piece)
            self.wfile.flush()
        if chunk and not cut:
            self.wfile.write(b"0\r\n\r\n")
        if hold:
            self.wfile.flush()
            time.sleep(hold)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
    server.daemon_threads = True
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(server.server_port))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    server.serve_forever()


main()
