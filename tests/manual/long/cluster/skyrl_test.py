"""The generator for SkyRL against SkyRL's own classes, from the sources that pip gives, and a fake inference engine.

SkyRL needs Python 3.12, so it is unpacked and not installed. Run by tests/manual/long/cluster.sh. Ends with 1 where something
does not hold."""

import asyncio
import sys

import answers
import running
import typed_dict  # noqa: F401  before whatever makes pydantic look at a TypedDict

sys.path.insert(0, str(running.CLUSTER / "skyrl"))

import torch
from khost_generator import KhostGenerator
from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.generators.base import BatchMetadata, TrajectoryID
from skyrl.train.utils.trainer_utils import validate_generator_output
from tokenizers import Tokenizer


class Engine:
    """As much of InferenceEngineInterface as a generator asks for: it says what a plan says, ids in and ids out."""

    def __init__(self, tokenizer):
        self.tokenizer, self.plans, self.fails = tokenizer, {}, set()

    async def generate(self, input_batch, model=None):
        """One prompt's answer."""
        (tokens,), (session,) = input_batch["prompt_token_ids"], input_batch["session_ids"]
        sampling = input_batch["sampling_params"]
        assert input_batch["prompts"] is None and sampling["temperature"] == 1.0 and tokens
        if session in self.fails:
            return {"responses": [""], "response_ids": [[]], "stop_reasons": ["abort"], "response_logprobs": None}
        text = self.plans[session].pop(0)
        ids = [*self.tokenizer.encode(text, add_special_tokens=False).ids, sampling["stop_token_ids"][0]]
        ids = ids[: sampling["max_tokens"]]
        return {"responses": [text], "response_ids": [ids], "stop_reasons": ["stop"],
                "response_logprobs": [[-(index + 1) / 1024 for index in range(len(ids))]]}


def gae_runs_over_observations():
    """Whether SkyRL's advantages of drawn tokens depend on values at masked ones: what the page says."""
    rewards, mask = torch.zeros(1, 6), torch.tensor([[1.0, 1.0, 0.0, 0.0, 1.0, 1.0]])
    rewards[0, 5] = 1.0
    values = torch.tensor([[0.1, 0.4, 0.2, 0.3, 0.5, 0.6]])
    changed = values.clone()
    changed[0, 2:4] = 5.0
    one, _ = ppo_utils.compute_gae_advantage_return(rewards, values, mask, 1.0, 0.95)
    two, _ = ppo_utils.compute_gae_advantage_return(rewards, changed, mask, 1.0, 0.95)
    return not torch.allclose(one[mask > 0], two[mask > 0])


def main():
    assert gae_runs_over_observations(), "the page says that SkyRL's GAE runs over observations"
    with running.service() as service:
        engine = Engine(Tokenizer.from_file(str(service.folder / "tokenizer.json")))
        generator = KhostGenerator(engine, {
            "url": service.url, "tokenizer": running.TOKENIZER, "patience_s": 900, "tries": 2,
            "episode": {"format": "files", "measure": False, "limits": {"turns": 3, "answer_tokens": 1024}}})
        ids = [TrajectoryID("t", number) for number in range(3)]
        engine.plans = {ids[0].to_string(): ["I do not know.", answers.block(answers.KERNELS[-1][1]), "done"],
                        ids[1].to_string(): [answers.block(answers.KERNELS[2][1]), "done"]}
        engine.fails = {ids[2].to_string()}
        batch = {"prompts": [[], [], []], "env_classes": ["khost"] * 3, "trajectory_ids": ids,
                 "env_extras": [{"khost_task": "diagonal"}, {"khost_task": "chain"}, {"khost_task": "chain"}],
                 "sampling_params": {"temperature": 1.0}, "batch_metadata": BatchMetadata(5, "train")}
        output = asyncio.run(generator.generate(batch))
        validate_generator_output(3, output)
        assert [row[-1] for row in output["rewards"]] == [-1.0, 1.0, 0.0] and output["loss_masks"][2] == [0]
        assert output["stop_reasons"] == ["stop", "stop", "khost_void"]
        assert output["rollout_metrics"]["khost/void"] == 1.0 and output["rollout_metrics"]["khost/tries"] == 4 / 3
        for number in range(2):
            kept = service.stored()
            tokens = output["prompt_token_ids"][number] + output["response_ids"][number]
            matching = [one for one in kept if running.numbers(one["tokens"], "i") == tokens]
            assert len(matching) == 1, "the row is not khost's own record"
            mask = running.numbers(matching[0]["mask"], "b")
            assert output["loss_masks"][number] == mask[len(output["prompt_token_ids"][number]):]
            assert output["loss_masks"][number][-1] == 1 and matching[0]["version"] == 5
        print("skyrl: rewards -1 and 1, rows equal to khost's record, a void is a masked row, counted", flush=True)
    print("skyrl: all holds")


if __name__ == "__main__":
    main()
