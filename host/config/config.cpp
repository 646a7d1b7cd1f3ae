#include "host/config/config.h"

#include <algorithm>
#include <filesystem>

#include "host/config/nearest.h"
#include "host/config/toml.h"

namespace khost {

namespace fs = std::filesystem;

namespace {

Failure bad(const std::string& message) {
  return Failure{message, "bad_input"};
}

std::string join(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? key : prefix + "." + key;
}

// Calls visit(name, value) for every value below `root` that is no table; an empty table counts as a value.
template <class F>
void each_value(const Json& root, const std::string& prefix, const F& visit) {
  for (const auto& [key, value] : root.items()) {
    std::string name = join(prefix, key);
    if (value.is_object() && !value.empty()) {
      each_value(value, name, visit);
    } else {
      visit(name, value);
    }
  }
}

void list_fields(const Schema& schema, const std::string& prefix, std::vector<std::string>* names) {
  for (const auto& [key, field] : schema) {
    names->push_back(join(prefix, key));
    list_fields(field.fields, join(prefix, key), names);
  }
}

std::vector<std::string> legal_names(const Config& config, const std::optional<Schema>& schema) {
  std::vector<std::string> names;
  for (const auto& [name, origin] : config.origins) {
    names.push_back(name);
  }
  if (schema) {
    list_fields(*schema, "", &names);
  }
  return names;
}

const Field* find_field(const Schema& schema, const std::string& name) {
  size_t dot = name.find('.');
  auto found = schema.find(name.substr(0, dot));
  if (found == schema.end()) {
    return nullptr;
  }
  return dot == std::string::npos ? &found->second : find_field(found->second.fields, name.substr(dot + 1));
}

std::string place(const Origin& origin) {
  return origin.line > 0 ? origin.file + ":" + std::to_string(origin.line) : origin.file;
}

// A replacement must have the type of what it replaces; whole numbers also serve as numbers.
std::string check_type(const Json& old, const Json& value) {
  bool same = old.is_null() || old.type() == value.type() || (old.is_number_float() && value.is_number()) ||
              (old.is_number_integer() && value.is_number_integer());
  return same ? "" : "must be " + type_word(old) + ", got " + type_word(value) + " " + value.dump();
}

// How a layer treats keys that nobody declared yet.
enum class Unknown { declares, refuses, refuses_in_known_tables };

class Merge {
 public:
  explicit Merge(const ConfigRequest& request) : request_(request) {}

  Status defaults(const Schema& schema, const std::string& prefix) {
    for (const auto& [key, field] : schema) {
      std::string name = join(prefix, key);
      if (field.kind == Field::Kind::group) {
        set(name, Json::object(), {"default", 0});
        if (auto status = defaults(field.fields, name); !status) {
          return status;
        }
      } else if (field.standard) {
        set(name, *field.standard, {"default", 0});
      }
    }
    return ok();
  }

  Status layer(const TomlDocument& document, const std::string& file, Unknown unknown) {
    return table(document, document.value, "", file, unknown);
  }

  Status override_with(const std::string& text) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return bad("--set " + text + ": must have the form a.b=value");
    }
    std::string name = text.substr(0, equals);
    Json value = parse_toml_value(text.substr(equals + 1));
    const Json* old = find_value(config_.value, name);
    // A number or flag where text belongs is text: --set name=7.
    if (old && old->is_string() && !value.is_string() && !value.is_structured()) {
      value = text.substr(equals + 1);
    }
    if (old && old->is_object() && value.is_object()) {
      return table(TomlDocument{}, value, name, "--set " + text, Unknown::refuses);
    }
    return put(name, value, {"--set " + text, 0}, Unknown::refuses);
  }

  Status complete() const {
    if (!request_.schema) {
      return ok();
    }
    std::vector<std::string> names;
    list_fields(*request_.schema, "", &names);
    for (const auto& name : names) {
      if (!find_value(config_.value, name)) {
        return bad("config key '" + name + "' is not set: the preset or --set must give it");
      }
    }
    return ok();
  }

  Config take() { return std::move(config_); }

 private:
  Status table(const TomlDocument& document, const Json& value, const std::string& prefix, const std::string& file,
               Unknown unknown) {
    for (const auto& [key, child] : value.items()) {
      std::string name = join(prefix, key);
      auto found = document.lines.find(name);
      Origin origin{file, found == document.lines.end() ? 0 : found->second};
      const Json* old = find_value(config_.value, name);
      if (child.is_object() && (!old || old->is_object())) {
        Unknown below = unknown;
        if (!old) {
          if (auto status = put(name, Json::object(), origin, unknown); !status) {
            return status;
          }
          if (unknown == Unknown::refuses_in_known_tables) {
            below = Unknown::declares;
          }
        } else if (unknown == Unknown::refuses_in_known_tables) {
          below = Unknown::refuses;
        }
        if (auto status = table(document, child, name, file, below); !status) {
          return status;
        }
      } else if (auto status = put(name, child, origin, unknown); !status) {
        return status;
      }
    }
    return ok();
  }

  Status put(const std::string& name, const Json& value, const Origin& origin, Unknown unknown) {
    const Json* old = find_value(config_.value, name);
    const Field* field = request_.schema ? find_field(*request_.schema, name) : nullptr;
    if (!old && !field && unknown == Unknown::refuses) {
      return bad(unknown_key(name, origin));
    }
    if (!old && !field && request_.schema && unknown == Unknown::refuses_in_known_tables) {
      return bad(unknown_key(name, origin));
    }
    std::string complaint = field ? check_field(*field, value) : old ? check_type(*old, value) : "";
    if (!complaint.empty()) {
      return bad(place(origin) + ": '" + name + "' " + complaint);
    }
    set(name, value, origin);
    return ok();
  }

