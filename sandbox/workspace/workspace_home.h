// Where workspaces lie on the host: one folder per khost process, locked while it lives and removed when it ends;
// what a killed one left is swept by the next.
#pragma once

#include <string>
#include <utility>

#include "host/base/result.h"

namespace khost::sandbox {

// Gives this process a mount namespace of its own, where it may, so that the workspaces' file systems go with it even
// when it is killed. What others mount is seen as before. To be called while there is one thread.
void keep_mounts_private();

// A new empty folder for one workspace, on a tmpfs of `bytes` and `most_files` where this process may mount one;
// removed with the object.
class Home {
 public:
  static Result<Home> make(size_t bytes, size_t most_files);
  Home(Home&& other) noexcept : number_(std::exchange(other.number_, 0)) {}
  Home& operator=(Home&&) = delete;
  ~Home();

  std::string path() const;

 private:
  explicit Home(unsigned number) : number_(number) {}
  unsigned number_;  // its name in this process's folder, from 1; 0 when moved from
};

// Removes what killed owners left. khost begins with it.
void sweep_homes();

}  // namespace khost::sandbox
