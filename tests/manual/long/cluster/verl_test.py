"""The adapters of verl against the installed package: verl's own worker makes the agent loops, a fake server draws.

Run by tests/manual/long/cluster.sh. Ends with 1 where something does not hold."""

import asyncio
import hashlib
import os
import sys
import threading

import answers
import running

sys.path.insert(0, str(running.CLUSTER / "verl"))

import khost_reward
import numpy as np
import torch
from hydra import compose, initialize_config_dir, initialize_config_module
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.protocol import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.replica import TokenOutput

PROMPT, RESPONSE = 2048, 4096
MOST_ROUNDS = 8  # a time may stay unresolved on a machine that others use; then its row is played again


class FakeServers:
    """What verl's LLMServerClient is for an agent loop. A row of a task gets the next plan that waits for the task."""

    def __init__(self, tokenizer):
        self.tokenizer, self.prompts, self.fails, self.global_steps = tokenizer, {}, 0, 7
        self.plans, self.at, self.queue = {}, {}, {}

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        assert sampling_params["logprobs"] is True and sampling_params["temperature"] == 1.0
        assert sampling_params["stop_token_ids"][0] == self.tokenizer.convert_tokens_to_ids("<|im_end|>")
        before = self.prompts.get(request_id)
        assert before is None or prompt_ids[: len(before)] == before, "a prompt does not continue the one before"
        self.prompts[request_id] = list(prompt_ids)
        if self.fails > 0:
            self.fails -= 1
            return TokenOutput(token_ids=[], stop_reason="aborted")
        texts = self._texts(request_id, prompt_ids)
        number = self.at.get(request_id, 0)
        self.at[request_id] = number + 1
        ids = self.tokenizer.encode(texts[number], add_special_tokens=False)
        ids = [*ids, sampling_params["stop_token_ids"][0]][: sampling_params["max_tokens"]]
        logprobs = [-(index + 1) / 1024 for index in range(len(ids))]
        return TokenOutput(token_ids=ids, log_probs=logprobs, stop_reason="completed",
                           extra_fields={"global_steps": self.global_steps})

    def _texts(self, request_id, prompt_ids):
        if request_id not in self.plans:
            text = self.tokenizer.decode(prompt_ids)
            name = "chain" if "torch.abs" in text else "diagonal"
            self.plans[request_id] = self.queue[name].pop(0)
        return self.plans[request_id]


def config_of(service, folder, loop_file):
    """verl's own configuration of PPO, with the folder of the toy model and this service."""
    loop = OmegaConf.load(running.CLUSTER / "verl" / "agent_loop.yaml")
    settings = loop[0].settings
    settings.url, settings.tokenizer, settings.patience_s = service.url, running.TOKENIZER, 900
    settings.episode.format, settings.episode.limits = "files", {"turns": 3, "answer_tokens": 1024}
    OmegaConf.save(loop, loop_file)
    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=[
            f"actor_rollout_ref.model.path={folder}", "actor_rollout_ref.rollout.name=vllm",
            "actor_rollout_ref.rollout.calculate_log_probs=True",
            f"actor_rollout_ref.rollout.prompt_length={PROMPT}", f"actor_rollout_ref.rollout.response_length={RESPONSE}",
            "actor_rollout_ref.rollout.agent.default_agent_loop=khost",
            f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loop_file}"])


def batch_of(tasks):
    """Rows as verl's data set gives them."""
    rows = [{"task": task, "measure": True} for task in tasks]
    return DataProto(non_tensor_batch={
        "extra_info": np.array(rows, dtype=object),
        "raw_prompt": np.array([[{"role": "user", "content": task}] for task in tasks], dtype=object),
        "data_source": np.array(["khost"] * len(tasks), dtype=object)}, meta_info={"global_steps": 7})


def play(worker, servers, wanted):
    """The rewards of rows whose answers are worth those of `wanted`, with what verl made of them."""
    tasks = [answers.KERNELS[reward][0] for reward in wanted]
    servers.queue = {"chain": [], "diagonal": []}
    for reward in wanted:
        name, code = answers.KERNELS[reward]
        # The wrong one is looked at and given up; others are right at once.
        servers.queue[name].append(["I do not know.", answers.block(code), "done"] if reward < 0
                                   else [answers.block(code), "done"])
    output = asyncio.run(worker.generate_sequences(batch_of(tasks)))
    return output, output.batch["rm_scores"].sum(dim=1).tolist()


