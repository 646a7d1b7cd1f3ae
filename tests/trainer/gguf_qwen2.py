"""The log-probabilities that tests/trainer/gguf_test.cpp expects of gguf_models.h's small_qwen2: the same bytes, read by the
package `gguf` (llama.cpp's own Python code) and computed by transformers.

  pip install gguf transformers; gguf_qwen2.py
"""

import gguf
import numpy
import torch
import transformers

HALVES = {6: (22, [(0, 0x2000)]), 8: (34, [(0, 0x1400)]), 12: (144, [(0, 0x0800), (2, 0x1400)]), 14: (210, [(208, 0x0200)])}


class Bytes:
    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 1664525 + 1013904223) & 0xFFFFFFFF
        return self.state >> 24

    def matrix(self, rows, kind):
        length, halves = HALVES[kind]
        blocks = []
        for _ in range(rows * (1 if kind >= 12 else 8)):
            block = bytearray(self.next() for _ in range(length))
            for at, bits in halves:
                block[at], block[at + 1] = bits & 255, bits >> 8
            blocks.append(bytes(block))
        data = numpy.frombuffer(b"".join(blocks), dtype=numpy.uint8)
        return torch.tensor(gguf.dequantize(data, gguf.GGMLQuantizationType(kind)).reshape(rows, 256))

    def numbers(self, count, middle):
        return torch.tensor([middle + (self.next() - 128.0) / 512.0 for _ in range(count)])


def weights():
    source = Bytes(7)
    state = {"model.embed_tokens.weight": source.matrix(300, 6), "model.norm.weight": source.numbers(256, 1)}
    for layer in ("model.layers.0.", "model.layers.1."):
        state[layer + "input_layernorm.weight"] = source.numbers(256, 1)
        for name, rows, kind in (("q", 256, 6), ("k", 128, 6), ("v", 128, 8)):
            state[layer + f"self_attn.{name}_proj.weight"] = source.matrix(rows, kind)
            state[layer + f"self_attn.{name}_proj.bias"] = source.numbers(rows, 0)
        state[layer + "self_attn.o_proj.weight"] = source.matrix(256, 12)
        state[layer + "post_attention_layernorm.weight"] = source.numbers(256, 1)
        for name, kind in (("gate", 12), ("up", 6), ("down", 14)):
            state[layer + f"mlp.{name}_proj.weight"] = source.matrix(256, kind)
    return state


def main():
    config = transformers.Qwen2Config(vocab_size=300, hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, intermediate_size=256, max_position_embeddings=512,
                                      rms_norm_eps=float(numpy.float32(1e-6)), tie_word_embeddings=True, rope_theta=1e6)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    missing, unexpected = model.load_state_dict(weights(), strict=False)
    assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)
    model.tie_weights()
    tokens = [(11 * i * i + 5 * i + 3) % 260 for i in range(24)]
    with torch.no_grad():
        scored = torch.log_softmax(model(torch.tensor([tokens])).logits[0].float(), -1)
    print(", ".join(f"{float(scored[i - 1, tokens[i]]):.5f}f" for i in range(1, len(tokens))))


if __name__ == "__main__":
    main()
