#include "sandbox/abi/argument_names.h"

#include <doctest/doctest.h>

#include <chrono>

namespace khost::sandbox {
namespace {

using Names = std::vector<std::string>;

Names read(const std::string& source, std::optional<std::size_t> count = std::nullopt) {
  const auto names = argument_names({source}, "scale", count);
  return names ? names.value() : Names{"failed: " + names.failure().message};
}

std::string failure(const std::string& source, std::optional<std::size_t> count = std::nullopt) {
  const auto names = argument_names({source}, "scale", count);
  return names ? "" : names.failure().message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const Names kThree = {"x", "out", "n"};
const std::string kDefinition = "extern \"C\" int scale(const float* x, float* out, int64_t n) {\n  return 0;\n}\n";

}  // namespace

TEST_CASE("names of arguments are read from the definition's text") {
  CHECK(read(R"(
// int scale(int wrong) {
static int helper(int a) { return a; }
#define CALL scale(1)
const char* text = "int scale(int quoted) {";
const char* raw = R"x(" int scale(int raw) { )x";
extern "C" int scale(const float* __restrict__ x, /* the, bias */ const float *bias, float* out,
                     std::array<int, 3>* z, int64_t n = f(1, 2), khost::workspace w) { return scale(1); }
)") == Names{"x", "bias", "out", "z", "n", "w"});
  CHECK(read("extern \"C\" int scale() {}").empty());
  CHECK(read("extern \"C\" int scale(void) {}").empty());
  CHECK(has(failure("EXPORT(scale)(float* x) {}"), "no 'int scale(…) {…}'"));
  CHECK(has(failure("int scale("), "no 'int scale"));
}

TEST_CASE("a file that is full of what looks like the definition is given up within moments") {
  const auto repeated = [](const std::string& text) {
    std::string all;
    while (all.size() < std::size_t{1900000}) {
      all += text;
    }
    return all;
  };
  for (const std::string& text :
       {"int " + repeated("a scale("), "int " + repeated("a scale(int b) "), repeated("int scale(int a) {} "),
        repeated("namespace{") + repeated("int scale(int a);"), repeated("R\" scale "),
        "int scale(int a" + repeated("[1]") + ") {}", "int scale(int a" + repeated("]") + ") {}",
        "int scale(int a" + repeated("]]") + ") {}", "int scale(int a" + repeated(" [[") + ") {}"}) {
    const auto begin = std::chrono::steady_clock::now();
    read(text);
    CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 20);
  }
  CHECK(has(failure("int " + repeated("a scale(")), "write model_new.py"));
  CHECK(read(kDefinition + repeated("int others(int a) { return scale(a) + scale(a); }\n")) == kThree);
  CHECK(read("int scale(int a]) { }") == Names{""});
}

TEST_CASE("prototypes, calls and other functions do not count beside the definition") {
  for (const char* before :
       {"extern \"C\" int scale(const float*, float*, int64_t);\nKHOST_EXPORT(scale)\n",
        "extern \"C\" int scale(const float* a, float* b, int64_t c);\n",
        "#if 0\nextern \"C\" int scale(const float* a, float* b, int64_t c) { return 1; }\n#endif\n",
        "#if 0 // int\n#if 1\nint scale(float* a, float* b, int c) {}\n#else\n#endif\n#endif\n",
        "#if 1\n#else\nint scale(float* a, float* b, int c) {}\n#endif\n",
        "#if 0\n#elif 0\nint scale(float* a, float* b, int c) {}\n#endif\n",
        "#define DEFINE \\\r\n  int scale(float* a, float* b, int c) {\\\r\n }\r\n",
        "/* int scale(float* a, float* b, int c) { */ // \\\nint scale(float* a, float* b, int c) {}\n",
        "template <typename T>\nint scale(const T* a, T* b, int64_t c) { return 0; }\n",
        "namespace detail {\nint scale(const double* a, double* b, int64_t c) { return 0; }\n}\n",
        "namespace { int scale(const double* a, double* b, int64_t c) { return 0; } }\n",
        "struct Part {\n  int scale(const float* a, float* b, int64_t c) { return 0; }\n};\n",
        "static int scale(const double* a, double* b, int64_t c) { return 0; }\n",
        "int Part::scale(const float* a, float* b, int64_t c) { return 0; }\n",
        "static int helper() { int y = scale(1, 2, 3); if (scale(1, 2, 3)) { return 1; } return scale(1, 2, 3); }\n",
        "__global__ void __launch_bounds__(256) scale_kernel(const float* a, float* b, int64_t c) {}\n"}) {
    CAPTURE(before);
    CHECK(read(before + kDefinition) == kThree);
    CHECK(read(kDefinition + before) == kThree);
  }
}

TEST_CASE("definitions are read in all the ways in which they are written") {
  for (const char* text :
       {"extern \"C\"\nint\nscale(\n    const float *x,\n    float *out,\n    int64_t n)\n{\n}\n",
        "extern \"C\" {\nint scale(const float* x, float* out, int64_t n) { return 0; }\n}\n",
        "extern \"C\" int scale(const float x[], float out[16], int64_t n) noexcept { return 0; }\n",
        "extern \"C\" __attribute__((visibility(\"default\"))) int scale(const float* x, float* out, int64_t n) {}\n",
        "extern \"C\" int __attribute__((noinline)) scale(const float* x, float* out, int64_t n) {}\n",
        "[[gnu::hot]] int scale([[maybe_unused]] const float* x, float* out [[maybe_unused]], int64_t n) {}\n",
        "extern \"C\" auto scale(const float* x, float* out, int64_t n) -> int { return 0; }\n",
        "static inline int scale(const float* x, float* out __attribute__((unused)), const int64_t n = 1) {}\n",
        "#ifdef __CUDACC__\n#include <cuda.h>\n#endif\nint scale(const float* x, float* out, std::int64_t n) {}\n",
        "int scale(const float* x, float* out, std::int64_t n) try { return 0; } catch (...) { return 1; }\n",
        "namespace ours {\nextern \"C\" int scale(const float* x, float* out, int64_t n) { return 0; }\n}\n"}) {
    CAPTURE(text);
    CHECK(read(text) == kThree);
  }
}

TEST_CASE("arguments without names are empty") {
  CHECK(read("int scale(const float* x, float*, khost::workspace, const int, struct Part) {}") ==
        Names{"x", "", "", "", ""});
  CHECK(read("int scale(const float*x, float&out, std::vector<int> n) {}") == kThree);
}

TEST_CASE("headers are searched behind the kernel file") {
  const std::string prototype = "extern \"C\" int scale(const float*, float*, int64_t);\n";
  CHECK(argument_names({"#include \"scale.h\"\n" + prototype, kDefinition}, "scale").value() == kThree);
  CHECK(argument_names({kDefinition, "int scale(float* a, float* b, int c) {}"}, "scale").value() == kThree);
}

TEST_CASE("what cannot be told is said, with what to write") {
  CHECK(has(failure("extern \"C\" int scale(const float*, float*, int64_t);\nDEFINE(scale)\n"),
            "only a prototype of 'scale'"));
  CHECK(has(failure("extern \"C\" int scale(const float*, float*, int64_t);\n"), "model_new.py"));
  CHECK(read("extern \"C\" int scale(const float* x, float* out, int64_t n);\nDEFINE(scale)\n") == kThree);
  const std::string two =
      "#ifdef FAST\nextern \"C\" int scale(const float* a, float* b, int64_t c) {}\n#else\n" + kDefinition + "#endif\n";
  CHECK(has(failure(two), "defined more than once, with the arguments (a, b, c) and (x, out, n)"));
  CHECK(read("int scale(const float* x, float* out) {}\nint scale(const float* a, float* b, int64_t n) {}", 2) ==
        Names{"x", "out"});
  CHECK(has(failure("int scale(const float* x, float* out) {}", 3),
            "takes 2 arguments, the launcher that was compiled 3"));
}

}  // namespace khost::sandbox
