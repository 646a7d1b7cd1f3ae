"""Stands before a chat completions server that others wrote, and does to it what networks and operators do.

    faults.py FILE UPSTREAM_PORT COMMAND...

starts COMMAND, which serves UPSTREAM_PORT, waits for it, and writes its own port to FILE. Of the requests for an answer
the first gets 429, the second 500, the third half an answer; with the fourth the server is killed and started again.
Of what comes after that, the first tool call is broken. GET /seen tells what was done."""

import http.client
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

FILE, UPSTREAM, COMMAND = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
DONE = {"status_429": 0, "status_500": 0, "cut": 0, "restarts": 0, "refused": 0, "broken_calls": 0, "answers": 0}
LOCK = threading.Lock()
server = None
requests = 0


def start():
    """Starts the server and waits until it takes connections."""
    global server
    server = subprocess.Popen(COMMAND, start_new_session=True)
    for _ in range(1200):
        if server.poll() is not None:
            sys.exit(f"faults.py: the server ended with {server.returncode}")
        try:
            socket.create_connection(("127.0.0.1", UPSTREAM), 1).close()
            return
        except OSError:
            time.sleep(0.25)
    sys.exit("faults.py: the server takes no connections")


def stop(*_):
    if server and server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def quit_(*_):
    stop()
    os._exit(0)


def restart():
    stop()
    DONE["restarts"] += 1
    threading.Thread(target=start, daemon=True).start()


def forward(method, path, headers, body):
    """Status, kind and body of the server's answer; OSError when it is not there."""
    connection = http.client.HTTPConnection("127.0.0.1", UPSTREAM, timeout=600)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", "application/json"), answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def broken(body):
    """The answer with its first call made unreadable; None when it has none."""
    answer = json.loads(body)
    message = answer["choices"][0]["message"]
    content = message.get("content") or ""
    if '"arguments": {' not in content:
        return None
    message["content"] = content.replace('"arguments": {', '"arguments": {{', 1)
    return json.dumps(answer).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json", headers=(), most=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")  # clients send again by themselves on a connection that they kept
        for name, text in headers:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body[:most])
        self.close_connection = True

    def pass_on(self, body=None, change=None):
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            status, kind, answer = forward(self.command, self.path, headers, body)
        except OSError:
            DONE["refused"] += 1
            self.close_connection = True
            return
        changed = change(answer) if change and status == 200 else None
        if changed:
            DONE["broken_calls"] += 1
        DONE["answers"] += status == 200 and self.command == "POST"
        self.reply(status, changed or answer, kind)

    def do_GET(self):
        if self.path == "/seen":
            self.reply(200, json.dumps(DONE).encode())
        else:
            self.pass_on()

    def do_POST(self):
        global requests
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with LOCK:
            requests += 1
            number = requests
        if number == 1:
            DONE["status_429"] += 1
            self.reply(429, b'{"error": {"message": "slow down"}}', headers=[("Retry-After", "1")])
        elif number == 2:
            DONE["status_500"] += 1
            self.reply(500, b"<html>oops</html>", "text/html")
        elif number == 3:
            status, kind, answer = forward("POST", self.path, {"Content-Type": "application/json"}, body)
            DONE["cut"] += 1
            self.reply(status, answer, kind, most=len(answer) // 2)
        elif number == 4:
            restart()
            self.close_connection = True
        else:
            self.pass_on(body, None if DONE["broken_calls"] else broken)


def main():
    signal.signal(signal.SIGTERM, quit_)
    signal.signal(signal.SIGINT, quit_)
    start()
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    with open(FILE + ".new", "w") as file:
        file.write(str(proxy.server_port))
    os.rename(FILE + ".new", FILE)
    proxy.serve_forever()


main()
