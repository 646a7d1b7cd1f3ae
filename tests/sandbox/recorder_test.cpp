// Runs tests/python where a Python with PyTorch is known: KHOST_PYTHON, or the virtual environment of the launcher.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>

namespace fs = std::filesystem;

namespace {

std::string python_with_torch() {
  if (const char* python = getenv("KHOST_PYTHON"); python != nullptr) {
    return python;
  }
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  const fs::path folder = cache != nullptr ? fs::path(cache) / "khost" : fs::path(home != nullptr ? home : "/") / ".cache/khost";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind("venv-torch", 0) == 0 && fs::exists(entry.path() / "bin/python")) {
      return (entry.path() / "bin/python").string();
    }
  }
  return "";
}

}  // namespace

TEST_CASE("the recorder turns model_new.py into plans and refuses everything else") {
  const std::string python = python_with_torch();
  if (python.empty()) {
    MESSAGE("no Python with PyTorch (set KHOST_PYTHON): not checked");
    return;
  }
  const int status = std::system((python + " " KHOST_SOURCE_DIR "/tests/python/recorder_test.py").c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
