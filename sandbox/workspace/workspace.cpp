#include "sandbox/workspace/workspace.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <sstream>

#include "sandbox/jail/uid_lease.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileBytes = 4ull << 20;  // of a file that the host reads at once
constexpr size_t kSnapshotFiles = 256;
constexpr size_t kSnapshotBytes = 8ull << 20;
constexpr size_t kRequestBytes = 1ull << 20;
constexpr const char* kExchange = ".khost";
constexpr const char* kWorkInHome = "/work";
constexpr const char* kTmpInHome = "/tmp";

std::string first_part(const std::string& path) {
  return path.substr(0, path.find('/'));
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// Templates are ours: links in them are followed, and their modes do not matter.
Status copy_template(const std::string& from, const Folder& to,
                     const std::function<std::optional<uid_t>(const std::string&)>& owner_of) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from, error)) {
    // Lexical: files may be links to those of another skill, which are copied as what they name.
    const std::string path = entry.path().lexically_relative(from).string();
    if (entry.is_directory()) {
      const Status made = to.make_folder(path, owner_of(path));
      if (!made) {
        return made;
      }
    } else if (entry.is_regular_file()) {
      std::ifstream file(entry.path(), std::ios::binary);
      std::ostringstream text;
      text << file.rdbuf();
      const Status written = to.write(path, text.str(), owner_of(path));
      if (!written) {
        return written;
      }
    }
  }
  return error ? Status(Failure{"template " + from + ": " + error.message(), "io"}) : ok();
}

Status make_folder_of(const std::string& path, mode_t mode, const std::shared_ptr<const UidLease>& uid) {
  if (mkdir(path.c_str(), mode) != 0 || chmod(path.c_str(), mode) != 0 ||
      (uid && chown(path.c_str(), uid->uid(), uid->uid()) != 0)) {
    return system_failure("mkdir " + path);
  }
  return ok();
}

}  // namespace

Workspace::Workspace(std::shared_ptr<const UidLease> uid, Home home, std::shared_ptr<const Rules> rules, Folder folder)
    : uid_(std::move(uid)), home_(std::move(home)), rules_(std::move(rules)), folder_(std::move(folder)) {}

std::string Workspace::path() const {
  return home_.path() + kWorkInHome;
}

std::optional<uid_t> Workspace::owner() const {
  return uid_ ? std::optional<uid_t>(uid_->uid()) : std::nullopt;
}

std::shared_ptr<const Workspace::Rules> Workspace::shared(Rules rules) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<const Rules>> known;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& weak) { return weak.expired(); });
  for (const std::weak_ptr<const Rules>& weak : known) {
    const std::shared_ptr<const Rules> same = weak.lock();
    if (same && *same == rules) {
      return same;
    }
  }
  const auto made = std::make_shared<const Rules>(std::move(rules));
  known.push_back(made);
  return made;
}

// Files of the template and of the caller; what of them is read-only inside is then in the rules.
Status Workspace::fill(const WorkspaceOptions& options) {
  // What is read-only inside stays ours, so that not only the mount protects it.
  const auto first_owner = [&](const std::string& path) {
    return contains(options.writable, first_part(path)) ? owner() : std::nullopt;
  };
  Status made = ok();
  if (!options.template_folder.empty()) {
    made = copy_template(options.template_folder, folder_, first_owner);
  }
  for (auto file = options.files.begin(); made && file != options.files.end(); ++file) {
    made = folder_.write(file->first, file->second, first_owner(file->first));
  }
  if (!made) {
    return made;
  }
  Rules rules = *rules_;
  for (const fs::directory_entry& entry : fs::directory_iterator(path())) {
    const std::string name = entry.path().filename().string();
    if (!contains(options.writable, name)) {
      rules.read_only.push_back(name);
    }
  }
  std::sort(rules.read_only.begin(), rules.read_only.end());
  rules_ = shared(std::move(rules));
  return folder_.make_folder(kExchange, owner());
}

Result<std::shared_ptr<Workspace>> Workspace::create(const WorkspaceOptions& options) {
  std::shared_ptr<const UidLease> uid;
  if (geteuid() == 0) {
    Result<std::shared_ptr<const UidLease>> lease = UidLease::acquire();
    if (!lease) {
      return lease.failure();
    }
    uid = *lease;
  }
  Result<Home> home = Home::make(2 * options.bytes, 2 * options.most_files);
  if (!home) {
    return home.failure();
  }
  Status made = make_folder_of(home->path() + kWorkInHome, 0755, uid);
  if (made) {
    made = make_folder_of(home->path() + kTmpInHome, 01777, uid);
  }
  Result<Folder> folder = Folder::open(home->path() + kWorkInHome);
  if (!made || !folder) {
    return made ? folder.failure() : made.failure();
  }
  std::shared_ptr<const Rules> rules = shared({options.writable, {}, options.bytes, options.most_files});
  std::shared_ptr<Workspace> workspace(
      new Workspace(std::move(uid), std::move(*home), std::move(rules), std::move(*folder)));
  made = workspace->fill(options);
  return made ? Result<std::shared_ptr<Workspace>>(workspace) : made.failure();
}

