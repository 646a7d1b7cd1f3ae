// One episode's directory: made from a template folder, shown to jails as /workspace, destroyed with the object.
//
// As root it lies on a tmpfs of limited size and belongs to a leased uid, which all its jails share; as an ordinary
// user it is a folder whose size is looked at while commands run. What came from the template or from `files` is
// read-only inside (mounted so), except for `writable`. Everything that the host reads or writes goes through Folder.
// /tmp of its jails is one folder beside it, so that they see each other's scratch files.
//
// Requests of programs inside: they put `.khost/request-<n>.json` (write another name, then rename) and wait for
// `.khost/response-<n>.json`. The host polls take_request() and answers; nothing in a request is trusted.
//
// The folders of owners that were killed are removed when the next process makes its first workspace.
// Any thread may call; a Workspace is shared by its shells.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/jail/jail_spec.h"
#include "sandbox/workspace/beneath.h"
#include "sandbox/workspace/workspace_home.h"

namespace khost::sandbox {

inline constexpr const char* kWorkspaceInside = "/workspace";

struct WorkspaceOptions {
  std::string template_folder;                                   // copied; empty for none
  std::map<std::string, std::string> files;                      // written over it: path -> text
  std::vector<std::string> writable{"kernels", "model_new.py"};  // not protected; also what snapshot() takes
  size_t bytes = 256ull << 20;                                   // of all files together, and again for /tmp
  size_t most_files = 4096;
};

struct Request {
  long id = 0;
  std::string text;
};

class Workspace {
 public:
  static Result<std::shared_ptr<Workspace>> create(const WorkspaceOptions& options);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() = default;  // removes the directory; its jails must have ended

  Result<std::string> read(const std::string& path) const;
  // Fails with code "protected" on what is read-only inside.
  Status write(const std::string& path, const std::string& text) const;
  Status remove(const std::string& path) const;                        // same rule
  Status put(const std::string& path, const std::string& text) const;  // the host's own right, protected or not
  Result<FileEntry> entry(const std::string& path) const;
  Result<std::vector<FileEntry>> files(const std::string& under) const;
  bool is_protected(const std::string& path) const;

  // The files below `writable`: what a candidate consists of. "limit" when there are too many or too large ones.
  Result<std::map<std::string, std::string>> snapshot() const;
  // Makes the files below `writable` equal to a snapshot.
  Status restore(const std::map<std::string, std::string>& files) const;
  Status within_limits() const;

  // /workspace, /tmp, uid and working directory of a jail for this workspace; the caller adds argv, limits, fds.
  JailSpec jail_spec() const;

  std::optional<Request> take_request() const;  // the oldest that waits
  Status answer(long id, const std::string& text) const;

  std::string path() const;  // on the host

 private:
  // What the workspaces of one template have in common; held once for all, since ten thousand may be open.
  struct Rules {
    std::vector<std::string> writable;
    std::vector<std::string> read_only;  // first parts of paths
    size_t bytes = 0;
    size_t most_files = 0;
    auto operator<=>(const Rules&) const = default;
  };
  static std::shared_ptr<const Rules> shared(Rules rules);

  Workspace(std::shared_ptr<const UidLease> uid, Home home, std::shared_ptr<const Rules> rules, Folder folder);
  Status fill(const WorkspaceOptions& options);
  std::optional<uid_t> owner() const;

  std::shared_ptr<const UidLease> uid_;  // given back when the files are gone
  Home home_;                            // holds work/ and tmp/
  std::shared_ptr<const Rules> rules_;
  Folder folder_;
};

}  // namespace khost::sandbox
