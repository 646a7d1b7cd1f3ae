"""A chat completions server that misbehaves on purpose: http://127.0.0.1:PORT/SCENARIO/v1/chat/completions.

Answers come from the length of the conversation, so that any server process can go on with one that another began. The
first requests of a scenario go wrong in its way; GET /SCENARIO/seen tells what came in. Usage: endpoint.py FILE [PORT];
the port that is served is written to FILE."""

import http.server
import json
import os
import sys
import threading
import time

COUNTS = {}
LAST = {}
LOCK = threading.Lock()
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}


def call(number, name, arguments):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": text}}


KERNEL = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../kernels/good/broadcast_bias/kernels/broadcast_bias.cpp")


def kernel_turn(answers):
    """A whole episode for tests/data/kernels/cpu/good/broadcast_bias: the kernel with a constant, what the workspace says, the end."""
    if answers == 0:
        with open(KERNEL) as file:
            text = "constexpr int kUnused = 1;\n" + file.read()
        return {"role": "assistant", "content": "", "tool_calls": [
            call(1, "Read", {"file_path": "/workspace/SKILL.md"}),
            call(2, "Write", {"file_path": "/workspace/kernels/broadcast_bias.cpp", "content": text})]}, "tool_calls"
    if answers == 1:
        command = ("sh utils/compile.sh; python3 -m utils.verification; python3 -m utils.profiling; "
                   "python3 -m utils.tune --arg kUnused=1,2")
        return {"role": "assistant", "content": "", "tool_calls": [call(3, "Bash", {"command": command, "timeout": 600000})]}, "tool_calls"
    return {"role": "assistant", "content": "The kernel stands."}, "stop"


ACTIVATIONS = ["torch.tanh(x)", "F.gelu(x)", "F.silu(x)", "F.softplus(x)", "torch.sin(x)", "F.elu(x)", "F.mish(x)"]
LAYER = """Here it is:
```python
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(512, 512)

    def forward(self, x):
        x = self.linear(x)
        return {activation}


def get_inputs():
    return [torch.randn(1024, 512)]


def get_init_inputs():
    return []
```
"""


