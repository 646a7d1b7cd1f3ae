// What this machine has, and running one of its programs to find out more. For `khost doctor` and for reports; no
// candidate's code is ever run through here.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost {

// {cores, cores_online, memory_bytes, memory_available_bytes, memory_limit_bytes?, disk_free_bytes, kernel, machine,
// host, user_id}; the disk is the one that holds `path`. Never fails: what cannot be read is absent.
Json machine_facts(const std::string& path);

struct ProgramOptions {
  double timeout_s = 60;
  size_t output_bytes = 1 << 16;
};

struct ProgramResult {
  int code = -1;  // 128 + signal when killed, 124 when out of time
  std::string output;  // standard output and error together
  double wall_s = 0;
};

// Blocking, from any thread. Fails with io when the program cannot be started; `stop` set by another thread kills
// its process group.
Result<ProgramResult> run_program(const std::vector<std::string>& argv, const ProgramOptions& options,
                                  const std::shared_ptr<std::atomic<bool>>& stop = nullptr);

}  // namespace khost
