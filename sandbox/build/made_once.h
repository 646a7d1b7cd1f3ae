// Folders that are made once, by whoever comes first: threads of this process wait, other processes find it whole.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace khost::sandbox {

// `ready` when it is there, else what `make` put into the folder "ready" below the fresh one that it is given, moved to
// that place. Empty when that failed, which is not tried again in this process.
std::string made_once(const std::filesystem::path& ready,
                      const std::function<bool(const std::filesystem::path& folder)>& make);

}  // namespace khost::sandbox
