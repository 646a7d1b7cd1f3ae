"""What transformers says of small models, for tests/trainer/family_test.cpp.

  golden.py make DIR      random models of every family under DIR, each with golden.json: tokens, log-probabilities in
                          fp32 and bf16, and a greedy continuation
  golden.py check DIR     log-probabilities and greedy continuation of a model folder that khost saved, as JSON
  golden.py text DIR      tokens of an English text by a model folder that khost made, and what `make` writes of them, as JSON
  golden.py formula       the numbers that family_test.cpp holds as text
"""

import json
import os
import sys

import torch
import transformers

LENGTH = 40
NEW = 24

SHAPE = dict(vocab_size=97, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=96, max_position_embeddings=256, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32, rope_theta=500000.0)

FAMILIES = {
    "llama": lambda: transformers.LlamaConfig(**SHAPE, tie_word_embeddings=True, rms_norm_eps=1e-5),
    "llama3": lambda: transformers.LlamaConfig(**SHAPE, tie_word_embeddings=False, rope_scaling=dict(LLAMA3)),
    "linear": lambda: transformers.LlamaConfig(**SHAPE, rope_scaling=dict(rope_type="linear", factor=4.0, rope_theta=1e4)),
    "qwen2": lambda: transformers.Qwen2Config(**SHAPE, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**SHAPE, head_dim=32, tie_word_embeddings=False),
}


def model_of(config):
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def logprobs(model, tokens):
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].float()
    scored = torch.log_softmax(logits, -1)
    return [float(scored[i - 1, tokens[i]]) for i in range(1, len(tokens))]


def greedy(model, tokens):
    tokens = list(tokens)
    for _ in range(NEW):
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[-NEW:]


def some_tokens():
    return [(7 * i * i + 3 * i + 5) % 97 for i in range(LENGTH)]


def make(folder):
    for name, config in FAMILIES.items():
        torch.manual_seed(len(name) * 1000 + ord(name[-1]))
        model = model_of(config())
        with torch.no_grad():
            for key, weight in model.named_parameters():
                # Far from the usual start, so that a bias or a norm that is left out shows.
                weight.add_(torch.randn_like(weight) * (0.3 if "norm" in key or "bias" in key else 0.08))
        place = os.path.join(folder, name)
        # The smallest shards that transformers makes: every family is read from several files.
        model.save_pretrained(place, max_shard_size="60KB" if name in ("llama3", "qwen3") else "5GB")
        tokens = some_tokens()
        facts = dict(tokens=tokens, logprobs=logprobs(model, tokens), greedy=greedy(model, tokens[:8]))
        facts["bf16"] = logprobs(model.to(torch.bfloat16), tokens)
        with open(os.path.join(place, "golden.json"), "w") as out:
            json.dump(facts, out)


def check(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = some_tokens()
    print(json.dumps(dict(kind=type(model).__name__, logprobs=logprobs(model, tokens), greedy=greedy(model, tokens[:8]))))


def text(folder):
    words = ("The capital of France is Paris, and the river that flows through the city is called the Seine. In 2024, "
             "12,345 people\n\tvisited `main()`, didn't they?")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = tokenizer(words, add_special_tokens=False).input_ids
    facts = dict(text=words, tokens=tokens, logprobs=logprobs(model, tokens), greedy=greedy(model, tokens[:8]))
    facts["bf16"] = logprobs(model.to(torch.bfloat16), tokens)
    print(json.dumps(facts))


def formula():
    """Weights that two programs can write down: sin(0.7 i + k), for the i-th number of the k-th tensor by name."""
    for name, config in FAMILIES.items():
        shape = config()
        shape.num_hidden_layers = 1
        shape.vocab_size, shape.hidden_size, shape.intermediate_size = 11, 16, 12
        shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim = 2, 1, 8
        if hasattr(shape, "layer_types"):
            shape.layer_types = None if shape.layer_types is None else shape.layer_types[:1]
        model = model_of(shape)
        with torch.no_grad():
            for k, (_, weight) in enumerate(sorted(model.named_parameters())):
                i = torch.arange(weight.numel(), dtype=torch.float64)
                weight.copy_(torch.sin(0.7 * i + k).reshape(weight.shape))
        tokens = [1, 5, 9, 2, 7, 7, 0, 3, 10, 4]
        values = ", ".join(f"{x:.5f}f" for x in logprobs(model, tokens))
        print(f'    {{"{name}", {{{values}}}}},')


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    {"make": make, "check": check, "text": text, "formula": formula}[sys.argv[1]](*sys.argv[2:])
