"""Two blocks of every quantised GGUF format, and what the package `gguf` (llama.cpp's own Python code, numpy) makes of
them, as the text of tests/trainer/gguf_golden.h:

  pip install gguf; gguf_golden.py > gguf_golden.h

The bytes are random, so that every bit of every field matters; only the half-precision scales are small and finite.
"""

import importlib.metadata

import gguf
import numpy

SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}  # where a block holds halves


def blocks_of(name, rng):
    _, length = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    data = rng.integers(0, 256, (2, length), dtype=numpy.uint8)
    for at in SCALES[name]:
        data[:, at:at + 2] = rng.uniform(-0.02, 0.02, (2, 1)).astype(numpy.float16).view(numpy.uint8)
    return data


def main():
    rng = numpy.random.default_rng(2026)
    print("// Made by gguf_golden.py with gguf", importlib.metadata.version("gguf") + ": two blocks of each format as hex,"
          "\n// and their numbers by that package's numpy code, as the bits of fp32.\n#pragma once\n")
    print("#include <cstdint>\n#include <vector>\n\nnamespace khost::trainer::testing {\n")
    print("struct GgufGolden {\n  uint32_t type;\n  const char* name;\n  const char* blocks;\n"
          "  std::vector<uint32_t> numbers;\n};\n\n// clang-format off\ninline const GgufGolden kGgufGolden[] = {")
    for name in SCALES:
        kind = gguf.GGMLQuantizationType[name]
        data = blocks_of(name, rng)
        numbers = gguf.dequantize(data.reshape(-1), kind).astype(numpy.float32).view(numpy.uint32)
        text = data.tobytes().hex()
        print(f'    {{{kind.value}, "{name}",')
        for at in range(0, len(text), 104):
            print(f'     "{text[at:at + 104]}"' + ("," if at + 104 >= len(text) else ""))
        print("     {", end="")
        for i, number in enumerate(numbers):
            print(("" if i == 0 else ",") + ("\n      " if i % 9 == 0 else " ") + f"0x{number:08x}", end="")
        print("}},")
    print("};\n// clang-format on\n\n}  // namespace khost::trainer::testing")


if __name__ == "__main__":
    main()
