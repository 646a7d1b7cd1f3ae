// Shell scripts in jails, for tests: what they print, started by this user and by nobody.
#pragma once

#include <doctest/doctest.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "sandbox/jail/jail.h"

namespace khost::tests {

inline sandbox::JailSpec shell(const std::string& script) {
  sandbox::JailSpec spec;
  spec.name = "test";
  spec.argv = {"/bin/bash", "-c", script};
  return spec;
}

inline sandbox::Output run(const sandbox::JailSpec& spec, double timeout_s = 20, const std::string& input = "",
                           size_t bytes = 1 << 16) {
  Result<sandbox::Output> output = sandbox::run_in_jail(spec, input, timeout_s, bytes);
  REQUIRE_MESSAGE(bool(output), output.failure().message);
  return *output;
}

inline std::string out_of(const sandbox::JailSpec& spec) {
  const sandbox::Output output = run(spec);
  return output.out + output.err;
}

// What the same script prints in a jail started by the user nobody; skipped where this test is not run by root.
inline std::string out_as_nobody(const sandbox::JailSpec& spec) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("khost-nobody-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::filesystem::path program = folder / "khost-jail-exec";
  std::filesystem::copy_file(sandbox::self_directory() + "/khost-jail-exec", program,
                             std::filesystem::copy_options::overwrite_existing);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv("KHOST_JAIL_EXEC", program.c_str(), 1);
    if (setgroups(0, nullptr) != 0 || setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) {
      _exit(2);
    }
    const Result<sandbox::Output> output = sandbox::run_in_jail(spec, "", 20, 1 << 16);
    const std::string text = output ? output.value().out + output.value().err : output.failure().message;
    [[maybe_unused]] const ssize_t n = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  std::filesystem::remove_all(folder);
  return text;
}

// Both routes must keep the same promises.
inline void check_both(const sandbox::JailSpec& spec, const std::function<void(const std::string&)>& check) {
  {
    INFO("started by uid " << geteuid());
    check(out_of(spec));
  }
  if (geteuid() == 0) {
    INFO("started by nobody");
    check(out_as_nobody(spec));
  }
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace khost::tests
