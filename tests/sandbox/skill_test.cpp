// Skills are read by policies that cannot ask back: what they name must exist and work.
#include <doctest/doctest.h>

#include <regex>
#include <thread>

#include "sandbox/jail/jail.h"
#include "tests/sandbox/abi_fixture.h"

using namespace khost::sandbox;
using namespace khost::sandbox::test;
namespace fs = std::filesystem;

namespace {

const fs::path kSkills = fs::path(KHOST_SOURCE_DIR) / "skills";

std::string field(const std::string& front, const std::string& name) {
  std::smatch found;
  return std::regex_search(front, found, std::regex("(^|\n)" + name + ": ([^\n]+)")) ? found[2].str() : "";
}

Output run(const fs::path& workspace, std::vector<std::string> argv) {
  JailSpec spec;
  spec.name = "skill";
  spec.argv = std::move(argv);
  spec.cwd = "/workspace";
  spec.binds = {{workspace.string(), "/workspace", false}};
  if (fs::exists(workspace / ".khost")) {
    spec.binds.push_back({(workspace / ".khost").string(), "/workspace/.khost", true});
  }
  auto output = run_in_jail(spec, "", 30, 10000);
  REQUIRE_MESSAGE(output, output.failure().message);
  return std::move(output).value();
}

}  // namespace

TEST_CASE("every skill has a name equal to its folder and a description of legal length") {
  for (const auto& entry : fs::directory_iterator(kSkills)) {
    const std::string text = read_text(entry.path() / "SKILL.md");
    REQUIRE(text.rfind("---\n", 0) == 0);
    const std::string front = text.substr(4, text.find("\n---\n", 4) - 4);
    CHECK(field(front, "name") == entry.path().filename().string());
    CHECK(field(front, "description").size() > 40);
    CHECK(field(front, "description").size() <= 1024);
  }
}

TEST_CASE("the targets share one header and one set of clients") {
  for (const auto& entry : fs::directory_iterator(kSkills / "cuda-kernel/template/utils")) {
    const std::string name = entry.path().filename().string();
    const fs::path other = kSkills / "cpp-kernel/template/utils" / name;
    // The compilers differ; everything else is one file.
    CHECK_MESSAGE((name == "compile.sh" || fs::equivalent(entry.path(), other)), name);
  }
}

TEST_CASE("the example of the C++ skill compiles, with the judge's flags and with the skill's own script") {
  const std::string text = read_text(kSkills / "cpp-kernel/SKILL.md");
  const std::size_t begin = text.find("```cpp\n") + 7;
  const std::string source = text.substr(begin, text.find("```", begin) - begin);
  const auto built = build_source(source);
  REQUIRE_MESSAGE(built, built.failure().message);
  CHECK(built.value().signatures.count("scale_bias") == 1);

  const CacheFolder workspace;
  fs::copy(kSkills / "cpp-kernel/template", workspace.path, fs::copy_options::recursive);
  fs::permissions(workspace.path, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  CHECK(run(workspace.path, {"sh", "utils/compile.sh"}).exit.code == 1);
  std::ofstream(fs::path(workspace.path) / "kernels/k.cpp") << source;
  CHECK(run(workspace.path, {"sh", "utils/compile.sh"}).out == "compiled\n");
  std::ofstream(fs::path(workspace.path) / "kernels/k.cpp") << "wrong";
  const Output output = run(workspace.path, {"sh", "utils/compile.sh"});
  CHECK(output.exit.code != 0);
  CHECK(output.err.find("kernels/k.cpp:1:1: error") != std::string::npos);
}

TEST_CASE("the clients ask the host and print its answer") {
  const CacheFolder workspace;
  fs::copy(kSkills / "cpp-kernel/template", workspace.path, fs::copy_options::recursive);
  fs::permissions(workspace.path, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  const fs::path folder = fs::path(workspace.path) / ".khost";
  for (const auto& [module, kind] :
       {std::pair{"utils.verification", "verify"}, std::pair{"utils.profiling", "profile"}}) {
    fs::remove_all(folder);
    fs::create_directory(folder);
    std::ofstream(folder / "response-3.json") << "{}";  // of an earlier request
    std::string asked;
    std::thread host([&] {
      const fs::path request = folder / "request-4.json";
      for (int i = 0; i < 1000 && !fs::exists(request); i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      asked = read_text(request);
      std::ofstream(folder / "answer") << R"({"text": "all outputs agree"})";
      fs::rename(folder / "answer", folder / "response-4.json");
    });
    const Output output = run(workspace.path, {"python3", "-m", module});
    host.join();
    CHECK(asked == "{\"kind\": \"" + std::string(kind) + "\"}");
    CHECK(output.out == "all outputs agree\n");
    CHECK_MESSAGE(output.exit.code == 0, output.err);
  }
}
