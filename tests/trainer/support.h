// What the trainer's tests share: folders that vanish, commands, and the Python that has the reference implementations.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>

namespace khost::trainer::testing {

struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    static int made = 0;
    path = (std::filesystem::temp_directory_path() /
            ("khost-trainer-" + std::to_string(getpid()) + "-" + std::to_string(made++)))
               .string();
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};

struct Ran {
  int code = -1;
  std::string output;
};

inline Ran run(const std::string& command) {
  Ran ran;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part;
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe)) {
    ran.output.append(part.data(), count);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

// A Python with `module`: KHOST_REFERENCE_PYTHON, else KHOST_PYTHON. Empty when neither has it.
inline std::string python_with(const std::string& module) {
  for (const char* name : {"KHOST_REFERENCE_PYTHON", "KHOST_PYTHON"}) {
    const char* python = std::getenv(name);
    if (python != nullptr && run(std::string(python) + " -c 'import " + module + "' 2>/dev/null").code == 0) {
      return python;
    }
  }
  return "";
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// The folder of the running program, where the build puts khost too.
inline std::string build_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

}  // namespace khost::trainer::testing
