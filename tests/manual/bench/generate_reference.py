"""What generate.lua prints beside its own numbers, on the same card: Hugging Face's generate, the same decode step out
of PyTorch's own kernels in one CUDA graph, and the bandwidth of a copy. Arguments: one JSON object with the model's
shape and batch, prompt, new. Prints one JSON object."""

import json
import sys
import time

import torch
import torch.nn.functional as F

import reference_model

given = json.loads(sys.argv[1])
BATCH, PROMPT, NEW = given["batch"], given["prompt"], given["new"]
VOCABULARY, WIDTH, LAYERS = given["vocabulary"], given["width"], given["layers"]
HEADS, KV_HEADS, HEAD, MLP = given["heads"], given["kv_heads"], given["head_width"], given["mlp_width"]
DEVICE, TYPE = "cuda", torch.bfloat16


def clock():
    torch.cuda.synchronize()
    return time.perf_counter()


def copy_bandwidth():
    a = torch.empty(1 << 30, dtype=torch.uint8, device=DEVICE)
    b = torch.empty_like(a)
    for _ in range(3):
        b.copy_(a)
    begin = clock()
    for _ in range(20):
        b.copy_(a)
    return 2 * a.numel() * 20 / (clock() - begin)


def hugging_face():
    model = reference_model.hugging_face(given, bos_token_id=None, eos_token_id=None).eval()
    prompts = torch.randint(0, VOCABULARY, (BATCH, PROMPT), device=DEVICE)

    def run(new):
        begin = clock()
        model.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=new, min_new_tokens=new,
                       do_sample=True, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0)
        return clock() - begin

    run(4)
    few = max(2, NEW // 4)  # a quarter of the tokens: enough for a rate, short enough to wait for
    return BATCH * (few - 1) / (run(few) - run(1))


@torch.no_grad()
def graph_step():
    """Merged projections, scaled_dot_product_attention over padded slots with a mask, Gumbel-max and log-probs."""
    longest = PROMPT + NEW

    def make(*shape):
        return torch.randn(*shape, device=DEVICE, dtype=TYPE) * 0.02

    merged = (HEADS + 2 * KV_HEADS) * HEAD
    layers = [{"qkv": make(merged, WIDTH), "bias": make(merged) if given.get("qkv_bias") else None, "out": make(WIDTH, HEADS * HEAD),
               "gate_up": make(2 * MLP, WIDTH), "down": make(WIDTH, MLP),
               "norm1": torch.ones(WIDTH, device=DEVICE, dtype=TYPE), "norm2": torch.ones(WIDTH, device=DEVICE, dtype=TYPE),
               "k": make(BATCH, KV_HEADS, longest, HEAD), "v": make(BATCH, KV_HEADS, longest, HEAD)}
              for _ in range(LAYERS)]
    embedding = make(VOCABULARY, WIDTH)
    final = torch.ones(WIDTH, device=DEVICE, dtype=TYPE)
    angle = torch.outer(torch.arange(longest, device=DEVICE),
                        given["rope_theta"] ** (-torch.arange(0, HEAD, 2, device=DEVICE) / HEAD))
    cosine = torch.cat([angle.cos()] * 2, 1).to(TYPE)
    sine = torch.cat([angle.sin()] * 2, 1).to(TYPE)
    token = torch.randint(0, VOCABULARY, (BATCH,), device=DEVICE)
    position = torch.full((1,), PROMPT, device=DEVICE)
    places = torch.arange(longest, device=DEVICE)
    logp = torch.zeros(BATCH, device=DEVICE)

    def turn(x, c, s):
        low, high = x.chunk(2, -1)
        return x * c + torch.cat([-high, low], -1) * s

    def step():
        x = F.embedding(token, embedding)
        c, s = cosine[position], sine[position]
        mask = (places <= position).view(1, 1, 1, longest)
        for layer in layers:
            qkv = F.linear(F.rms_norm(x, (WIDTH,), layer["norm1"], 1e-5), layer["qkv"], layer["bias"]).view(BATCH, -1, 1, HEAD)
            q, k, v = qkv.split([HEADS, KV_HEADS, KV_HEADS], 1)
            layer["k"].index_copy_(2, position, turn(k, c, s))
            layer["v"].index_copy_(2, position, v)
            y = F.scaled_dot_product_attention(turn(q, c, s), layer["k"], layer["v"], attn_mask=mask, enable_gqa=True)
            x = x + F.linear(y.reshape(BATCH, HEADS * HEAD), layer["out"])
            gate, up = F.linear(F.rms_norm(x, (WIDTH,), layer["norm2"], 1e-5), layer["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        z = F.linear(F.rms_norm(x, (WIDTH,), final, 1e-5), embedding).float()
        drawn = (z - torch.empty_like(z).exponential_().log()).argmax(-1)
        logp.copy_(z.gather(1, drawn[:, None])[:, 0] - z.logsumexp(-1))
        token.copy_(drawn)
        position.add_(1)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    position.fill_(PROMPT)
    graph.replay()
    position.fill_(PROMPT)
    begin = clock()
    for _ in range(NEW - 1):
        graph.replay()
    return BATCH * (NEW - 1) / (clock() - begin)


out = {"card": torch.cuda.get_device_name(), "bandwidth": copy_bandwidth(), "graph": graph_step()}
torch.cuda.empty_cache()
out["hugging_face"] = hugging_face()
print(json.dumps(out))
