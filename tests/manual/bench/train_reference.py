"""What train.lua prints beside its own numbers, on the same card: an optimizer step of Hugging Face's model (sdpa, bf16,
fused AdamW), eager and compiled, and a PPO step written by hand with it. Arguments: one JSON object with the model's
shape and batch, length, steps, compiled. Prints one JSON object of seconds a step."""

import json
import statistics
import sys
import time

import numpy
import torch
import torch.nn.functional as F

import reference_model

given = json.loads(sys.argv[1])
BATCH, LENGTH = given["batch"], given["length"]
DEVICE, TYPE = "cuda", torch.bfloat16

ids = torch.randint(0, given["vocabulary"], (BATCH, LENGTH), device=DEVICE)


def make():
    model = reference_model.hugging_face(given, use_cache=False)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)


def timed(step):
    for _ in range(2):
        step()
    all_s = []
    for _ in range(given["steps"]):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        all_s.append(time.perf_counter() - begin)
    return statistics.median(all_s)


def learn(model, optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def supervised(compiled):
    model, optimizer = make()
    run = torch.compile(model) if compiled else model
    return timed(lambda: learn(model, optimizer, run(input_ids=ids, labels=ids).loss))


def ppo():
    actor, actor_optimizer = make()
    critic = reference_model.hugging_face(given, use_cache=False)
    head = torch.nn.Linear(given["width"], 1, device=DEVICE, dtype=TYPE)
    critic_optimizer = torch.optim.AdamW([*critic.model.parameters(), *head.parameters()], lr=1e-5, fused=True)
    reward = numpy.random.randn(BATCH).astype(numpy.float32)

    def scores():
        z = actor(input_ids=ids).logits[:, :-1].float()
        return torch.log_softmax(z, -1).gather(2, ids[:, 1:, None])[..., 0]

    def values():
        return head(critic.model(input_ids=ids).last_hidden_state)[:, :-1, 0].float()

    def step():
        with torch.no_grad():
            old, value = scores(), values()
            host = value.T.cpu().numpy()  # a loop over time is quickest on the host
            gains, following, last = numpy.zeros_like(host), reward, 0.0
            for t in reversed(range(LENGTH - 1)):
                last = following - host[t] + 0.95 * last
                following = host[t]
                gains[t] = last
            advantage = torch.from_numpy(gains).to(DEVICE).T
            target = advantage + value
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        learn(critic, critic_optimizer, F.mse_loss(values(), target))
        ratio = (scores() - old).exp()
        learn(actor, actor_optimizer, torch.maximum(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.28)).mean())

    return timed(step)


out = {"card": torch.cuda.get_device_name(), "eager": supervised(False)}
torch.cuda.empty_cache()
if given.get("compiled"):
    out["compiled"] = supervised(True)
    torch._dynamo.reset()
    torch.cuda.empty_cache()
if given.get("ppo"):
    out["ppo"] = ppo()
print(json.dumps(out))
