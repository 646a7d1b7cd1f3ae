// The part of khost.fs for folders that strangers fill: no link below them is followed. Such a folder is named by its
// path, which is followed at each call, or held, so that it stays the same one whatever becomes of the names above it.
#include "sandbox/workspace/beneath.h"

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/lua/bind.h"
#include "host/modules/modules.h"

namespace khost::modules {

struct HeldFolder {
  std::string path;                               // without links when it was opened
  std::shared_ptr<const sandbox::Folder> folder;  // null once it is released
};

// A folder as a script names it.
struct Place {
  std::string path;
  std::shared_ptr<HeldFolder> held;  // null for a path
};

constexpr const char* class_name(lua::Tag<HeldFolder>) {
  return "Folder";
}

}  // namespace khost::modules

namespace khost::lua {

template <>
struct Codec<modules::Place> {
  static modules::Place get(lua_State* L, int i) {
    if (lua_type(L, i) == LUA_TSTRING) {
      return {Codec<std::string>::get(L, i), nullptr};
    }
    auto held = Codec<std::shared_ptr<modules::HeldFolder>>::get(L, i);
    return {held->path, held};
  }
};

}  // namespace khost::lua

namespace khost::modules {
namespace {

namespace stdfs = std::filesystem;
using Shared = std::shared_ptr<const sandbox::Folder>;

// Who holds the same folder many times, as sessions of one client do, has one descriptor of it.
Result<Shared> shared(sandbox::Folder folder) {
  static std::mutex mutex;
  static std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<const sandbox::Folder>> known;
  const auto identity = folder.identity();
  if (!identity) {
    return identity.failure();
  }
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& one) { return one.second.expired(); });
  Shared all = known[*identity].lock();
  if (!all) {
    all = std::make_shared<const sandbox::Folder>(std::move(folder));
    known[*identity] = all;
  }
  return all;
}

// A path without links, opened so that none can come in between.
Result<Shared> open_plain(const stdfs::path& whole) {
  Result<sandbox::Folder> top = sandbox::Folder::open("/");
  if (!top) {
    return top.failure();
  }
  Result<sandbox::Folder> folder = top->folder(whole.relative_path().string());
  return folder ? shared(std::move(*folder)) : Failure{"/" + folder.failure().message, folder.failure().code};
}

// Holds the folder at `path`, which may be a link; what that leads to is named without any other link, since strangers
// may own the folders on its way and put one there.
Result<std::shared_ptr<HeldFolder>> folder(std::string path) {
  std::error_code error;
  const stdfs::path named(path);
  const auto parent = stdfs::canonical(named.has_parent_path() ? named.parent_path() : ".", error);
  if (error) {
    return Failure{path + ": " + error.message(), "io"};
  }
  stdfs::path whole = (parent / named.filename()).lexically_normal();
  const auto target = stdfs::read_symlink(whole, error);
  if (!error) {
    whole = (parent / target).lexically_normal();
  }
  if (whole.has_relative_path() && !whole.has_filename()) {
    whole = whole.parent_path();  // of "x/"
  }
  Result<Shared> open = open_plain(whole);
  return open ? Result<std::shared_ptr<HeldFolder>>(std::make_shared<HeldFolder>(HeldFolder{whole.string(), *open}))
              : open.failure();
}

// The folder that a path leads to now, through whatever links its user chose.
Result<Shared> followed(const std::string& path) {
  std::error_code error;
  const auto whole = stdfs::canonical(path, error);
  return error ? Result<Shared>(Failure{path + ": " + error.message(), "io"}) : open_plain(whole);
}

std::string path_of(std::shared_ptr<HeldFolder> held) {
  return held->path;
}

void release_folder(std::shared_ptr<HeldFolder> held) {
  held->folder.reset();
}

// What `work` gives for the folder; the path of the folder stands before what a failure says.
template <class T, class Work>
Result<T> within(const Place& place, Work work) {
  if (place.held && !place.held->folder) {
    return Failure{place.path + ": the folder was released", "gone"};
  }
  const Result<Shared> open = place.held ? Result<Shared>(place.held->folder) : followed(place.path);
  if (!open) {
    return open.failure();
  }
  Result<T> done = work(**open);
  return done ? std::move(done) : Result<T>(Failure{place.path + "/" + done.failure().message, done.failure().code});
}

// A file of a folder that a stranger filled.
Result<std::string> read_beneath(Place place, std::string path, double most_bytes) {
  return within<std::string>(place,
                             [&](const sandbox::Folder& in) { return in.read(path, static_cast<size_t>(most_bytes)); });
}

// Replaces or creates a file of a folder that a stranger may write to.
Status write_beneath(Place place, std::string path, std::string text) {
  return within<std::monostate>(place, [&](const sandbox::Folder& in) { return in.write(path, text, std::nullopt); });
}

// What lies in a folder of a folder that a stranger filled: "file a.cpp", "folder b", "link c", "other d".
Result<std::vector<std::string>> list_beneath(Place place, std::string path) {
  return within<std::vector<std::string>>(place, [&](const sandbox::Folder& in) { return in.list(path); });
}

}  // namespace

void add_beneath(lua_State* L) {
  lua::add_class<HeldFolder>(L, {lua::def<path_of>("path"), lua::def<release_folder>("release")});
  lua::add(L, {lua::def<folder>("folder"), lua::def<read_beneath>("read_beneath"),
               lua::def<write_beneath>("write_beneath"), lua::def<list_beneath>("list_beneath")});
}

}  // namespace khost::modules