def check_row(service, output, index):
    """Tokens, mask and log-probabilities of a row are those that khost keeps, and the reward is on a drawn token."""
    kept = service.trajectory(int(output.non_tensor_batch["khost_trajectory"][index]))
    valid = output.batch["attention_mask"][index].bool()
    tokens = output.batch["input_ids"][index][valid].tolist()
    stored = running.numbers(kept["tokens"], "i")
    assert tokens == stored, "verl's tokens are not khost's own record"
    count = int(output.batch["attention_mask"][index][PROMPT:].sum())
    mask = output.batch["response_mask"][index][:count].tolist()
    stored_mask = running.numbers(kept["mask"], "b")
    assert mask == stored_mask[len(stored) - count:], "verl's mask is not khost's own record"
    assert mask[-1] == 1 and output.batch["rm_scores"][index][count - 1] == output.batch["rm_scores"][index].sum()
    drawn = [value for value, bit in zip(output.batch["rollout_log_probs"][index][:count].tolist(), mask) if bit]
    assert drawn[0] == -1 / 1024 and all(value < 0 for value in drawn)
    return hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()


def check_rewards(service, worker, servers):
    seen, hashes = {}, set()
    for _ in range(MOST_ROUNDS):
        wanted = [reward for reward in answers.KERNELS if reward not in seen]
        if not wanted:
            break
        output, rewards = play(worker, servers, wanted)
        assert output.non_tensor_batch["khost_void"].sum() == 0, output.non_tensor_batch["khost_void_reason"]
        for index, (row, got) in enumerate(zip(wanted, rewards)):
            hashes.add(check_row(service, output, index))
            # Rows of one task are played side by side, and whichever begins first gets the first answers. Where a time stayed
            # unresolved a faster kernel is paid as a correct one.
            here = [reward for reward in wanted if answers.KERNELS[reward][0] == answers.KERNELS[row][0]]
            assert got in here or (max(here) > 1 and got == 1), (here, got)
            if got in here:
                seen[int(got)] = int(output.non_tensor_batch["__num_turns__"][index])
        print(f"verl: rewards {rewards} where {wanted} were wanted", flush=True)
    assert sorted(seen) == [-1, 1, 2, 3], f"rewards that were seen: {sorted(seen)}"
    assert seen[-1] == 7, seen  # three answers
    return output


def check_void(worker, servers):
    """A server that draws nothing in any of three tries: a masked stub, which advantages, losses and whitening skip."""
    servers.fails = 3
    output, rewards = play(worker, servers, [-1, -1])
    voids = output.non_tensor_batch["khost_void"].tolist()
    assert sorted(voids) in ([0.0, 1.0], [0.0, 0.0]), voids
    servers.fails = 1000
    stub, rewards = play(worker, servers, [3])
    servers.fails = 0
    assert rewards == [0.0] and stub.non_tensor_batch["khost_void"].tolist() == [1.0]
    assert stub.batch["response_mask"].sum() == 0 and stub.non_tensor_batch["khost_tries"].tolist() == [3.0]
    assert "could not draw" in stub.non_tensor_batch["khost_void_reason"][0], stub.non_tensor_batch["khost_void_reason"]
    mixed, _ = play(worker, servers, [-1])
    mask = torch.cat([mixed.batch["response_mask"], stub.batch["response_mask"]]).float()
    scores = torch.cat([mixed.batch["rm_scores"], stub.batch["rm_scores"]])
    values = torch.randn_like(scores)
    alone, _ = core_algos.compute_gae_advantage_return(scores[:1], values[:1], mask[:1], 1.0, 0.95)
    both, _ = core_algos.compute_gae_advantage_return(scores, values, mask, 1.0, 0.95)
    assert torch.allclose(alone[0] * mask[0], both[0] * mask[0], atol=1e-5), "a stub changes the advantages of others"
    for mode in ("seq-mean-token-mean", "token-mean"):
        one = core_algos.agg_loss(both[:1], mask[:1], mode)
        two = core_algos.agg_loss(both, mask, mode)
        assert torch.allclose(one, two), f"a stub changes the loss {mode}"
    print("verl: a void is a masked stub that changes no advantage and no loss", flush=True)


