"""The client of episodes and the adapters that need no package, against a service of tests/lua/cluster_test.lua.

    cluster_client.py PORT

The service's judge finds every candidate wrong, and loses the judge for one that says `lost`."""

import asyncio
import dataclasses
import json
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "recipes" / "cluster" / folder) for folder in ("", "verl", "skyrl", "nemo_gym")]

import khost_episodes as khost  # noqa: E402

URL = f"http://127.0.0.1:{sys.argv[1]}"
TOKENS = json.loads(sys.argv[2])  # an answer's ids by its name, with the token that ends it
REQUEST = {"task": "task", "tokenizer": "toy", "format": "files", "limits": {"turns": 2}}


def drawer(names, seen=None):
    """Draws the named answers in turn; an exception among them is raised."""
    left = list(names)

    async def draw(tokens, max_tokens, stop_token_ids):
        if seen is not None:
            seen.append(list(tokens))
        name = left.pop(0)
        if isinstance(name, Exception):
            raise name
        ids = TOKENS[name]
        return khost.Drawn.of(ids, [-1.0] * len(ids), stop_token_ids, version=4)

    return draw


def played(names, **how):
    """An episode with these answers."""
    episode = {"format": "files", "limits": {"turns": how.pop("turns", 2)}}
    episodes = khost.Episodes(URL, "toy", episode=episode, patience_s=5, tries=how.pop("tries", 3))
    return asyncio.run(episodes.play(how.pop("task", "task"), drawer(names, how.pop("seen", None)), **how))


def check_client():
    seen = []
    row = played(["wrong", "done"], seen=seen)
    assert (row.reward, row.void, row.turns, row.tries, row.versions) == (-1, None, 2, 1, [4, 4]), row
    assert seen[0] == row.prompt and seen[1][: len(seen[0])] == seen[0] and row.tokens[: len(seen[1])] == seen[1]
    drawn = [row.tokens[begin:end] for begin, end, is_drawn in row.pieces() if is_drawn]
    assert drawn == [TOKENS["wrong"], TOKENS["done"]] and row.mask[-1] == 1
    assert [value for value, bit in zip(row.logprobs, row.mask, strict=True) if not bit] == [0.0] * row.mask.count(0)


def check_voids():
    row = played([khost.NotDrawn("gone"), "wrong", "done"])
    assert (row.reward, row.tries) == (-1, 2)
    row = played(["lost", "lost"], turns=1, tries=2)
    assert row.reward is None and row.tries == 2 and "judge" in row.void, row.void
    row = played(["wrong"], most_prompt=3)
    assert row.reward is None and row.tries == 1 and "the engine takes 3" in row.void


def refusal(**how):
    """The exception that an episode raises."""
    try:
        played(["wrong", "done"], **how)
    except Exception as failure:
        return failure
    raise AssertionError("nothing was raised")


class Restarted(khost.Service):
    """A service that has forgotten its first episode."""

    forgot = False

    async def ask(self, method, path, content=None):
        if path.endswith("/step") and not self.forgot:
            self.forgot = True
            raise khost.Refused(404, "no_episode", "it was started anew")
        return await super().ask(method, path, content)


def check_restart():
    episodes = khost.Episodes(URL, "toy", episode={"format": "files"})
    episodes.service = Restarted(URL)
    row = asyncio.run(episodes.play("task", drawer(["wrong", "wrong", "done"])))
    assert (row.reward, row.tries) == (-1, 2), row


def check_refusals():
    failure = refusal(task="no such task")
    assert isinstance(failure, khost.Refused) and failure.status == 404 and failure.code == "no_task"
    service = khost.Service("http://127.0.0.1:9", patience_s=0.1)
    try:
        asyncio.run(khost.play(service, REQUEST, drawer([])))
        raise AssertionError("nothing was raised")
    except khost.Unreachable as gone:
        assert "no answer for 0.1 s" in str(gone)


def check_cancelled():
    """Who is cancelled gives the episode up."""

    async def draw(tokens, max_tokens, stop_token_ids):
        await asyncio.sleep(60)

    async def cancel():
        task = asyncio.create_task(khost.play(khost.Service(URL), REQUEST, draw))
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel())


def stand_in(name, **members):
    """A module that only looks like an engine's."""
    parts = name.split(".")
    for at in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:at]), types.ModuleType(".".join(parts[:at])))
    for member, value in members.items():
        setattr(sys.modules[name], member, value)


class Base:
    """As much of verl's AgentLoopBase as an agent loop uses."""

    def __init__(self, rollout_config, server_manager):
        self.rollout_config, self.server_manager = rollout_config, server_manager
        self.tokenizer = types.SimpleNamespace(pad_token_id=0)


def record(**fields):
    """Keeps what it is called with."""
    return types.SimpleNamespace(**fields)


