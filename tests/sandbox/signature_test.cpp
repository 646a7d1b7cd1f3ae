#include "sandbox/abi/signature.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/sandbox/abi_fixture.h"

using namespace khost::sandbox;
using namespace khost::sandbox::test;

TEST_CASE("the compiler writes signatures that are read without loading the library") {
  const auto built = build_source(R"(
#include "khost.h"
extern "C" int all(const float* __restrict__ a, double* b, const khost::half* c, khost::bfloat16* d, const bool* e,
                   const int8_t* f, const uint8_t* g, const int16_t* h, const int32_t* i, int64_t* j, float k, double l,
                   bool m, int n, int64_t o, size_t p, khost::workspace q, khost::threads r) {
  return a == nullptr;
}
KHOST_EXPORT(all)
extern "C" int none() noexcept { return 0; }
KHOST_EXPORT(none)
extern "C" int hidden(int) { return 0; }
)");
  REQUIRE_MESSAGE(built, built.failure().message);
  CHECK(built.value().signatures == Signatures{{"all", "rfwdrewgr?rbrBrhriwlsfsds?sislsLW-T-"}, {"none", ""}});
}

TEST_CASE("a type that kernels cannot take does not compile") {
  for (const char* type :
       {"const void*", "char**", "struct { int a; }*", "std::string", "long double", "const char*"}) {
    const auto built = build_source("#include <string>\n#include \"khost.h\"\nusing T = " + std::string(type) +
                                    ";\nextern \"C\" int f(T) { return 0; }\nKHOST_EXPORT(f)\n");
    REQUIRE_FALSE(built);
    CHECK_MESSAGE(built.failure().code == "build", type);
  }
}

TEST_CASE("libraries that ask for more than the target offers are refused") {
  const auto refused = [](const std::string& head, const std::string& body) {
    const auto built = build_source("#include \"khost.h\"\n" + head + "\nextern \"C\" int f(float* out) { " + body +
                                    " }\nKHOST_EXPORT(f)\n");
    REQUIRE_FALSE(built);
    return built.failure();
  };
  CHECK(refused("#include <dlfcn.h>", "return dlopen(\"libtorch.so\", 1) != out;").code == "violation");
  CHECK(refused("#include <link.h>", "return dl_iterate_phdr(nullptr, out);").code == "violation");
  CHECK(refused("#include <dlfcn.h>", "return dlsym(nullptr, \"exit\") != out;").message.find("dlsym") !=
        std::string::npos);
  CHECK(refused("extern int at_ops_matmul();", "return at_ops_matmul();").code == "build");
}

TEST_CASE("a library without an exported launcher is refused with the remedy") {
  const auto built = build_source("extern \"C\" int f() { return 0; }");
  REQUIRE_FALSE(built);
  CHECK(built.failure().message.find("KHOST_EXPORT") != std::string::npos);
}

TEST_CASE("damaged libraries are refused, never misread") {
  const auto built = build_source("#include \"khost.h\"\nextern \"C\" int f(float*) { return 0; }\nKHOST_EXPORT(f)\n");
  REQUIRE(built);
  const std::string good = read_text(built.value().path);
  CHECK(read_library(good));
  CHECK_FALSE(read_library(""));
  CHECK_FALSE(
      read_library("\x7f"
                   "ELF"));
  std::mt19937 random(1);
  for (int round = 0; round < 3000; round++) {  // the sanitizer build finds what reads out of bounds
    std::string bad = good;
    const std::size_t end = round % 2 == 0 ? 1024 : bad.size();
    for (int k = 0; k < 8; k++) {
      bad[random() % end] = static_cast<char>(random());
    }
    bad.resize(round % 3 == 0 ? random() % bad.size() : bad.size());
    (void)admit_library(bad, "cpu");
  }
}

TEST_CASE("signatures are parsed with limits") {
  CHECK(parse_signature("rfwfslW-T-").value().size() == 5);
  for (const char* text : {"r", "rx", "xf", "r-", "Wf", "rfw"}) {
    CHECK_FALSE(parse_signature(text));
  }
  CHECK_FALSE(parse_signature(std::string(2 * 65, 'r')));
}