  std::string unknown_key(const std::string& name, const Origin& origin) const {
    std::string hint = nearest(name, legal_names(config_, request_.schema));
    return place(origin) + ": unknown key '" + name + "'" +
           (hint.empty() ? "; no key is legal here" : "; did you mean '" + hint + "'?");
  }

  void set(const std::string& name, const Json& value, const Origin& origin) {
    Json* at = &config_.value;
    size_t from = 0;
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', from)) {
      at = &(*at)[name.substr(from, dot - from)];
      from = dot + 1;
    }
    Json& slot = (*at)[name.substr(from)];
    // A number stays a number of its kind: 1 given for 0.5 is 1.0.
    slot = slot.is_number_float() && value.is_number_integer() ? Json(value.get<double>()) : value;
    config_.origins[name] = origin;
  }

  const ConfigRequest& request_;
  Config config_;
};

// The presets from the one that extends nothing down to `path`.
Result<std::vector<std::pair<std::string, TomlDocument>>> preset_chain(const std::string& path) {
  std::vector<std::pair<std::string, TomlDocument>> chain;
  std::string next = path;
  while (!next.empty()) {
    for (const auto& [seen, document] : chain) {
      if (seen == next) {
        return bad(path + ": `extends` leads in a circle through " + next);
      }
    }
    auto document = read_toml(next);
    if (!document) {
      return document.failure();
    }
    std::string parent;
    if (document->value.contains("extends")) {
      if (!document->value["extends"].is_string()) {
        return bad(next + ": 'extends' must be text: the name of a preset beside this one");
      }
      fs::path folder = fs::path(next).parent_path();
      auto resolved = resolve_preset(folder.empty() ? "." : folder.string(), document->value["extends"]);
      if (!resolved) {
        return bad(next + ": " + resolved.failure().message);
      }
      parent = resolved.value();
      document->value.erase("extends");
    }
    chain.insert(chain.begin(), {next, std::move(document).value()});
    next = parent;
  }
  return chain;
}

}  // namespace

Result<Config> load_config(const ConfigRequest& request) {
  Merge merge(request);
  if (request.schema) {
    if (auto status = merge.defaults(*request.schema, ""); !status) {
      return status.failure();
    }
  }
  if (!request.machine.empty()) {
    auto document = read_toml(request.machine);
    if (!document) {
      return document.failure();
    }
    if (auto status = merge.layer(*document, request.machine, Unknown::declares); !status) {
      return status.failure();
    }
  }
  if (!request.preset.empty()) {
    auto chain = preset_chain(request.preset);
    if (!chain) {
      return chain.failure();
    }
    Unknown unknown = Unknown::refuses_in_known_tables;
    for (const auto& [path, document] : *chain) {
      if (auto status = merge.layer(document, path, unknown); !status) {
        return status.failure();
      }
      unknown = Unknown::refuses;
    }
  }
  for (const auto& text : request.overrides) {
    if (auto status = merge.override_with(text); !status) {
      return status.failure();
    }
  }
  if (auto status = merge.complete(); !status) {
    return status.failure();
  }
  return merge.take();
}

std::vector<std::string> preset_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> resolve_preset(const std::string& folder, const std::string& name) {
  bool is_path = name.find('/') != std::string::npos || fs::path(name).extension() == ".toml";
  std::string path = is_path ? name : folder + "/" + name + ".toml";
  if (fs::is_regular_file(path)) {
    return path;
  }
  if (is_path) {
    return bad("preset file '" + name + "' does not exist");
  }
  std::string hint = nearest(name, preset_names(folder));
  return bad("unknown preset '" + name + "'" +
             (hint.empty() ? "; there are none in " + folder : "; did you mean '" + hint + "'?"));
}

std::string show_config(const Config& config) {
  std::vector<std::pair<std::string, std::string>> lines;
  size_t width = 0;
  each_value(config.value, "", [&](const std::string& name, const Json& value) {
    std::string left = name + " = " + value.dump();
    width = std::max(width, std::min<size_t>(left.size(), 60));
    auto found = config.origins.find(name);
    lines.emplace_back(left, found == config.origins.end() ? "" : place(found->second));
  });
  std::string out;
  for (const auto& [left, origin] : lines) {
    out += left;
    if (!origin.empty()) {
      out += std::string(left.size() < width ? width - left.size() : 0, ' ') + "  # " + origin;
    }
    out += "\n";
  }
  return out;
}

Json diff_config(const Json& a, const Json& b) {
  std::map<std::string, std::pair<Json, Json>> values;
  each_value(a, "", [&](const std::string& name, const Json& value) { values[name].first = value; });
  each_value(b, "", [&](const std::string& name, const Json& value) { values[name].second = value; });
  Json out = Json::array();
  for (const auto& [name, pair] : values) {
    if (pair.first != pair.second) {
      out.push_back({{"name", name}, {"from", pair.first}, {"to", pair.second}});
    }
  }
  return out;
}

const Json* find_value(const Json& root, const std::string& name) {
  const Json* at = &root;
  size_t from = 0;
  while (true) {
    size_t dot = name.find('.', from);
    std::string key = name.substr(from, dot == std::string::npos ? dot : dot - from);
    if (!at->is_object() || !at->contains(key)) {
      return nullptr;
    }
    at = &(*at)[key];
    if (dot == std::string::npos) {
      return at;
    }
    from = dot + 1;
  }
}

}  // namespace khost