def layer_turn(answers, number):
    """Who composes tasks: refuses at first, then writes a layer, another one each time."""
    if answers == 0:
        return {"role": "assistant", "content": "I would rather not."}, "stop"
    return {"role": "assistant", "content": LAYER.replace("{activation}", ACTIVATIONS[number // 2 % len(ACTIVATIONS)])}, "stop"


def turn(scenario, messages, number=0):
    """What the model says next: two calls at once, a command, the end."""
    answers = sum(message["role"] == "assistant" for message in messages)
    if scenario == "kernel":
        return kernel_turn(answers)
    if scenario == "layer":
        return layer_turn(answers, number)
    if scenario == "length":
        return {"role": "assistant", "content": "a half sen"}, "length"
    if answers == 0:
        calls = [call(1, "Write", {"file_path": "/workspace/kernels/k.cpp", "content": "int k;\n"}),
                 call(2, "Glob", {"pattern": "kernels/k*.cpp"})]
        if scenario == "badargs":
            calls[0]["function"]["arguments"] = '{"file_path": "/workspace/ker'
        if scenario == "dialects":
            calls[0]["function"]["arguments"] = json.loads(calls[0]["function"]["arguments"])
            calls[1]["id"] = "call_1"
            return {"role": "assistant", "content": [{"type": "text", "text": "parts"}], "reasoning": "thinking", "tool_calls": calls}, "tool_calls"
        return {"role": "assistant", "content": None, "reasoning_content": "thinking", "tool_calls": calls}, "tool_calls"
    if answers == 1:
        return {"role": "assistant", "content": "I look.", "tool_calls": [call(3, "Bash", {"command": "cat kernels/k.cpp; seq 3"})]}, "tool_calls"
    return {"role": "assistant", "content": "The kernel stands."}, "stop"


def mistakes(messages):
    """What a strict server refuses: a call without its result, arguments that are not JSON."""
    open_calls = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"a result without a call: {message['tool_call_id']}"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"calls without a result: {open_calls}"
        for item in message.get("tool_calls") or []:
            if not isinstance(json.loads(item["function"]["arguments"]), dict):
                return "arguments are not an object"
            open_calls.append(item["id"])
        if len(set(open_calls)) != len(open_calls):
            return "two calls have one id"
    return f"calls without a result: {open_calls}" if open_calls else None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, value, headers=(), kind="application/json"):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        _, scenario, rest = self.path.split("/", 2)
        if rest == "seen":
            self.reply(200, {"requests": COUNTS.get(scenario, 0), **LAST.get(scenario, {})})
        elif rest == "v1/models":
            self.reply(200, {"data": [{"id": "small-model"}]})
        elif rest == "slow":
            time.sleep(20)
        elif rest == "large":
            self.reply(200, b"x" * 100000, kind="text/plain")
        elif rest == "redirect":
            self.reply(302, {}, [("Location", "/other/seen")])
        else:
            self.reply(404, {"error": {"message": "not found"}})

    def do_POST(self):
        scenario = self.path.split("/")[1]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with LOCK:
            number = COUNTS[scenario] = COUNTS.get(scenario, 0) + 1
            LAST[scenario] = {"authorization": self.headers.get("Authorization"), "body": body, "pid": os.getpid()}
        if self.go_wrong(scenario, number, body):
            return
        wrong = mistakes(body["messages"])
        if wrong:
            self.reply(400, {"error": {"message": wrong}})
            return
        message, finish = turn(scenario, body["messages"], number)
        if body.get("stream"):
            self.stream(scenario, number, message, finish)
        else:
            self.reply(200, {"model": "small-model", "usage": USAGE,
                             "choices": [{"index": 0, "message": message, "finish_reason": finish}]})

    def go_wrong(self, scenario, number, body):
        if scenario == "busy" and number <= 2:
            self.reply(429, {"error": {"message": "slow down"}}, [("Retry-After", "1" if number == 1 else "0")])
        elif scenario == "dated" and number == 1:
            # Clocks differ: what counts is the time from the server's own date, which send_response writes.
            self.reply(429, {"error": {"message": "slow down"}}, [("Retry-After", self.date_time_string(time.time() + 2))])
        elif scenario == "broken" and number <= 2:
            self.reply(500 + 3 * (number - 1), b"<html>oops</html>", kind="text/html")
        elif scenario == "down":
            self.reply(500, {"error": "always"})
        elif scenario == "cut" and number == 1:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [{"mess')
            self.close_connection = True
        elif scenario == "reset" and number <= 2:  # a client may send again by itself on a connection that it kept
            self.close_connection = True
        elif scenario == "garbage" and number == 1:
            self.reply(200, b"it works!", kind="text/html")
        elif scenario == "empty" and number == 1:
            self.reply(200, {"choices": []})
        elif scenario == "strict" and "parallel_tool_calls" in body:
            self.reply(400, {"error": {"message": "Unrecognized request argument supplied: parallel_tool_calls"}})
        elif scenario == "strict" and "max_tokens" in body:
            self.reply(400, {"error": {"message": "Unsupported parameter: use 'max_completion_tokens' instead."}})
        elif scenario == "refuse":
            self.reply(401, {"error": {"message": "Incorrect API key: " + str(self.headers.get("Authorization"))}})
        elif scenario == "overflow" and len(body["messages"]) > 2:
            self.reply(400, {"error": {"message": "This model's maximum context length is 4096 tokens."}})
        else:
            return False
        return True

    def stream(self, scenario, number, message, finish):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

        def event(delta, **more):
            choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
            self.wfile.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
            self.wfile.flush()

        event({"role": "assistant", "content": ""})
        for letter in message.get("content") or "":
            event({"content": letter})
        for index, item in enumerate(message.get("tool_calls") or []):
            arguments = item["function"]["arguments"]
            event({"tool_calls": [{"index": index, "id": item["id"], "type": "function",
                                   "function": {"name": item["function"]["name"], "arguments": ""}}]})
            for at in range(0, len(arguments), 7):
                if scenario == "stall" and number == 1:
                    time.sleep(20)
                if scenario == "cutstream" and number == 1:
                    return
                if scenario == "errorstream" and number == 1:
                    self.wfile.write(b'data: {"error": {"message": "the engine died"}}\n\n')
                    return
                event({"tool_calls": [{"index": index, "function": {"arguments": arguments[at:at + 7]}}]})
        event({}, finish_reason=finish)
        self.wfile.write(b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\ndata: [DONE]\n\n")
        self.wfile.flush()
        if scenario == "lingers":
            time.sleep(20)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
    server.daemon_threads = True
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(server.server_port))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    server.serve_forever()


main()
