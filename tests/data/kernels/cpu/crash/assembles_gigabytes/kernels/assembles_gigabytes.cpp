#include "khost.h"
#include "softmax.h"

// Three gigabytes of constants, by the assembler's own repetition.
asm(".pushsection .data\n.rept 400000000\n.quad 1\n.endr\n.popsection");

extern "C" int assembles_gigabytes(const float* x, float* out, int64_t rows, int64_t cols) {
  softmax_rows(x, out, rows, cols);
  return 0;
}
KHOST_EXPORT(assembles_gigabytes)
