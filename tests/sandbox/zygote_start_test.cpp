// A Python of the judge that does not come up says why, at once; threads of what it imports do not keep it from coming
// up.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "tests/sandbox/zygote_fixture.h"

using namespace khost;

namespace {

namespace fs = std::filesystem;

// A copy of the Python files, for a test to change. It lies in /tmp, which a confined zygote empties.
class OtherRoot {
 public:
  OtherRoot() {
    std::string name = "/tmp/khost-root-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
    fs::permissions(root_, fs::perms(0755));
    fs::create_directories(root_ / "sandbox");
    fs::copy(fs::path(KHOST_SOURCE_DIR) / "sandbox/python", root_ / "sandbox/python", fs::copy_options::recursive);
  }
  OtherRoot(const OtherRoot&) = delete;
  OtherRoot& operator=(const OtherRoot&) = delete;
  ~OtherRoot() { fs::remove_all(root_); }
  void replace(const std::string& file, const std::string& text, const std::string& other) const {
    std::stringstream old;
    old << std::ifstream(root_ / file).rdbuf();
    std::string all = old.str();
    const std::size_t at = all.find(text);
    REQUIRE(at != std::string::npos);
    std::ofstream(root_ / file) << all.replace(at, text.size(), other);
  }
  Result<std::unique_ptr<judge::Zygote>> start() const {
    return judge::Zygote::start({getenv("KHOST_PYTHON"), root_.string()}, "recorder", judge::Serves::recorders);
  }

 private:
  fs::path root_;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What a child answers to a candidate that returns a number, which no plan can do.
std::string recorded(judge::Zygote& zygote) {
  Result<judge::Child> child = zygote.spawn();
  REQUIRE_MESSAGE(child, child.failure().message);
  const Json tree = {{"storages", Json::array()}, {"tree", {{"kind", "tuple"}, {"items", Json::array()}}}};
  const std::string model = "import torch\nclass Model(torch.nn.Module):\n    def forward(self):\n        return 3\n";
  const Json request = {{"model_source", model},
                        {"model_new_source",
                         "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self):\n"
                         "        return 3\n"},
                        {"signatures", Json::object()},
                        {"inputs", tree},
                        {"state", tree}};
  Result<Json> answer = child->call({{"kind", "record"}, {"request", request}}, {}, 60);
  REQUIRE_MESSAGE(answer, answer.failure().message);
  return answer->dump();
}

}  // namespace

TEST_CASE("a Python of the judge that does not come up says why within seconds") {
  if (getenv("KHOST_PYTHON") == nullptr) {
    tests::skip("needs KHOST_PYTHON");
    return;
  }
  struct Fault {
    const char *file, *text, *other, *says;
  };
  for (const Fault& fault :
       {Fault{"sandbox/python/khost/process/zygote.py", "import torch  #", "raise RuntimeError('no torch today')  #",
              "no torch today"},
        Fault{"sandbox/python/khost/candidate/recorder.py",
              "def warm_up():", "def warm_up():\n    raise OSError('cannot warm up')\n", "cannot warm up"},
        Fault{"sandbox/python/khost/process/confinement.py", "check_confined(self.library.khost_confine())",
              "check_confined(38)", "cannot be confined: Function not implemented"},
        Fault{"sandbox/python/khost/candidate/recorder.py", "    recorder = Recorder(request",
              "    import time; time.sleep(1000)\n    recorder = Recorder(request",
              "a child on trial did not record in 1 s"}}) {
    CAPTURE(fault.says);
    OtherRoot root;
    root.replace(fault.file, fault.text, fault.other);
    root.replace("sandbox/python/khost/process/confinement.py", "TRIAL_S = 20", "TRIAL_S = 1");
    const auto begin = std::chrono::steady_clock::now();
    const Result<std::unique_ptr<judge::Zygote>> zygote = root.start();
    REQUIRE_FALSE(zygote);
    CHECK(zygote.failure().code == "host");
    CHECK_MESSAGE(zygote.failure().message.find(fault.says) != std::string::npos, zygote.failure().message);
    CHECK(seconds_since(begin) < 90);  // importing torch takes 5 s, ten times that on a busy machine
  }
}

TEST_CASE("recorders come up beside threads that their imports started, also when a child misses these") {
  if (getenv("KHOST_PYTHON") == nullptr) {
    tests::skip("needs KHOST_PYTHON");
    return;
  }
  const std::string start = R"(
import threading
def hold():
    with HELD:
        threading.Event().wait()
HELD = threading.Lock()
def warm_up():
    threading.Thread(target=hold, daemon=True).start()
)";
  {
    INFO("a thread that nobody misses");
    OtherRoot root;
    root.replace("sandbox/python/khost/candidate/recorder.py", "def warm_up():", start);
    Result<std::unique_ptr<judge::Zygote>> zygote = root.start();
    REQUIRE_MESSAGE(zygote, zygote.failure().message);
    CHECK(recorded(**zygote).find("\"value\":3") != std::string::npos);
  }
  {
    INFO("a thread that holds what recording needs");
    OtherRoot root;
    root.replace("sandbox/python/khost/candidate/recorder.py", "def warm_up():", start);
    root.replace("sandbox/python/khost/candidate/recorder.py", "    recorder = Recorder(request",
                 "    HELD.acquire()\n    recorder = Recorder(request");
    root.replace("sandbox/python/khost/process/confinement.py", "TRIAL_S = 20", "TRIAL_S = 10");
    Result<std::unique_ptr<judge::Zygote>> zygote = root.start();
    REQUIRE_MESSAGE(zygote, zygote.failure().message);
    CHECK(recorded(**zygote).find("\"value\":3") != std::string::npos);
  }
}
