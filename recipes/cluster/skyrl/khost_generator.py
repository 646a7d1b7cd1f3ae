"""khost's episodes as a generator of SkyRL (docs/cluster.md): give `KhostGenerator` to the trainer instead of
SkyRLGymGenerator. SkyRL's inference engines draw ids, khost does the rest.

Rows of the data set carry the task in `env_extras["khost_task"]`, a hash or an id that the service has loaded."""

import asyncio

import khost_episodes as khost
from skyrl.train.generators.base import GeneratorInterface


class KhostGenerator(GeneratorInterface):
    """One row of GeneratorOutput for each prompt, in order. An episode without a reward is a stub: one masked token with
    the stop reason `khost_void`, which SkyRL's losses skip and `rollout_metrics` count."""

    def __init__(self, engine, settings, pad=0):
        """`engine`: an InferenceEngineInterface. `settings`: of khost_episodes.Episodes; set limits.tokens in it to what
        the trainer takes in all. `pad`: the id of a stub's one token."""
        self.engine, self.episodes, self.pad = engine, khost.Episodes(**settings), pad

    def _drawer(self, session, sampling, version):
        async def draw(tokens, max_tokens, stop_token_ids):
            output = await self.engine.generate({
                "prompts": None,
                "prompt_token_ids": [tokens],
                "sampling_params": {**sampling, "max_tokens": max_tokens, "stop_token_ids": stop_token_ids,
                                    "logprobs": 1},
                "session_ids": [session],
            })
            logprobs = output.get("response_logprobs")
            if not output["response_ids"][0] or output["stop_reasons"][0] == "abort":
                raise khost.NotDrawn(f"the engine stopped: {output['stop_reasons'][0]}")
            if not logprobs or logprobs[0] is None:
                raise ValueError("the engine gave no log-probabilities: set generator.sampling_params.logprobs")
            return khost.Drawn.of(output["response_ids"][0], logprobs[0], stop_token_ids, version)

        return draw

    async def _play(self, number, input_batch):
        extras = (input_batch.get("env_extras") or [])[number]
        metadata = input_batch.get("batch_metadata")
        version = metadata.global_step if metadata is not None else None
        ids = input_batch.get("trajectory_ids")
        session = ids[number].to_string() if ids else f"khost_{id(input_batch)}_{number}"
        draw = self._drawer(session, dict(input_batch.get("sampling_params") or {}), version)
        return await self.episodes.play(extras["khost_task"], draw)

    async def generate(self, input_batch):
        """Plays all rows at once."""
        count = len(input_batch["prompts"])
        rows = await asyncio.gather(*(self._play(number, input_batch) for number in range(count)))
        voids = [row.reward is None for row in rows]
        return {
            "prompt_token_ids": [row.prompt or [self.pad] for row in rows],
            "response_ids": [[self.pad] if void else row.response for row, void in zip(rows, voids)],
            "rewards": [self._rewards(row, void) for row, void in zip(rows, voids)],
            "loss_masks": [[0] if void else row.mask[row.prompt_length :] for row, void in zip(rows, voids)],
            "stop_reasons": ["khost_void" if void else self._stop_reason(row) for row, void in zip(rows, voids)],
            "rollout_metrics": {
                "khost/void": float(sum(voids)),
                "khost/tries": sum(row.tries for row in rows) / count,
                "khost/turns": sum(row.turns for row in rows) / count,
            },
            "rollout_logprobs": [[0.0] if void else row.logprobs[row.prompt_length :]
                                 for row, void in zip(rows, voids)],
            "trajectory_ids": input_batch.get("trajectory_ids"),
            "trajectory_generation_times": None,
            "trajectory_time_splits": None,
            "rollout_expert_indices": None,
            "rollout_sample_support": None,
            "is_last_step": None,
            "env_metrics": [{"khost_void": float(void), "khost_reward": row.reward or 0.0}
                            for row, void in zip(rows, voids)],
            "pixel_values": None,
            "image_grid_thw": None,
        }

    @staticmethod
    def _rewards(row, void):
        """By token: the reward stands on the last one, which the engine drew."""
        return [0.0] if void else [0.0] * (len(row.response) - 1) + [float(row.reward)]

    @staticmethod
    def _stop_reason(row):
        return "length" if row.ending in ("token_limit", "cut") else "stop"
