// libkhost_profiler.so as a process takes it in, over a CUPTI that stands in for a GPU's
// (tests/profiler/fake_cupti.cpp).
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "sandbox/jail/fd.h"
#include "sandbox/jail/jail.h"
#include "sandbox/profiler/inject.h"
#include "sandbox/profiler/trace.h"
#include "tests/lua_cases.h"

using namespace khost;
using namespace khost::profiler;

namespace {

// The memory that a process to be profiled is given.
struct Page {
  Page() : fd(memfd_create("profile", MFD_CLOEXEC)) {
    REQUIRE(ftruncate(fd.get(), static_cast<off_t>(kPageBytes)) == 0);
    base = static_cast<std::byte*>(mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    REQUIRE(base != MAP_FAILED);
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() { munmap(base, kPageBytes); }
  Result<Trace> read() const { return read_trace(base, kPageBytes); }
  sandbox::Fd fd;
  std::byte* base = nullptr;
};

std::string beside(const char* name) {
  return sandbox::self_directory() + "/" + name;
}

bool ready() {
  const bool built = std::filesystem::exists(beside("libkhost_profiler.so"));
  if (!built) {
    khost::tests::skip("needs CUPTI's headers when khost is built");
  }
  return built;
}

template <class F>
F from_fake(const char* name) {
  static void* library = dlopen(beside("libkhost_fake_cupti.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  void* const function = dlsym(library, name);
  REQUIRE(function != nullptr);
  return reinterpret_cast<F>(function);
}

Injected injected(const Page& page, const std::string& cupti) {
  Injected profiler;
  profiler.open(page.fd.get(), beside("libkhost_profiler.so").c_str(), cupti.c_str());
  return profiler;
}

}  // namespace

TEST_CASE("the collector writes what CUPTI hands over between begin and end of a call, and nothing else") {
  if (!ready()) {
    return;
  }
  const auto kernel = from_fake<void (*)(const char*, std::uint64_t, std::uint64_t)>("fake_kernel");
  const auto copy = from_fake<void (*)(std::uint64_t, std::uint64_t, std::uint64_t)>("fake_copy");
  const Page page;
  const Injected profiler = injected(page, beside("libkhost_fake_cupti.so"));
  REQUIRE(profiler);
  kernel("_Z5setupv", 1, 2);
  profiler.begin(2);
  kernel("_Z5scaleIfEvPT_", 1000, 1300);
  copy(1400, 1450, 4096);
  from_fake<void (*)(std::size_t)>("fake_loss")(3);
  profiler.end();
  kernel("_Z7betweenv", 2000, 2100);
  profiler.begin(3);
  kernel("no mangled name", 3000, 3200);
  profiler.end();
  Result<Trace> trace = page.read();
  REQUIRE_MESSAGE(trace, trace.failure().message);
  REQUIRE(trace->records.size() == 3);
  CHECK(trace->records[0].name == "void scale<float>(float*)");
  CHECK(trace->records[0].call == 2);
  CHECK(trace->records[0].end_ns - trace->records[0].start_ns == 300);
  CHECK(trace->records[0].grid == std::array<std::uint32_t, 3>{10, 2, 1});
  CHECK(trace->records[0].block == std::array<std::uint32_t, 3>{256, 1, 1});
  CHECK(trace->records[0].registers == 40);
  CHECK(trace->records[0].static_shared == 512);
  CHECK(trace->records[0].dynamic_shared == 1024);
  CHECK(trace->records[1].activity == Activity::copy);
  CHECK(trace->records[1].bytes == 4096);
  CHECK(trace->records[2].name == "no mangled name");
  CHECK(trace->records[2].call == 3);
  CHECK(trace->dropped == 3);
  CHECK(trace->malformed == 0);
}

TEST_CASE("a page that is full counts what had no room instead of writing behind its end") {
  if (!ready()) {
    return;
  }
  const auto kernel = from_fake<void (*)(const char*, std::uint64_t, std::uint64_t)>("fake_kernel");
  const Page page;
  const Injected profiler = injected(page, beside("libkhost_fake_cupti.so"));
  REQUIRE(profiler);
  const std::string name(2 * kLongestName, 'n');
  constexpr std::uint32_t kCalls = kMostRecords / 1000 + 1;
  for (std::uint32_t call = 1; call <= kCalls; call++) {
    const std::string numbered = std::to_string(call) + name;
    profiler.begin(call);
    for (int i = 0; i < 1000; i++) {
      kernel(numbered.c_str(), 10, 20);
    }
    profiler.end();
  }
  Result<Trace> trace = page.read();
  REQUIRE(trace);
  CHECK(trace->records.size() == kMostRecords);
  CHECK(trace->dropped == kCalls * 1000 - kMostRecords);
  CHECK(trace->records[0].name.size() == kLongestName - 1);
}

TEST_CASE("a CUPTI that is missing or of another version is said in the page") {
  if (!ready()) {
    return;
  }
  const Page missing;
  injected(missing, "libno_cupti_here.so");
  CHECK(missing.read().failure().message.find("libno_cupti_here.so") != std::string::npos);
  from_fake<void (*)(std::uint32_t)>("fake_version")(999999);
  const Page other;
  const Injected profiler = injected(other, beside("libkhost_fake_cupti.so"));
  CHECK(other.read().failure().message.find("version 999999") != std::string::npos);
  REQUIRE(profiler);
  profiler.begin(1);  // and does nothing
  profiler.end();
  const Page unloadable;
  Injected nothing;
  nothing.open(unloadable.fd.get(), "libno_profiler_here.so", "x");
  CHECK_FALSE(nothing);
  CHECK(unloadable.read().failure().message.find("libno_profiler_here.so") != std::string::npos);
}
