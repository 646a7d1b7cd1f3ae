// The merged configuration of a run: khost.toml (the machine), a preset (the experiment), `--set` (this time).
// Later layers may only set keys that an earlier one, or the schema, declared; what nobody declared is a failure
// that names file, line and the nearest legal key. Plain data, any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"
#include "host/config/schema.h"

namespace khost {

// Where a value came from: a file and line, "--set" or "default".
struct Origin {
  std::string file;
  int line = 0;
};

struct Config {
  Json value = Json::object();
  std::map<std::string, Origin> origins;  // by dotted name, for every table and value
};

struct ConfigRequest {
  std::string machine;                 // path of the machine's defaults; empty: none
  std::string preset;                  // path of a preset; empty: none
  std::vector<std::string> overrides;  // "a.b=c"
  std::optional<Schema> schema;        // without one, a preset declares its own keys
};

// Without a schema a preset may declare any key, except inside the tables of the machine's file, whose keys are
// fixed; a preset that says `extends = "name"` (beside it) may only change what that one declares.
Result<Config> load_config(const ConfigRequest& request);

// Paths of presets: `folder`/NAME.toml. `resolve_preset` also takes a path; an unknown name is a failure that names
// the nearest preset.
std::vector<std::string> preset_names(const std::string& folder);
Result<std::string> resolve_preset(const std::string& folder, const std::string& name);

// One line a value: name = value, and behind it where it came from.
std::string show_config(const Config& config);

// [{name, from, to}] of the values that differ, sorted by name; null where one side lacks the key.
Json diff_config(const Json& a, const Json& b);

// The value at a dotted name, or null pointer.
const Json* find_value(const Json& root, const std::string& name);

}  // namespace khost
