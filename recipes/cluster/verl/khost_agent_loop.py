"""khost's episodes as an agent loop of verl (docs/cluster.md). verl's servers draw, khost does everything else.

Name it in a file that `actor_rollout_ref.rollout.agent.agent_loop_config_path` points to (agent_loop.yaml beside this
one), and set `default_agent_loop: khost`. Rows of the data set carry the task in `extra_info.task`, a hash or an id that
the service has loaded; their prompt is not used, since khost encodes the prompt.
"""

import logging
import time
from typing import Any
from uuid import uuid4

import khost_episodes as khost
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

logger = logging.getLogger(__name__)


# Not by verl's decorator `register`: it would replace what the configuration says, url and all, when it is imported.
class KhostAgentLoop(AgentLoopBase):
    """One episode of `khost serve`. What the service gives no reward for becomes a masked stub: verl's losses, its
    advantages and its whitening skip a sequence whose mask is 0 everywhere, and `khost_void` counts it."""

    def __init__(self, *args, settings, **kwargs):
        """`settings`: of khost_episodes.Episodes."""
        super().__init__(*args, **kwargs)
        self.episodes = khost.Episodes(**settings)

    def _drawer(self, sampling_params, seconds):
        request_id = uuid4().hex  # the same for all turns: they go to the server that has the prefix in its cache

        async def draw(tokens, max_tokens, stop_token_ids):
            begin = time.monotonic()
            output = await self.server_manager.generate(
                request_id=request_id,
                prompt_ids=tokens,
                sampling_params={
                    **sampling_params,
                    "max_tokens": max_tokens,
                    "stop_token_ids": stop_token_ids,
                    "logprobs": True,
                },
            )
            seconds["drawn"] += time.monotonic() - begin
            if output.stop_reason == "aborted" or not output.token_ids:
                raise khost.NotDrawn(f"the server stopped: {output.stop_reason}")
            if output.log_probs is None or len(output.log_probs) != len(output.token_ids):
                raise ValueError("the server gave no log-probabilities; set actor_rollout_ref.rollout.calculate_log_probs")
            version = output.extra_fields.get("global_steps")
            return khost.Drawn.of(output.token_ids, output.log_probs, stop_token_ids, version)

        return draw

    async def run(self, sampling_params: dict[str, Any], **kwargs) -> AgentLoopOutput:
        """One row of the batch."""
        task = (kwargs.get("extra_info") or {}).get("task")
        if not task:
            raise ValueError("a row of the data set has no extra_info.task: the hash or id of a task that khost has loaded")
        seconds, begin, rollout = {"drawn": 0.0}, time.monotonic(), self.rollout_config
        limits = {
            "tokens": rollout.prompt_length + rollout.response_length,
            "response_tokens": rollout.response_length,
        }
        played = await self.episodes.play(
            task, self._drawer(sampling_params, seconds), limits, most_prompt=rollout.prompt_length
        )
        metrics = AgentLoopMetrics(
            generate_sequences=seconds["drawn"], tool_calls=time.monotonic() - begin - seconds["drawn"]
        )
        return self._output(played, metrics)

    def _output(self, played, metrics):
        void = played.reward is None
        if void:
            logger.warning("khost: a sample is masked, since its episode has no reward: %s", played.void)
        versions = [version for version in played.versions if isinstance(version, int)]
        pad = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else 0
        return AgentLoopOutput(
            prompt_ids=played.prompt[: self.rollout_config.prompt_length] or [pad],
            response_ids=[pad] if void else played.response,
            response_mask=[0] if void else played.mask[played.prompt_length :],
            response_logprobs=[0.0] if void else played.logprobs[played.prompt_length :],
            reward_score=0.0 if void else float(played.reward),
            num_turns=2 * played.turns + 1,
            metrics=metrics,
            extra_fields={
                "turn_scores": [],
                "tool_rewards": [],
                "min_global_steps": min(versions, default=None),
                "max_global_steps": max(versions, default=None),
                "khost_trajectory": played.trajectory,
                "khost_void_reason": played.void,
                # Numbers that verl averages and prints; all rows must have the same.
                "reward_extra_info": {"khost_void": float(void), "khost_tries": float(played.tries)},
            },
        )
