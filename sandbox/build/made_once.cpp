#include "sandbox/build/made_once.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <optional>

#include "host/base/defer.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

// One lock per folder, so that a slow build does not block callers that need a different folder.
struct Place {
  std::mutex mutex;
  std::optional<bool> there;
};

Place& place_of(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, Place> places;
  const std::scoped_lock lock(mutex);
  return places[path];
}

bool make_now(const fs::path& ready, const std::function<bool(const fs::path&)>& make) {
  std::error_code error;
  if (fs::exists(ready, error)) {
    return true;
  }
  fs::create_directories(ready.parent_path(), error);
  std::string folder = (ready.parent_path() / "making-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return false;
  }
  const Defer remove([&] {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  });
  chmod(folder.c_str(), 0755);
  if (!make(folder)) {
    return false;
  }
  fs::rename(folder + "/ready", ready, error);
  return fs::exists(ready, error);  // another process may have been first
}

}  // namespace

std::string made_once(const fs::path& ready, const std::function<bool(const fs::path& folder)>& make) {
  Place& place = place_of(ready.string());
  const std::scoped_lock lock(place.mutex);
  if (!place.there) {
    place.there = make_now(ready, make);
  }
  return *place.there ? ready.string() : "";
}

}  // namespace khost::sandbox
