// The whole way of a candidate: build, plan, play in a jail on sealed memory, turn by turn.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <optional>

#include "host/base/json.h"
#include "sandbox/abi/derive.h"
#include "sandbox/jail/jail.h"
#include "sandbox/judge/cpu/subject.h"
#include "sandbox/subject/turn.h"
#include "tests/sandbox/abi_fixture.h"

using namespace khost;
using namespace khost::sandbox;
using namespace khost::sandbox::test;
namespace fs = std::filesystem;

namespace {

constexpr int kCount = 1024;
constexpr std::size_t kBytes = kCount * sizeof(float);

// A memfd mapped here and handed to the subject.
struct Region {
  int fd = -1;
  void* base = nullptr;
  explicit Region(std::size_t bytes) : fd(memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_(bytes) {
    REQUIRE(ftruncate(fd, static_cast<off_t>(bytes)) == 0);
    base = bytes == 0 ? nullptr : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(base != MAP_FAILED);
  }
  Region(const Region&) = delete;
  ~Region() {
    if (base != nullptr) {
      munmap(base, bytes_);
    }
    close(fd);
  }
  float* floats() const { return static_cast<float*>(base); }

 private:
  std::size_t bytes_;
};

Manifest vector_manifest(const char* name) {
  return Manifest::parse({{"storages", {{{"bytes", kBytes}, {"offset", 0}}}},
                          {"tree",
                           {{"kind", "tuple"},
                            {"items",
                             {{{"kind", "tensor"},
                               {"dtype", "float32"},
                               {"storage", 0},
                               {"offset", 0},
                               {"size", {kCount}},
                               {"stride", {1}},
                               {"name", name}}}}}}})
      .value();
}

// A subject that plays one launcher on x -> out.
class Subject {
 public:
  Subject(const std::string& source, const std::string& symbol, const Signatures& signatures, const std::string& so) {
    const Manifest inputs = vector_manifest("x");
    const Manifest state = Manifest::parse({{"storages", Json::array()}, {"tree", {{"kind", "none"}}}}).value();
    Result<Plan> plan = derive_plan({{source}, symbol, signatures.at(symbol), inputs, state, vector_manifest("out")});
    REQUIRE_MESSAGE(plan, plan.failure().message);
    REQUIRE(plan->bind(signatures, inputs, state));
    const std::string text = plan->to_json().dump();
    REQUIRE(write(plan_.fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    library_ = open(so.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(library_ >= 0);
    // Written by us through the mapping that exists; the subject can only read.
    REQUIRE(fcntl(inputs_.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0);
    REQUIRE(fcntl(outputs_.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);

    JailSpec spec;
    spec.name = "subject";
    spec.argv = {self_directory() + "/khost-subject",
                 "--control",
                 "3",
                 "--inputs",
                 "4",
                 "--state",
                 "5",
                 "--outputs",
                 "6",
                 "--library",
                 "7",
                 "--plan",
                 "8",
                 "--threads",
                 "1"};
    spec.readable_prefixes = {self_directory() + "/khost-subject"};
    spec.threads_only = true;
    spec.limit_address_space = !judge::kSanitized;
    spec.fds = {{control_.fd, 3}, {inputs_.fd, 4}, {state_.fd, 5}, {outputs_.fd, 6}, {library_, 7}, {plan_.fd, 8}};
    Result<Jail> jail = Jail::start(spec);
    REQUIRE_MESSAGE(jail, jail.failure().message);
    jail_.emplace(std::move(*jail));
  }
  ~Subject() { close(library_); }

  bool ready() { return wait_done(page(), kReady, 20); }
  bool call(std::uint32_t seq, double timeout_s = 5) {
    post_go(page(), seq);
    return wait_done(page(), seq, timeout_s);
  }
  ControlPage& page() { return *static_cast<ControlPage*>(control_.base); }
  float* x() { return inputs_.floats(); }
  float* out() { return outputs_.floats(); }
  Jail& jail() { return *jail_; }
  Exit end() {
    post_go(page(), kExit);
    return jail_->wait(std::chrono::steady_clock::now() + std::chrono::seconds(5));
  }

 private:
  Region control_{kControlBytes};
  Region inputs_{kBytes};
  Region state_{0};
  Region outputs_{kBytes};
  Region plan_{0};
  int library_ = -1;
  std::optional<Jail> jail_;
};

Subject subject_of(const fs::path& folder) {
  const auto files = candidate_files(folder);
  const auto built = build({.files = files, .cache_dir = shared_cache()});
  REQUIRE_MESSAGE(built, built.failure().message);
  const std::string& symbol = built.value().signatures.begin()->first;
  return Subject(files.at("kernels/" + folder.filename().string() + ".cpp"), symbol, built.value().signatures,
                 built.value().path);
}

const fs::path kKernels = fs::path(KHOST_SOURCE_DIR) / "tests/data/kernels";

}  // namespace

TEST_CASE("the subject's own test passes") {
  JailSpec spec;
  spec.name = "selftest";
  spec.argv = {self_directory() + "/khost-subject", "--selftest"};
  spec.readable_prefixes = {self_directory() + "/khost-subject"};
  spec.limit_address_space = !judge::kSanitized;
  const auto output = run_in_jail(spec, "", 20, 1000);
  REQUIRE_MESSAGE(output, output.failure().message);
  CHECK(output.value().out == "ok\n");
  CHECK(output.value().exit.code == 0);
}

TEST_CASE("a subject plays its plan on fresh inputs, one turn at a time") {
  Subject subject = subject_of(kKernels / "cpu/good/elementwise_chain");
  REQUIRE_MESSAGE(subject.ready(), subject.page().message);
  REQUIRE_MESSAGE(subject.page().status == 0, subject.page().message);
  for (std::uint32_t seq = 2; seq < 12; seq++) {
    subject.jail().freeze();
    for (int i = 0; i < kCount; i++) {
      subject.x()[i] = std::sin(static_cast<float>(i * seq));
      subject.out()[i] = std::numeric_limits<float>::quiet_NaN();
    }
    subject.jail().thaw();
    REQUIRE(subject.call(seq));
    CHECK(subject.page().status == 0);
    float worst = 0;
    for (int i = 0; i < kCount; i++) {
      const float y = std::max(subject.x()[i], 0.0f) * 2 + 0.5f;
      worst = std::max(worst, std::abs(subject.out()[i] - 1 / (1 + std::exp(-y))));
      CHECK_FALSE(std::isnan(subject.out()[i]));
    }
    CHECK(worst < 1e-5f);
  }
  CHECK(subject.end().code == 0);
}

TEST_CASE("an error code of a launcher reaches the control page") {
  Subject subject = subject_of(kKernels / "cpu/crash/error_code");
  REQUIRE(subject.ready());
  REQUIRE(subject.call(2));
  CHECK(subject.page().status == 42);
  CHECK(std::string(subject.page().message) == "'error_code' returned 42");
}

TEST_CASE("a candidate that crashes takes only its own process down") {
  for (const std::string name :
       {"segfault", "exits", "forks_without_end", "fills_the_disk", "writes_outside", "writes_inputs"}) {
    CAPTURE(name);
    Subject subject = subject_of(kKernels / "cpu/crash" / name);
    REQUIRE(subject.ready());
    subject.x()[0] = 3;
    post_go(subject.page(), 2);
    const Exit exit = subject.jail().wait(std::chrono::steady_clock::now() + std::chrono::seconds(20));
    CHECK_FALSE(exit.timed_out);
    CHECK(subject.page().done == kReady);
    CHECK(subject.x()[0] == 3);
  }
}

TEST_CASE("a candidate that hangs is killed") {
  Subject subject = subject_of(kKernels / "cpu/crash/hang");
  REQUIRE(subject.ready());
  CHECK_FALSE(subject.call(2, 0.2));
  subject.jail().kill();
  CHECK(subject.jail().wait().signal == SIGKILL);
}

TEST_CASE("a gigabyte of prints goes nowhere") {
  Subject subject = subject_of(kKernels / "cpu/crash/prints_a_gigabyte");
  REQUIRE(subject.ready());
  subject.x()[5] = -1;
  REQUIRE(subject.call(2, 20));
  CHECK(subject.out()[5] == doctest::Approx(1 / (1 + std::exp(-0.5f))));
}

TEST_CASE("a set-up that fails is acknowledged with its reason") {
  const std::string source =
      "#include \"khost.h\"\nextern \"C\" int f(const float* x, float* out) { return 0; }\n"
      "KHOST_EXPORT(f)\n";
  Subject subject(source, "f", {{"f", "rfwf"}}, KHOST_SOURCE_DIR "/LICENSE");
  REQUIRE(subject.ready());
  CHECK(subject.page().status == 1);
  CHECK(std::string(subject.page().message).find("does not load") != std::string::npos);
  CHECK(subject.end().code == 3);
}
