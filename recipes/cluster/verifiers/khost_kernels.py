"""khost's episodes as an environment of verifiers (docs/cluster.md): a taskset and an Env, under the id `khost_kernels`.

Put this folder and the one above it on PYTHONPATH and name the environment by its id. khost has the tools, the prompt and
the tokenizer; the engine is the run's own vLLM server. A trace holds the ids that khost sent and the server drew, so its
one branch is the training sample, without a renderer.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import khost_episodes as khost
import verifiers.v1 as vf
from verifiers.v1.clients.client import SESSION_ID_HEADER
from verifiers.v1.configs.client import resolve_api_key, resolve_headers
from vllm_draw import VllmDraw

__all__ = ["KhostEnv", "KhostTaskset"]


class KhostData(vf.TaskData):
    """`task`: the hash or id of a task that the service has loaded."""

    task: str


class KhostTask(vf.Task[KhostData]):
    """A task whose behaviour is the service's."""

    @property
    def key(self) -> str:
        return self.data.task


class KhostTasksetConfig(vf.TasksetConfig):
    """`tasks`: hashes or ids. `file`: one JSON object a line, with the field `task`."""

    tasks: list[str] = []
    file: Path | None = None


class KhostTaskset(vf.Taskset[KhostTask, KhostTasksetConfig]):
    """The tasks by name; their texts stay with the service."""

    def load(self):
        """Yields the tasks of the list, then those of the file."""
        names = list(self.config.tasks)
        if self.config.file is not None:
            names += [json.loads(line)["task"] for line in self.config.file.read_text().splitlines() if line.strip()]
        for name in names:
            yield KhostTask(KhostData(id=name, name=name, task=name), self.config.task)


class KhostEnvConfig(vf.EnvConfig):
    """Where the service is and how its episodes are played; `episode` has further fields of POST /v1/episodes."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    url: str = "http://127.0.0.1:8420"
    token_file: Path | None = None
    tokenizer: str = "policy"
    episode: dict[str, Any] = {}
    patience_s: float = 1800.0
    tries: int = 3


class KhostEnv(vf.Env[KhostEnvConfig]):
    """One episode of `khost serve` for each task. An episode without a reward is a trace with an error and no message:
    it is no sample, `--env.retries` may run it again, and the metric `khost_void` counts it."""

    async def run(self, task, agents):
        """Not asked: the agent's turns are khost's, so `run_episode` plays without verifiers' agents."""
        raise NotImplementedError("khost plays its episodes itself: call run_episode")

    async def run_episode(self, task, ctx, *, on_trace=None, on_discard=None):
        """Plays one episode as `Env.run_episode` does."""
        about = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        episode = vf.Episode(env=vf.EnvInfo(id=self.config.env_id), task=about)
        agent = self.config.agent.model_copy(
            update={"model": ctx.model, "client": ctx.client, "sampling": ctx.sampling}
        )
        trace = vf.Trace(task=about, state=vf.State(), agent=vf.AgentInfo(config=agent))
        if on_trace is not None:
            on_trace(trace)
        try:
            async with asyncio.timeout(self.config.timeout.episode):
                fill(trace, await self._play(task, ctx, trace), ctx)
        except TimeoutError:
            trace.record_timeout("agent")
        except (khost.Refused, khost.Unreachable, RuntimeError) as failure:
            trace.record_error(vf.EnvError(str(failure)))
        episode.traces.append(trace)
        episode.ok = trace.ok
        return episode

    async def _play(self, task, ctx, trace):
        config = self.config
        episodes = khost.Episodes(config.url, config.tokenizer, config.token_file, config.episode, config.patience_s,
                                  config.tries)
        headers = {**resolve_headers(ctx.client), "Authorization": f"Bearer {resolve_api_key(ctx.client)}",
                   SESSION_ID_HEADER: trace.id}
        draw = VllmDraw(ctx.client.base_url, ctx.model, ctx.sampling.model_dump(exclude_none=True), headers)
        return await episodes.play(task.data.task, draw)


def fill(trace, played, ctx):
    """Writes an episode into a trace: a message for each piece, whose ids put together are the conversation."""
    trace.record_metrics({"khost_void": float(played.reward is None), "khost_tries": float(played.tries)})
    trace.info["khost"] = {"trajectory": played.trajectory, "ending": played.ending, "void": played.void,
                           "versions": played.versions, "verdict": played.verdict}
    if played.reward is None:
        trace.record_error(vf.SandboxError(f"khost has no reward for this episode: {played.void}"))
        return
    for begin, end, drawn in played.pieces():
        content = f"[{end - begin} token ids of episode {played.trajectory} in khost's run]"
        message = vf.AssistantMessage(content=content) if drawn else vf.UserMessage(content=content)
        trace.nodes.append(vf.MessageNode(
            parent=len(trace.nodes) - 1 if trace.nodes else None,
            message=message,
            sampled=drawn,
            token_ids=played.tokens[begin:end],
            mask=[drawn] * (end - begin),
            logprobs=played.logprobs[begin:end] if drawn else [],
        ))
        if drawn:
            usage = vf.Usage(prompt_tokens=begin, completion_tokens=end - begin)
            trace.calls.append(vf.ModelCall(node=len(trace.nodes) - 1, model=ctx.model, usage=usage))
    trace.record_reward("khost", played.reward)
    trace.record_metrics({f"khost_{name}": value for name, value in played.parts.items()
                          if isinstance(value, (int, float))})
    trace.ok = True
    trace.stop("agent_completed")
