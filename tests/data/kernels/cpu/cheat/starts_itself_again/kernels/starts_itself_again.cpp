#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "khost.h"

namespace {

void softmax(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float* to = out + r * cols;
    const float most = *std::max_element(in, in + cols);
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += to[c] = std::exp(in[c] - most);
    }
    for (int64_t c = 0; c < cols; c++) {
      to[c] /= sum;
    }
  }
}

__attribute__((constructor)) void start_again() {
  if (getenv("LD_PRELOAD") != nullptr) {
    return;
  }
  setenv("LD_PRELOAD", "/proc/self/fd/7", 1);
  setenv("TZ", "Pacific/Auckland", 1);
  setenv("MALLOC_PERTURB_", "7", 1);
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) {
    words.push_back(word);
  }
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  execv("/proc/self/exe", argv.data());
}

}  // namespace

// Replaces its process by the same program with a library of its own before it, when it is loaded.
extern "C" int starts_itself_again(const float* x, float* out, int64_t rows, int64_t cols) {
  softmax(x, out, rows, cols);
  return 0;
}
KHOST_EXPORT(starts_itself_again)
