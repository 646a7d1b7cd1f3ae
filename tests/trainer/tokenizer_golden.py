"""Ten megabytes of mixed text and what `tokenizers` makes of it, for tests/trainer/tokenizer_text_test.cpp.

  tokenizer_golden.py DIR [BYTES] [TOKENIZER.json ...]

Writes DIR/text (documents one after the other), DIR/lengths.json, and for each pre-tokenizer of a model family, and each
tokenizer.json given, DIR/NAME/{tokenizer.json,plain.ids,special.ids}: little-endian int32 ids of all documents, with texts
such as <|im_end|> as plain text and as special tokens.
"""

import array
import glob
import json
import os
import random
import sys
import sysconfig
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|><|im_start|>"]
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


FAMILIES = {
    "smollm2": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                         pre_tokenizers.ByteLevel(add_prefix_space=False)]), None, False),
    "llama3": (split(CL100K % r"\p{N}{1,3}"), None, True),
    "qwen": (split(CL100K % r"\p{N}"), normalizers.NFC(), False),
}


def read(pattern, most):
    documents, size = [], 0
    for path in sorted(glob.glob(pattern, recursive=True)):
        if size >= most:
            break
        if os.path.isfile(path):
            with open(path, "rb") as file:
                documents.append(file.read(200_000).decode("utf-8", "replace"))
            size += len(documents[-1])
    return documents


def known(c):
    """Whether a character is assigned here, and composes there as it does here: the tables behind `tokenizers`' NFC are of
    Unicode 9, so marks and compositions are taken from those that Unicode 3.2 had already."""
    text = chr(c)
    if unicodedata.category(text) in ("Cn", "Cs", "Co"):
        return False
    composes = unicodedata.combining(text) or unicodedata.normalize("NFD", text) != text
    return not composes or unicodedata.ucd_3_2_0.category(text) != "Cn"


def unicode_text(rng, count):
    """Words, marks, digits and spaces of all scripts that this Python's Unicode assigns, with everything that is easily got
    wrong: combining marks in any order, contractions in odd letters, spaces of every width, line ends."""
    assigned = [c for c in range(0x80, 0x20000) if known(c)]
    spaces = [chr(c) for c in assigned if chr(c).isspace()] + list(" \t\n\r\x0b\x0c") + ["\u180e", "\u200b", "\ufeff", "\r\n"]
    marks = [chr(c) for c in assigned if unicodedata.combining(chr(c))]
    latin = [chr(c) for c in range(0xc0, 0x250)]
    parts = []
    for _ in range(count):
        kind = rng.randrange(12)
        if kind == 0:
            parts.append("".join(rng.choice(spaces) for _ in range(rng.randint(1, 5))))
        elif kind == 1:
            parts.append(rng.choice("aeiounAEIOU") + "".join(rng.choice(marks) for _ in range(rng.randint(1, 3))))
        elif kind == 2:
            parts.append("".join(rng.choice(latin) for _ in range(rng.randint(1, 9))))
        elif kind == 3:
            parts.append(rng.choice(["'s", "'S", "'\u017f", "'LL", "'Re", "\u2019t", "'\u212a", "don't", "I'VE", "'d"]))
        elif kind == 4:
            parts.append(str(rng.randrange(10 ** rng.randint(1, 12))))
        elif kind == 5:
            parts.append(rng.choice(SPECIALS))
        else:
            start = rng.choice(assigned)
            near = [c for c in range(start, start + 3) if known(c)]
            parts.append("".join(chr(rng.choice(near)) for _ in range(rng.randint(1, 6))))
        parts.append(rng.choice(["", " ", "", "\n", "  "]))
    return "".join(parts)


def documents(most):
    rng = random.Random(11)
    share = most // 5
    texts = read("/usr/include/**/*.h", share) + read("/usr/local/cuda/include/**/*.h*", share)
    texts += read(sysconfig.get_paths()["stdlib"] + "/**/*.py", share)
    while sum(map(len, texts)) < most - share:
        texts.append(unicode_text(rng, 4000))
    while sum(len(t) for t in texts) < most:
        texts.append(rng.randbytes(40_000).decode("utf-8", "replace"))
    return texts


def train(name, texts):
    pre_tokenizer, normalizer, ignore_merges = FAMILIES[name]
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=6000, show_progress=False, special_tokens=SPECIALS,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts[::17], trainer)
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False)])
    return tokenizer


def main(folder, most="10485760", *given):
    texts = documents(int(most))
    data = [t.encode() for t in texts]
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/text", "wb") as out:
        out.write(b"".join(data))
    with open(folder + "/lengths.json", "w") as out:
        json.dump([len(d) for d in data], out)
    tokenizers = {name: train(name, texts) for name in FAMILIES}
    tokenizers.update({f"given{i}": Tokenizer.from_file(path) for i, path in enumerate(given)})
    for name, tokenizer in tokenizers.items():
        os.makedirs(folder + "/" + name, exist_ok=True)
        tokenizer.save(folder + "/" + name + "/tokenizer.json")
        for kind in ("plain", "special"):
            tokenizer.encode_special_tokens = kind == "plain"
            ids = array.array("i")
            for encoded in tokenizer.encode_batch(texts, add_special_tokens=False):
                ids.extend(encoded.ids)
            with open(f"{folder}/{name}/{kind}.ids", "wb") as out:
                ids.tofile(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