bool Workspace::is_protected(const std::string& path) const {
  const Result<std::string> tidy = tidy_path(path);
  return tidy && contains(rules_->read_only, first_part(tidy.value()));
}

Result<std::string> Workspace::read(const std::string& path) const {
  return folder_.read(path, kFileBytes);
}

Status Workspace::write(const std::string& path, const std::string& text) const {
  if (is_protected(path)) {
    return Failure{path + " is protected: it belongs to the task", "protected"};
  }
  return put(path, text);
}

Status Workspace::remove(const std::string& path) const {
  if (is_protected(path)) {
    return Failure{path + " is protected: it belongs to the task", "protected"};
  }
  return folder_.remove(path);
}

Status Workspace::put(const std::string& path, const std::string& text) const {
  return folder_.write(path, text, is_protected(path) ? std::nullopt : owner());
}

Result<FileEntry> Workspace::entry(const std::string& path) const {
  return folder_.entry(path);
}

Result<std::vector<FileEntry>> Workspace::files(const std::string& under) const {
  return folder_.files(under, rules_->most_files);
}

Result<std::map<std::string, std::string>> Workspace::snapshot() const {
  std::map<std::string, std::string> taken;
  size_t bytes = 0;
  for (const std::string& part : rules_->writable) {
    const Result<FileEntry> entry = folder_.entry(part);
    if (!entry) {
      continue;  // the agent has not made it
    }
    std::vector<FileEntry> found{entry.value()};
    if (entry.value().folder) {
      Result<std::vector<FileEntry>> files = folder_.files(part, kSnapshotFiles);
      if (!files) {
        return files.failure();
      }
      found = *files;
    }
    for (const FileEntry& file : found) {
      Result<std::string> text = folder_.read(file.path, kSnapshotBytes - bytes);
      if (!text) {
        return text.failure();
      }
      bytes += text->size();
      taken[file.path] = std::move(*text);
    }
  }
  if (taken.size() > kSnapshotFiles) {
    return Failure{"more than " + std::to_string(kSnapshotFiles) + " files", "limit"};
  }
  return taken;
}

Status Workspace::restore(const std::map<std::string, std::string>& files) const {
  const Result<std::map<std::string, std::string>> present = snapshot();
  if (!present) {
    return present.failure();
  }
  for (const auto& file : present.value()) {
    if (files.count(file.first) == 0) {
      const Status removed = folder_.remove(file.first);
      if (!removed) {
        return removed;
      }
    }
  }
  for (const auto& [path, text] : files) {
    const Status written = write(path, text);
    if (!written) {
      return written;
    }
  }
  return ok();
}

Status Workspace::within_limits() const {
  const Result<std::vector<FileEntry>> all = folder_.files("", rules_->most_files);
  if (!all) {
    return all.failure();
  }
  size_t bytes = 0;
  for (const FileEntry& file : all.value()) {
    bytes += file.bytes;
  }
  if (bytes > rules_->bytes) {
    return Failure{"the workspace holds " + std::to_string(bytes >> 20) + " MB, the limit is " +
                       std::to_string(rules_->bytes >> 20) + " MB",
                   "limit"};
  }
  return ok();
}

JailSpec Workspace::jail_spec() const {
  JailSpec spec;
  spec.name = "workspace";
  spec.cwd = kWorkspaceInside;
  spec.uid = uid_;
  spec.environment["HOME"] = "/tmp";
  spec.binds.push_back({home_.path() + kTmpInHome, "/tmp", true});
  spec.binds.push_back({path(), kWorkspaceInside, true});
  for (const std::string& name : rules_->read_only) {
    spec.binds.push_back({path() + "/" + name, std::string(kWorkspaceInside) + "/" + name, false});
  }
  return spec;
}

std::optional<Request> Workspace::take_request() const {
  const Result<std::vector<FileEntry>> waiting = folder_.files(kExchange, rules_->most_files);
  if (!waiting) {
    return std::nullopt;
  }
  const std::string prefix = std::string(kExchange) + "/request-";
  const FileEntry* oldest = nullptr;
  for (const FileEntry& file : waiting.value()) {
    const bool request = file.path.rfind(prefix, 0) == 0 && fs::path(file.path).extension() == ".json";
    if (request && (oldest == nullptr || file.mtime_ns < oldest->mtime_ns)) {
      oldest = &file;
    }
  }
  if (oldest == nullptr) {
    return std::nullopt;
  }
  Result<std::string> text = folder_.read(oldest->path, kRequestBytes);
  if (!folder_.remove(oldest->path) || !text) {
    return std::nullopt;
  }
  return Request{strtol(oldest->path.c_str() + prefix.size(), nullptr, 10), std::move(*text)};
}

Status Workspace::answer(long id, const std::string& text) const {
  return put(std::string(kExchange) + "/response-" + std::to_string(id) + ".json", text);
}

}  // namespace khost::sandbox
