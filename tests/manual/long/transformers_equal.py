#!/usr/bin/env python3
"""Compares what khost makes of a model folder with what `transformers` makes of it, in fp32 on the CPU.

    PYTHON tests/manual/long/transformers_equal.py FOLDER [--tolerance 1e-4]

PYTHON has torch and transformers. The script runs ./khost of its own checkout. It fails unless the token ids of awkward
texts are the same, no log-probability of the texts below differs by more than the tolerance, greedy continuations are
the same, the chat template renders to the same ids, and transformers reads a folder that khost saved as it read the
first. Needs memory for the model three times over.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
AWKWARD = [
    "", " ", "  ", "\n", "\r\n\r\n", "\t\t x", "a\u00a0b", "x   \n\n  y  ", "don't I'LL we'Ve '\u017fa", "1234567890 3.14e-7 0x1F",
    "caf\u00e9 cafe\u0301 \u1e9b\u0323 \ufb01", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\ud55c\uad6d\uc5b4 \u65e5\u672c\u8a9e", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308", "\ufeffx\u200by\u2028z\u180e!", "\x00\x01\x7f\x80",
    "snake_case camelCase SCREAMING_CASE", "for (int i=0;i<n;++i){out[i]=x[i]>0.f?x[i]:0.f;}",
    "__global__ void k(const float* __restrict__ x) {\n\tint i = blockIdx.x * blockDim.x + threadIdx.x;\n}",
    "<|im_start|>user\nhi<|im_end|>\n", "<|im_end|><|im_end|>x<|endoftext|>", "<|im_start", "a<tool_call>{}</tool_call>b",
    "```cuda\n#include <cuda_runtime.h>\n```", "!!!???...---===***", "A" * 300, "\u00df\u0130\u0131\u01c5", "a" + "\u0301" * 5,
]
TEXTS = [
    "The capital of France is Paris, and the river that flows through the city is called the Seine.",
    AWKWARD[21] + "\n// " + "\u4f60\u597d " * 20,
    "def relu(x):\n    return x if x > 0 else 0\n\n" * 24,
]
CHAT = [{"role": "system", "content": "You write CUDA kernels."}, {"role": "user", "content": "Write  a relu.\n\n"},
        {"role": "assistant", "content": "```cuda\nint a;\n```"}, {"role": "user", "content": "Faster, \u00e9!"}]
NEW = 24


def khost(folder, wanted):
    with tempfile.TemporaryDirectory() as place:
        with open(place + "/in.json", "w") as out:
            json.dump(wanted, out)
        subprocess.run([ROOT + "/khost", ROOT + "/tests/manual/long/transformers_equal.lua", folder, place + "/in.json",
                        place + "/out.json"], check=True, stdout=sys.stderr)
        with open(place + "/out.json") as file:
            return json.load(file)


def logprobs(model, tokens):
    with torch.no_grad():
        scored = torch.log_softmax(model(torch.tensor([tokens])).logits[0].float(), -1)
    return [float(scored[i - 1, tokens[i]]) for i in range(1, len(tokens))]


def greedy(model, tokens):
    tokens = list(tokens)
    for _ in range(NEW):
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[-NEW:]


class Report:
    def __init__(self):
        self.failed = False

    def say(self, right, text):
        self.failed = self.failed or not right
        print(("ok    " if right else "WRONG ") + text)


def check_tokens(report, tokenizer, said):
    wrong = [text for text, ids in zip(AWKWARD, said["awkward"])
             if tokenizer(text, add_special_tokens=False).input_ids != list(ids)]  # khost writes an empty list as {}
    report.say(not wrong, f"token ids of {len(AWKWARD)} awkward texts" + (f", not of {wrong!r}" if wrong else ""))
    back = [text for text, ids in zip(AWKWARD, said["decoded"]) if tokenizer.decode(tokenizer(
        text, add_special_tokens=False).input_ids, clean_up_tokenization_spaces=False) != ids]
    report.say(not back, "the same texts decoded" + (f", not {back!r}" if back else ""))


def check_model(report, model, tokenizer, said, tolerance, what):
    for text, scored in zip(TEXTS, said["logprobs"]):
        ids = tokenizer(text, add_special_tokens=False).input_ids
        gaps = [abs(a - b) for a, b in zip(logprobs(model, ids), scored[1:])]
        report.say(len(ids) == len(scored) and max(gaps) <= tolerance,
                   f"{what}: log-probabilities of {len(ids)} tokens, {max(gaps):.2g} apart at most")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    report = Report()
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.folder)
    chat = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True) if tokenizer.chat_template else ""
    saved = tempfile.TemporaryDirectory()
    said = khost(os.path.abspath(options.folder),
                 {"awkward": AWKWARD, "texts": TEXTS, "chat": chat, "new": NEW, "saved": saved.name + "/model"})
    check_tokens(report, tokenizer, said)
    ids = tokenizer(chat, add_special_tokens=False).input_ids
    report.say(ids == said["chat"], f"{len(ids)} token ids of a conversation in the folder's chat template")
    for folder, what in ((options.folder, "the folder"), (saved.name + "/model", "the folder that khost saved")):
        again = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        check_model(report, model, again, said, options.tolerance, what)
        report.say(again.chat_template == tokenizer.chat_template, what + ": its chat template")
        ends = model.generation_config.eos_token_id
        report.say(sorted(ends if isinstance(ends, list) else [ends]) == sorted(said["end_tokens"]), what + f": end tokens {ends}")
        if folder == options.folder:
            prompt = tokenizer(TEXTS[0], add_special_tokens=False).input_ids[:8]
            report.say(greedy(model, prompt) == said["greedy"], f"{what}: {NEW} tokens continued greedily")
        del model
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
