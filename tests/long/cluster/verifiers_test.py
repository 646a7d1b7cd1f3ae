"""The environment for verifiers against the installed package: its loaders find it, its slots run it, and a fake vLLM
server draws. Run by tests/long/cluster.sh. Ends with 1 where something does not hold."""

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import answers
import running

sys.path.insert(0, str(running.CLUSTER / "verifiers"))

import verifiers.v1 as vf
from tokenizers import Tokenizer


class Engine(ThreadingHTTPServer):
    """A vLLM server as far as its `/inference/v1/generate` goes; without it, `/v1/completions`. Conversations begin with
    a task's text and get that task's next plan."""

    daemon_threads = True

    def __init__(self, tokenizer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tokenizer, self.plans, self.queue, self.fails, self.has_generate = tokenizer, {}, {}, False, True
        self.asked, self.lock = [], threading.Lock()

    def answer(self, session, tokens, sampling):
        """The ids of an answer and their log-probabilities."""
        with self.lock:
            if session not in self.plans:
                text = self.tokenizer.decode(tokens, skip_special_tokens=False)
                self.plans[session] = list(self.queue["chain" if "torch.abs" in text else "diagonal"])
            text = self.plans[session].pop(0)
        ids = [*self.tokenizer.encode(text, add_special_tokens=False).ids, sampling["stop_token_ids"][0]]
        ids = ids[: sampling["max_tokens"]]
        return ids, [-(index + 1) / 1024 for index in range(len(ids))]


class Handler(BaseHTTPRequestHandler):
    """One request, as vLLM answers it."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body, self.headers.get("X-Session-ID")))
        if self.server.fails:
            self.give(500, {"error": {"message": "out of memory"}})
        elif self.path == "/inference/v1/generate" and self.server.has_generate:
            ids, logprobs = self.server.answer(self.headers["X-Session-ID"], body["token_ids"], body["sampling_params"])
            content = [{"token": f"token_id:{token}", "logprob": value} for token, value in zip(ids, logprobs)]
            self.give(200, {"request_id": "r", "choices": [
                {"index": 0, "token_ids": ids, "finish_reason": "stop", "logprobs": {"content": content}}]})
        elif self.path == "/v1/completions":
            assert body["return_token_ids"] is True
            ids, logprobs = self.server.answer(self.headers["X-Session-ID"], body["prompt"], body)
            self.give(200, {"choices": [{"index": 0, "text": "", "token_ids": ids, "finish_reason": "stop",
                                         "logprobs": {"token_logprobs": logprobs}}]})
        else:
            self.give(404, {"detail": "Not Found"})

    def give(self, status, content):
        """An answer."""
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        """Says nothing."""


def env_of(service):
    """The environment as a run's configuration names it."""
    config_type = vf.env_config_type("khost_kernels")
    config = config_type.model_validate({
        "taskset": {"id": "khost_kernels", "tasks": ["diagonal", "chain"]},
        "url": service.url, "tokenizer": running.TOKENIZER, "patience_s": 900,
        "episode": {"format": "files", "measure": False, "limits": {"turns": 3, "answer_tokens": 1024}}})
    env = vf.load_environment(config)
    assert type(env).__name__ == "KhostEnv" and [task.key for task in env.taskset] == ["diagonal", "chain"]
    return env


def run(env, engine, tasks):
    """Episodes of tasks, as verifiers' runners make them."""
    client = vf.TrainClientConfig(base_url=f"http://127.0.0.1:{engine.server_port}/v1", api_key_var="NO_KEY")
    ctx = vf.ModelContext(model="policy", client=client, sampling=vf.Sampling(temperature=1.0))

    async def all_of():
        return await asyncio.gather(*(env.run_slot(env.slots(task)[0], ctx) for task in tasks))

    return asyncio.run(all_of())


def check_sample(service, episode, reward, turns):
    """The one branch of a trace is khost's own record, token by token."""
    (trace,) = episode.traces
    assert episode.ok and trace.ok and trace.reward == reward and trace.num_turns == turns, trace.errors
    assert trace.num_branches == 1 and trace.metrics["khost_void"] == 0.0
    branch = trace.branches[0]
    kept = service.trajectory(trace.info["khost"]["trajectory"])
    tokens, mask = running.numbers(kept["tokens"], "i"), running.numbers(kept["mask"], "b")
    assert branch.token_ids == tokens, "the branch is not khost's own record"
    assert [int(bit) for bit in branch.sampled_mask] == mask
    drawn = [value for value, bit in zip(branch.logprobs, mask) if bit]
    assert drawn[0] == -1 / 1024 and all(value < 0 for value in drawn)
    # What goes to a trainer over verifiers' own wire.
    again = vf.WireEpisode.model_validate(episode.model_dump(mode="json"))
    assert again.traces[0].branches[0].token_ids == tokens


def check_rewards(service, env, engine):
    tasks, engine.asked = list(env.taskset), []
    engine.queue = {"diagonal": ["I do not know.", answers.block(answers.KERNELS[-1][1]), "done"],
                    "chain": [answers.block(answers.KERNELS[2][1]), "done"]}
    wrong, right = run(env, engine, tasks)
    check_sample(service, wrong, -1.0, 3)
    check_sample(service, right, 1.0, 2)
    paths = {path for path, _, _ in engine.asked}
    sessions = {session for _, _, session in engine.asked}
    assert paths == {"/inference/v1/generate"} and len(sessions) == 2, (paths, sessions)
    engine.has_generate = False
    (old,) = run(env, engine, tasks[1:])
    check_sample(service, old, 1.0, 2)
    assert engine.asked[-1][0] == "/v1/completions"
    engine.has_generate = True
    print("verifiers: rewards -1 and 1, branches equal to khost's record, over both routes of the engine", flush=True)


def check_void(env, engine):
    """An engine that fails: no sample, an error that is data, and verifiers' own retry plays again."""
    engine.fails = True
    (episode,) = run(env, engine, list(env.taskset)[:1])
    (trace,) = episode.traces
    assert not episode.ok and not trace.ok and trace.metrics == {"khost_void": 1.0, "khost_tries": 3.0}
    assert trace.errors[0].type == "SandboxError" and "out of memory" in trace.errors[0].message, trace.errors
    assert trace.num_branches == 0 and trace.rewards == {}
    engine.fails = False
    print("verifiers: a void is a trace with an error and without a sample", flush=True)


def check_refused(service, engine):
    env = env_of(service)
    task = next(iter(env.taskset)).with_data(task="no_such_task")
    (episode,) = run(env, engine, [task])
    assert not episode.ok and "no_task" in episode.traces[0].errors[0].message, episode.traces[0].errors


def main():
    with running.service() as service:
        tokenizer = Tokenizer.from_file(str(service.folder / "tokenizer.json"))
        engine = Engine(tokenizer)
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        env = env_of(service)
        check_void(env, engine)
        check_refused(service, engine)
        check_rewards(service, env, engine)
        engine.shutdown()
    print("verifiers: all holds")


if __name__ == "__main__":
    main()
