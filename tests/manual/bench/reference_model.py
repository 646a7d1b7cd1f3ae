"""The model of Hugging Face's with the shape that a bench of the trainer has, as shapes.lua describes it: random weights in
bf16 on the card."""

import torch


def hugging_face(shape, **more):
    """LlamaForCausalLM, or Qwen2ForCausalLM where q, k and v have biases."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    given = dict(
        vocab_size=shape["vocabulary"], hidden_size=shape["width"], num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"], num_key_value_heads=shape["kv_heads"], intermediate_size=shape["mlp_width"],
        max_position_embeddings=shape["positions"], rope_theta=shape["rope_theta"], tie_word_embeddings=True,
        attn_implementation="sdpa", **more)
    made_of = Qwen2Config, Qwen2ForCausalLM
    if not shape.get("qkv_bias"):
        made_of, given["head_dim"] = (LlamaConfig, LlamaForCausalLM), shape["head_width"]
    config, model = made_of
    return model(config(**given)).to("cuda", torch.bfloat16)
