// What a jail sees: a JailSpec as arguments of bubblewrap, and the small files of /etc that it makes up.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "sandbox/jail/jail_spec.h"

namespace khost::sandbox {

enum class Route { root, user };

struct EtcFile {
  std::string path;
  std::string text;
};

// Path of khost-jail-exec inside every jail.
inline constexpr const char* kJailExecInside = "/run/khost-jail-exec";

std::vector<EtcFile> etc_files(uid_t uid);

// The whole command line. `data_fds` are the numbers, in the child, of files that hold etc_files() in order.
std::vector<std::string> bubblewrap_arguments(const JailSpec& spec, Route route, const std::string& jail_exec,
                                              const std::vector<EtcFile>& files, const std::vector<int>& data_fds);

// First executable of that name in PATH or the usual folders; empty when there is none.
std::string find_program(const std::string& name);

}  // namespace khost::sandbox
