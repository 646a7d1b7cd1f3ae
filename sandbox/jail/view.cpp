#include "sandbox/jail/view.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <sstream>

#include "sandbox/jail/libraries.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;

void add(Arguments& arguments, std::initializer_list<std::string> words) {
  arguments.insert(arguments.end(), words);
}

// The folders above `path`, searchable by everybody: those that bubblewrap makes by itself are 0700 of its user.
void add_parents(Arguments& arguments, const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    add(arguments, {"--perms", "0755", "--dir", path.substr(0, slash)});
  }
}

// Programs and libraries of the system; where /bin, /lib, ... are links into /usr they stay links.
void add_system(Arguments& arguments, const std::vector<std::string>& libraries) {
  for (const std::string& path : libraries) {
    add_parents(arguments, path);
    add(arguments, {"--ro-bind", path, path});
  }
  if (libraries.empty()) {
    add(arguments, {"--ro-bind", "/usr", "/usr"});
  }
  for (const char* name : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(name, error);
    if (fs::is_symlink(status)) {
      add(arguments, {"--symlink", fs::read_symlink(name, error).string(), name});
    } else if (libraries.empty() && fs::is_directory(status)) {
      add(arguments, {"--ro-bind", name, name});
    }
  }
}

void add_etc(Arguments& arguments, const std::vector<EtcFile>& files, const std::vector<int>& data_fds, bool system) {
  add_parents(arguments, "/etc/");
  // The dynamic linker's tables and Debian's links for cc, c++, ld, awk, ...
  for (const char* path :
       {"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime"}) {
    if (system) {
      add(arguments, {"--ro-bind-try", path, path});
    }
  }
  for (size_t i = 0; i < files.size(); ++i) {
    add(arguments, {"--perms", "0644", "--ro-bind-data", std::to_string(data_fds[i]), files[i].path});
  }
}

// Files that count what the whole machine does: by these a process would tell something to one in another jail. What
// programs of people go by (ps, free) is left to jails in which they may be.
void hide_counters(Arguments& arguments, bool subject) {
  std::vector<std::string> hidden = {"vmstat",      "zoneinfo",  "buddyinfo",    "pagetypeinfo", "slabinfo",
                                     "interrupts",  "softirqs",  "schedstat",    "diskstats",    "loadavg",
                                     "vmallocinfo", "locks",     "pressure/cpu", "pressure/io",  "pressure/memory",
                                     "timer_list",  "key-users", "pressure/irq"};
  if (subject) {
    hidden.insert(hidden.end(), {"stat", "meminfo", "swaps", "sys/fs/file-nr", "sys/fs/inode-nr", "sys/fs/inode-state",
                                 "sys/fs/dentry-state", "sys/kernel/random/entropy_avail", "sys/kernel/pty/nr"});
  }
  for (const std::string& name : hidden) {
    if (access(("/proc/" + name).c_str(), F_OK) == 0) {
      add(arguments, {"--ro-bind", "/dev/null", "/proc/" + name});  // not as a device: it cannot be opened
    }
  }
}

void add_scratch(Arguments& arguments, const JailSpec& spec) {
  const std::string size = std::to_string(spec.limits.tmp_bytes);
  add(arguments, {"--proc", "/proc", "--dev", "/dev"});
  hide_counters(arguments, spec.libraries_only);
  for (const std::string& device : spec.devices) {
    add(arguments, {"--dev-bind", device, device});
  }
  // bubblewrap's own defaults are 0755, of half the memory's size, and writable for whoever owns the namespace
  add(arguments, {"--perms", "1777", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"});
  add(arguments, {"--perms", "1777", "--size", size, "--tmpfs", "/tmp"});
  add_parents(arguments, "/var/tmp");
  add(arguments, {"--symlink", "/tmp", "/var/tmp"});
}

void add_binds(Arguments& arguments, const JailSpec& spec) {
  std::vector<std::string> prefixes = spec.readable_prefixes;
  std::sort(prefixes.begin(), prefixes.end());  // a folder comes before what lies in it
  for (const std::string& prefix : prefixes) {
    if (prefix != "/usr" && prefix.rfind("/usr/", 0) != 0) {
      add_parents(arguments, prefix);
      add(arguments, {"--ro-bind", prefix, prefix});
    }
  }
  for (const Bind& bind : spec.binds) {
    add_parents(arguments, bind.target);
    add(arguments, {bind.writable ? "--bind" : "--ro-bind", bind.source, bind.target});
  }
}

}  // namespace

std::vector<EtcFile> etc_files(uid_t uid) {
  const std::string id = std::to_string(uid);
  return {{"/etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\nkhost:x:" + id + ":" + id + "::/tmp:/bin/bash\n"},
          {"/etc/group", "root:x:0:\nkhost:x:" + id + ":\n"},
          {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
          {"/etc/hosts", "127.0.0.1 localhost\n"}};
}

std::vector<std::string> bubblewrap_arguments(const JailSpec& spec, Route route, const std::string& jail_exec,
                                              const std::vector<EtcFile>& files, const std::vector<int>& data_fds) {
  Arguments arguments{
      "bwrap",         "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent",
      "--new-session", "--as-pid-1",    "--hostname",    "khost"};
  if (route == Route::user) {
    add(arguments, {"--unshare-user", "--disable-userns"});
  } else {
    add(arguments,
        {"--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"});
  }
  const std::vector<std::string> libraries = spec.libraries_only ? kernel_libraries() : std::vector<std::string>();
  if (!libraries.empty()) {
    keep_in_memory(jail_exec);
  }
  add_system(arguments, libraries);
  add_etc(arguments, files, data_fds, libraries.empty());
  add_scratch(arguments, spec);
  add_binds(arguments, spec);
  add_parents(arguments, kJailExecInside);
  add(arguments, {"--ro-bind", jail_exec, kJailExecInside, "--remount-ro", "/", "--", kJailExecInside});
  return arguments;
}

std::string find_program(const std::string& name) {
  const char* path = getenv("PATH");
  std::istringstream folders(std::string(path != nullptr ? path : "") + ":/usr/bin:/usr/local/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + name;
    if (!folder.empty() && access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return "";
}

}  // namespace khost::sandbox