def check_observations():
    """What a critic says about tokens that the engine did not draw changes no advantage of those that it drew."""
    mask = torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0]])
    rewards = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0]])
    values = torch.randn(1, 7)
    changed = values + 5 * (1 - mask)
    one, _ = core_algos.compute_gae_advantage_return(rewards, values, mask, 1.0, 0.95)
    two, _ = core_algos.compute_gae_advantage_return(rewards, changed, mask, 1.0, 0.95)
    assert torch.allclose(one * mask, two * mask, atol=1e-5), "the page says that verl's GAE skips observations"


def check_kills(service, worker, servers):
    """Judges are killed while rows are played: each row has its reward, or is a stub."""
    stop, killed = threading.Event(), []

    def kill():
        while not stop.wait(20):
            killed.append(running.kill_judges(service))

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        output, rewards = play(worker, servers, [-1] * 8)
    finally:
        stop.set()
        thread.join()
    voids = output.non_tensor_batch["khost_void"].tolist()
    assert all(reward == (0.0 if void else -1.0) for reward, void in zip(rewards, voids, strict=True)), (rewards, voids)
    print(f"verl: {sum(killed)} judges were killed, {int(sum(voids))} of 8 rows are masked, the others right", flush=True)


def check_too_long(service, servers, tmp):
    config = config_of(service, service.folder, tmp)
    config.actor_rollout_ref.rollout.prompt_length = 64
    worker = AgentLoopWorker(config, servers)
    output, rewards = play(worker, servers, [3])
    assert rewards == [0.0] and "the engine takes 64" in output.non_tensor_batch["khost_void_reason"][0]


def check_reward_function(service):
    os.environ.update(KHOST_URL=service.url, KHOST_PATIENCE_S="900")
    path = str(running.CLUSTER / "verl" / "khost_reward.py")
    score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": {
        "path": path, "name": "compute_score"}}}))
    text = answers.block(answers.KERNELS[-1][1]).replace("```cpp", "```cpp kernels/k.cpp")
    got = asyncio.run(score(data_source="khost", solution_str=text, ground_truth="diagonal"))
    assert got == {"score": -1.0, "khost_void": 0.0, "status": "wrong"}, got
    os.environ.update(KHOST_URL="http://127.0.0.1:9", KHOST_PATIENCE_S="1", KHOST_VOID="0")
    got = asyncio.run(khost_reward.compute_score("khost", text, "diagonal"))
    assert got["score"] == 0.0 and got["khost_void"] == 1.0, got
    del os.environ["KHOST_VOID"]
    try:
        asyncio.run(khost_reward.compute_score("khost", text, "diagonal"))
        raise AssertionError("a void became a number")
    except RuntimeError as failure:
        assert "gave no reward" in str(failure)
    print("verl: the reward function scores an answer, and a void raises or is counted", flush=True)


def check_paper():
    """The paper's numbers are keys that verl has."""
    with initialize_config_dir(config_dir=str(running.CLUSTER / "verl"), version_base=None):
        config = compose("khost_paper", overrides=["actor_rollout_ref.model.path=x"])
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert config.data.train_batch_size * rollout.n == 1024 == actor.ppo_mini_batch_size * rollout.n
    assert rollout.prompt_length + rollout.response_length == 131072 and config.algorithm.lam == 0.95
    assert (actor.clip_ratio_low, actor.clip_ratio_high, actor.optim.lr) == (0.2, 0.28, 3e-6)
    assert config.critic.optim.lr == 6e-6 and config.trainer.total_training_steps == 150
    omega_conf_to_dataclass(rollout)
    assert actor.loss_agg_mode == "seq-mean-token-mean" and config.algorithm.adv_estimator == "gae"


def main():
    check_paper()
    check_observations()
    with running.service() as service:
        loop_file = service.folder.parent / "agent_loop.yaml"
        config = config_of(service, service.folder, loop_file)
        servers = FakeServers(None)
        worker = AgentLoopWorker(config, servers)
        servers.tokenizer = worker.tokenizer
        print("verl: passes of the kernels of rewards 2 and 1:", *answers.fit(service))
        check_rewards(service, worker, servers)
        check_void(worker, servers)
        check_kills(service, worker, servers)
        check_too_long(service, servers, loop_file)
        check_reward_function(service)
    print("verl: all holds")


if __name__ == "__main__":
    main()
