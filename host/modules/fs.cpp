// khost.fs: files of the host. For a workspace's files use khost.sandbox, which never follows a link out.
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "host/base/hold.h"
#include "host/base/sha256.h"
#include "host/host.h"
#include "host/log/plain_text.h"
#include "host/lua/task.h"
#include "host/modules/modules.h"
#include "host/modules/workers.h"

namespace khost {

constexpr const char* class_name(lua::Tag<Hold>) {
  return "Hold";
}

}  // namespace khost

namespace khost::modules {
namespace {

namespace stdfs = std::filesystem;

Failure io_failure(const std::string& what, const std::string& path, int error) {
  return {what + " " + path + ": " + std::strerror(error), "io"};
}

Result<std::string> read(std::string path) {
  std::error_code error;
  if (stdfs::is_directory(path, error)) {
    return Failure{"read " + path + ": is a folder", "io"};
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return io_failure("read", path, errno);
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Whole or not at all: written beside the target, flushed, then renamed over it. The folder may be a stranger's, who
// can foresee the name of the temporary file and put a link there: it is removed, never followed.
Status write(std::string path, std::string text) {
  const std::string temporary = path + ".new" + std::to_string(getpid());
  ::unlink(temporary.c_str());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) {
    return io_failure("write", path, errno);
  }
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) {
      const int error = errno;
      ::close(fd);
      ::unlink(temporary.c_str());
      return io_failure("write", path, error);
    }
    done += n > 0 ? static_cast<size_t>(n) : 0;
  }
  ::fsync(fd);
  ::close(fd);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return io_failure("write", path, error);
  }
  return ok();
}

// Names in the folder, sorted; folders end in "/".
Result<std::vector<std::string>> list(std::string path) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : stdfs::directory_iterator(path, error)) {
    names.push_back(entry.path().filename().string() + (entry.is_directory() ? "/" : ""));
  }
  if (error) {
    return Failure{"list " + path + ": " + error.message(), "io"};
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "file", "folder", "other", or nil when there is nothing.
std::optional<std::string> exists(std::string path) {
  std::error_code error;
  const auto status = stdfs::status(path, error);
  if (!stdfs::exists(status)) {
    return std::nullopt;
  }
  return stdfs::is_directory(status) ? "folder" : stdfs::is_regular_file(status) ? "file" : "other";
}

// Of a file, in bytes.
Result<double> size(std::string path) {
  std::error_code error;
  const auto bytes = stdfs::file_size(path, error);
  if (error) {
    return Failure{"size of " + path + ": " + error.message(), "io"};
  }
  return static_cast<double>(bytes);
}

Status rename(std::string from, std::string to) {
  std::error_code error;
  stdfs::rename(from, to, error);
  return error ? Status(Failure{"rename " + from + " to " + to + ": " + error.message(), "io"}) : ok();
}

Status mkdirs(std::string path) {
  std::error_code error;
  stdfs::create_directories(path, error);
  return error ? Status(Failure{"create " + path + ": " + error.message(), "io"}) : ok();
}

Status remove_tree(std::string path) {
  std::error_code error;
  stdfs::remove_all(path, error);
  return error ? Status(Failure{"remove " + path + ": " + error.message(), "io"}) : ok();
}

Result<std::string> absolute(std::string path) {
  std::error_code error;
  const auto whole = stdfs::weakly_canonical(path, error);
  if (error) {
    return Failure{"resolve " + path + ": " + error.message(), "io"};
  }
  return whole.string();
}

std::optional<std::string> environment(std::string name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::vector<std::string> glob_paths(std::string pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

Result<std::shared_ptr<Hold>> hold(std::string path) {
  std::error_code error;
  Result<Hold> taken = Hold::take(path, stdfs::absolute(path, error).parent_path().string());
  return taken ? Result<std::shared_ptr<Hold>>(std::make_shared<Hold>(std::move(*taken))) : taken.failure();
}

void release(std::shared_ptr<Hold> held) {
  *held = Hold();
}

std::string sha256(std::string text) {
  return sha256_hex(text);
}
void sha256_file(lua::Resume<std::string> done, std::string path) {
  submit_blocking([done, path] {
    Result<std::string> sum = sha256_of_file(path);
    if (sum) {
      done(std::move(*sum));
    } else {
      done.fail(sum.failure());
    }
  });
}
std::string root(lua_State* L) {
  return Host::of(L).root();
}
std::string build_dir(lua_State* L) {
  return Host::of(L).build_dir();
}
void print_error(std::string text) {
  std::fputs(plain_text(text).c_str(), stderr);
}

}  // namespace

void open_fs(lua_State* L) {
  lua::add_class<Hold>(L, {lua::def<release>("release")});
  lua_newtable(L);
  add_beneath(L);
  lua::add(L, {lua::def<read>("read"), lua::def<write>("write"), lua::def<list>("list"), lua::def<exists>("exists"),
               lua::def<mkdirs>("mkdirs"), lua::def<remove_tree>("remove_tree"), lua::def<absolute>("absolute"),
               lua::def<environment>("env"), lua::def<glob_paths>("glob"), lua::def<hold>("hold"),
               lua::def<sha256>("sha256"), lua::def<sha256_file>("sha256_file"), lua::def<size>("size"),
               lua::def<rename>("rename"), lua::def<root>("root"), lua::def<build_dir>("build_dir"),
               lua::def<print_error>("eprint")});
}

}  // namespace khost::modules