class Servers:
    """A server that draws what it is told, or nothing."""

    def __init__(self, names):
        self.names = list(names)

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        ids = TOKENS.get(self.names.pop(0)) if self.names else []
        return record(token_ids=ids, log_probs=[-1.0] * len(ids), stop_reason="completed" if ids else "aborted",
                      extra_fields={"global_steps": 9})


def check_verl():
    stand_in("verl.experimental.agent_loop.agent_loop", AgentLoopBase=Base, AgentLoopMetrics=record,
             AgentLoopOutput=record)
    import khost_agent_loop

    def loop(names, prompt_length=4096):
        return khost_agent_loop.KhostAgentLoop(
            record(prompt_length=prompt_length, response_length=2048), Servers(names), settings={
                "url": URL, "tokenizer": "toy", "episode": {"format": "files", "limits": {"turns": 2}}, "tries": 2})

    row = asyncio.run(loop(["wrong", "done"]).run({}, extra_info={"task": "task"}))
    assert row.reward_score == -1.0 and row.response_mask[-1] == 1 and row.extra_fields["max_global_steps"] == 9
    assert len(row.response_ids) == len(row.response_mask) == len(row.response_logprobs)
    for stub in (asyncio.run(loop([]).run({}, extra_info={"task": "task"})),
                 asyncio.run(loop(["wrong"], 3).run({}, extra_info={"task": "task"}))):
        assert (stub.response_mask, stub.reward_score, len(stub.response_ids)) == ([0], 0.0, 1)
        assert stub.extra_fields["reward_extra_info"]["khost_void"] == 1.0
    assert len(stub.prompt_ids) == 3


def check_skyrl():
    stand_in("skyrl.train.generators.base", GeneratorInterface=object)
    from khost_generator import KhostGenerator

    class Engine:
        """Draws for one row and fails for the other."""

        async def generate(self, batch):
            if batch["session_ids"] == ["bad"]:
                return {"response_ids": [[]], "stop_reasons": ["abort"]}
            ids = TOKENS["wrong"]
            return {"response_ids": [ids], "stop_reasons": ["stop"], "response_logprobs": [[-1.0] * len(ids)]}

    generator = KhostGenerator(Engine(), {
        "url": URL, "tokenizer": "toy", "episode": {"format": "files", "limits": {"turns": 1}}, "tries": 1})
    ids = [types.SimpleNamespace(to_string=lambda name=name: name) for name in ("good", "bad")]
    output = asyncio.run(generator.generate({"prompts": [[], []], "trajectory_ids": ids,
                                             "env_extras": [{"khost_task": "task"}] * 2}))
    assert output["loss_masks"] == [[1] * len(TOKENS["wrong"]), [0]] and output["rewards"][0][-1] == -1.0
    assert output["stop_reasons"] == ["stop", "khost_void"] and output["rollout_metrics"]["khost/void"] == 1.0


def check_nemo_gym():
    """Messages out, ids in: as recorded from a model server of Gym."""
    import khost_gym

    def server(names, forgets=False):
        tokens = []

        async def ask(params):
            item = params["input"][-1]
            prompt = [] if forgets and tokens else list(tokens)
            prompt += [len(item["content"]), 7, 7]
            ids = [11, 12]
            tokens[:] = prompt + ids
            text = names.pop(0)
            return {"id": "r", "output": [{"type": "message", "role": "assistant", "id": "m",
                                           "content": [{"type": "output_text", "text": text, "annotations": []}],
                                           "prompt_token_ids": prompt, "generation_token_ids": ids,
                                           "generation_log_probs": [-0.1, 0.0]}]}

        return ask

    def rollout(ask):
        episodes = khost.Episodes(URL, episode={"format": "files", "limits": {"turns": 2}}, patience_s=5, tries=1)
        return asyncio.run(khost_gym.rollout(episodes, "task", {"temperature": 1.0}, ask))

    result = rollout(server(["```cpp\nint b;\n```", "done"]))
    assert (result["reward"], result["mask_sample"], result["khost_void"]) == (-1.0, False, 0.0), result
    assert [item["role"] for item in result["response"]["output"]] == ["assistant", "user", "assistant"]
    assert [item["role"] for item in result["responses_create_params"]["input"]] == ["system", "user"]
    result = rollout(server(["no block", "done"], forgets=True))
    assert result["mask_sample"] is True and "does not continue" in result["failure_reason"], result
    result = rollout(lambda params: asyncio.sleep(0, {"output": [{"type": "function_call"}]}))
    assert result["mask_sample"] is True and "no parser" in result["failure_reason"], result


def main():
    assert dataclasses.is_dataclass(khost.Played)
    for check in (check_client, check_voids, check_restart, check_refusals, check_cancelled, check_verl, check_skyrl, check_nemo_gym):
        check()
    print("all holds")


if __name__ == "__main__":
    main()
