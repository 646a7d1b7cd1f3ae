// A directory that appears whole or not at all, with the SHA-256 of every file in it.
#pragma once

#include <functional>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost::trainer {

// Lets `fill` write files into a fresh directory beside `directory`, adds manifest.json, flushes all to disk and
// puts it in the place of `directory`, whole.
Status write_checkpoint(const std::string& directory, const std::function<Status(const std::string&)>& fill);

// Fails when a file of the manifest is missing or was changed.
Status verify_checkpoint(const std::string& directory);

// Whole files as they are.
Status write_file(const std::string& path, const std::string& text);
Result<std::string> read_file(const std::string& path);

Status write_json(const std::string& path, const Json& json);
Result<Json> read_json(const std::string& path);

}  // namespace khost::trainer
