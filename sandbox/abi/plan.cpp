#include "sandbox/abi/plan.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace khost::sandbox {
namespace {

constexpr std::size_t kMostLaunches = 4096;
constexpr std::size_t kMostArguments = 64;
constexpr std::size_t kMostPieces = 1024;
constexpr std::size_t kMostOperators = 4096;
constexpr std::size_t kOwnAlignment = 64;
constexpr std::size_t kMostBytes = std::size_t{1} << 40;

constexpr std::array<std::pair<const char*, Slot>, 6> kSlots{{{"null", Slot::null},
                                                              {"input", Slot::input},
                                                              {"state", Slot::state},
                                                              {"workspace", Slot::workspace},
                                                              {"output", Slot::output},
                                                              {"value", Slot::value}}};

Failure bad(const std::string& what) {
  return {"plan: " + what, "bad_input"};
}

const char* slot_name(Slot slot) {
  for (const auto& [name, value] : kSlots) {
    if (value == slot) {
      return name;
    }
  }
  return "";
}

Slot slot_of(const std::string& name) {
  for (const auto& [known, value] : kSlots) {
    if (name == known) {
      return value;
    }
  }
  return Slot::none;
}

bool size_of(const Json& json, std::size_t most, std::size_t& value) {
  if (!json.is_number_integer() || (!json.is_number_unsigned() && json.get<std::int64_t>() < 0)) {
    return false;
  }
  value = json.get<std::size_t>();
  return value <= most;
}

bool size_at(const Json& object, const char* key, std::size_t most, std::size_t& value) {
  const auto found = object.find(key);
  return found != object.end() && size_of(*found, most, value);
}

Result<std::vector<std::size_t>> sizes_at(const Json& object, const char* key) {
  std::vector<std::size_t> result;
  const auto found = object.find(key);
  if (found == object.end()) {
    return result;
  }
  const std::size_t most = std::string_view(key) == "values" ? 4 * kMostOperators : kMostPieces;
  if (!found->is_array() || found->size() > most) {
    return bad(std::string(key) + " is a list of at most " + std::to_string(most) + " sizes in bytes");
  }
  for (const Json& element : *found) {
    std::size_t bytes = 0;
    if (!size_of(element, kMostBytes, bytes)) {
      return bad(std::string(key) + " holds something that is no size");
    }
    result.push_back(bytes);
  }
  return result;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Result<PlanArgument> parse_argument(const Json& json) {
  const std::string role = text_at(json, "role");
  if (!json.is_object() || role.size() != 1 || std::string_view("rwsWTSH").find(role[0]) == std::string_view::npos) {
    return bad("an argument has role r, w, s, W, T, S or H");
  }
  PlanArgument argument;
  argument.role = role[0];
  if (role == "s") {
    const std::string dtype = text_at(json, "dtype");
    if (dtype.size() != 1 || !json.contains("value")) {
      return bad("a scalar has a dtype letter and a value");
    }
    argument.type = dtype[0];
    Result<std::uint64_t> bits = scalar_bits(argument.type, json["value"]);
    if (!bits) {
      return bits.failure();
    }
    argument.bits = *bits;
  } else if (role == "r" || role == "w") {
    argument.slot = slot_of(text_at(json, "slot"));
    if (argument.slot == Slot::none) {
      return bad("a pointer has slot input, state, workspace, value, output or null");
    }
    if (argument.slot != Slot::null && (!size_at(json, "index", kMostPieces * 64, argument.index) ||
                                        !size_at(json, "offset", kMostBytes, argument.offset))) {
      return bad("a pointer has an index and an offset in bytes");
    }
  } else if (role == "W" && json.contains("index")) {
    argument.slot = Slot::workspace;
    if (!size_at(json, "index", kMostPieces, argument.index)) {
      return bad("the index of a workspace is out of range");
    }
  }
  return argument;
}

Result<Launch> parse_launch(const Json& json) {
  Launch launch;
  launch.symbol = text_at(json, "symbol");
  if (launch.symbol.empty() || launch.symbol.size() > 200 || !json.contains("arguments") ||
      !json["arguments"].is_array() || json["arguments"].size() > kMostArguments) {
    return bad("a launch has a symbol and at most 64 arguments");
  }
  for (const Json& element : json["arguments"]) {
    Result<PlanArgument> argument = parse_argument(element);
    if (!argument) {
      return Failure{argument.failure().message + " (launch of '" + launch.symbol + "')", "bad_input"};
    }
    launch.arguments.push_back(*argument);
  }
  return launch;
}

Json storages_json(const std::vector<Storage>& storages) {
  Json list = Json::array();
  for (const Storage& storage : storages) {
    list.push_back({storage.bytes, storage.offset});
  }
  return list;
}

Result<std::vector<Storage>> parse_storages(const Json& regions, const char* key) {
  std::vector<Storage> result;
  if (!regions.is_object() || !regions.contains(key) || !regions[key].is_array()) {
    return bad(std::string("regions lack ") + key);
  }
  for (const Json& pair : regions[key]) {
    Storage storage;
    if (!pair.is_array() || pair.size() != 2 || !size_of(pair[0], kMostBytes, storage.bytes) ||
        !size_of(pair[1], kMostBytes, storage.offset)) {
      return bad("a storage in regions is a pair of bytes and offset");
    }
    result.push_back(storage);
  }
  return result;
}

// What an operator is given stays as it came: only the Python that plays it reads that.
Status parse_operators(const Json& json, Plan& plan) {
  const auto found = json.find("operators");
  if (found == json.end()) {
    return ok();
  }
  Result<std::vector<std::size_t>> values = sizes_at(json, "values");
  if (!values) {
    return values.failure();
  }
  if (!found->is_array() || found->size() > kMostOperators) {
    return bad("operators is a list of at most 4096");
  }
  for (const Json& one : *found) {
    std::size_t before = 0;
    if (!one.is_object() || text_at(one, "name").empty() || !size_at(one, "before", kMostLaunches, before)) {
      return bad("a torch operator has a name and the number of launches before it");
    }
  }
  plan.operators = *found;
  plan.values = *values;
  return ok();
}

Json argument_json(const PlanArgument& argument) {
  Json json{{"role", std::string(1, argument.role)}};
  if (argument.role == 's') {
    json["dtype"] = std::string(1, argument.type);
    json["value"] = {{"bits", argument.bits}};
  } else if (argument.slot != Slot::none) {
    json["slot"] = slot_name(argument.slot);
    json["index"] = argument.index;
    json["offset"] = argument.offset;
  }
  return json;
}

}  // namespace

Result<Plan> Plan::parse(const Json& json) {
  if (!json.is_object() || !json.contains("launches") || !json["launches"].is_array() ||
      json["launches"].size() > kMostLaunches || !json.contains("outputs")) {
    return bad("at most 4096 launches, and outputs, are required");
  }
  Plan plan;
  for (const Json& element : json["launches"]) {
    Result<Launch> launch = parse_launch(element);
    if (!launch) {
      return launch.failure();
    }
    plan.launches.push_back(std::move(*launch));
  }
  Result<std::vector<std::size_t>> pieces = sizes_at(json, "workspace");
  Result<std::vector<std::size_t>> outputs = sizes_at(json, "output_storages");
  if (!pieces || !outputs) {
    return pieces ? outputs.failure() : pieces.failure();
  }
  plan.workspace = *pieces;
  if (Status read = parse_operators(json, plan); !read) {
    return read.failure();
  }
  Json storages = Json::array();
  for (const Storage& storage : lay_out(*outputs)) {
    storages.push_back({{"bytes", storage.bytes}, {"offset", storage.offset}});
  }
  Result<Manifest> manifest = Manifest::parse({{"storages", std::move(storages)}, {"tree", json["outputs"]}});
  if (!manifest) {
    return manifest.failure();
  }
  plan.outputs = std::move(*manifest);
  if (json.contains("regions")) {
    for (auto [key, into] : {std::pair{"inputs", &plan.regions.inputs}, std::pair{"state", &plan.regions.state},
                             std::pair{"outputs", &plan.regions.outputs}}) {
      Result<std::vector<Storage>> parsed = parse_storages(json["regions"], key);
      if (!parsed) {
        return parsed.failure();
      }
      *into = std::move(*parsed);
    }
  }
  return plan;
}

bool Plan::wants_handles() const {
  return std::any_of(launches.begin(), launches.end(), [](const Launch& launch) {
    return std::any_of(launch.arguments.begin(), launch.arguments.end(),
                       [](const PlanArgument& argument) { return argument.role == 'H'; });
  });
}

Json Plan::to_json() const {
  Json list = Json::array();
  for (const Launch& launch : launches) {
    Json arguments = Json::array();
    for (const PlanArgument& argument : launch.arguments) {
      arguments.push_back(argument_json(argument));
    }
    list.push_back({{"symbol", launch.symbol}, {"arguments", std::move(arguments)}});
  }
  Json output_bytes = Json::array();
  for (const Storage& storage : outputs.storages) {
    output_bytes.push_back(storage.bytes);
  }
  return {{"launches", std::move(list)},
          {"workspace", workspace},
          {"operators", operators},
          {"values", values},
          {"outputs", outputs.tree},
          {"output_storages", std::move(output_bytes)},
          {"regions",
           {{"inputs", storages_json(regions.inputs)},
            {"state", storages_json(regions.state)},
            {"outputs", storages_json(regions.outputs)}}}};
}

std::size_t Plan::count_of(Slot slot) const {
  return slot == Slot::input    ? regions.inputs.size()
         : slot == Slot::state  ? regions.state.size()
         : slot == Slot::output ? regions.outputs.size()
         : slot == Slot::value  ? values.size()
                                : workspace.size();
}

std::size_t Plan::bytes_of(Slot slot, std::size_t index) const {
  const std::vector<Storage>* region = slot == Slot::input    ? &regions.inputs
                                       : slot == Slot::state  ? &regions.state
                                       : slot == Slot::output ? &regions.outputs
                                                              : nullptr;
  if (index >= count_of(slot)) {
    return 0;
  }
  return region != nullptr ? (*region)[index].bytes : slot == Slot::value ? values[index] : workspace[index];
}

std::size_t Plan::own_bytes() const {
  std::size_t bytes = kOwnAlignment;
  for (const Launch& launch : launches) {
    for (const PlanArgument& argument : launch.arguments) {
      if (argument.role == 'w' && argument.slot != Slot::null) {
        const std::size_t rest = bytes_of(argument.slot, argument.index) - argument.offset;
        bytes += (rest + kOwnAlignment - 1) / kOwnAlignment * kOwnAlignment;
      }
    }
  }
  return bytes;
}

Status Plan::bind(const Signatures& signatures, const Manifest& inputs, const Manifest& state) {
  regions = {inputs.storages, state.storages, outputs.storages};
  for (Launch& launch : launches) {
    const auto found = signatures.find(launch.symbol);
    if (found == signatures.end()) {
      return bad("no launcher '" + launch.symbol + "' is exported");
    }
    Result<std::vector<SignatureArgument>> signature = parse_signature(found->second);
    if (!signature) {
      return signature.failure();
    }
    if (signature->size() != launch.arguments.size()) {
      return bad("'" + launch.symbol + "' takes " + std::to_string(signature->size()) + " arguments, the plan has " +
                 std::to_string(launch.arguments.size()));
    }
    for (std::size_t i = 0; i < launch.arguments.size(); i++) {
      PlanArgument& argument = launch.arguments[i];
      const SignatureArgument& wanted = (*signature)[i];
      const std::string place = "argument " + std::to_string(i + 1) + " of '" + launch.symbol + "'";
      if (argument.role != wanted.role || (argument.role == 's' && argument.type != wanted.type)) {
        return bad(place + " has another role or type than the launcher's signature");
      }
      argument.type = wanted.type;
      if (argument.slot == Slot::none || argument.slot == Slot::null) {
        continue;
      }
      if (argument.role == 'w' && (argument.slot == Slot::input || argument.slot == Slot::state)) {
        return bad(place + " writes into an input or a weight");
      }
      if (argument.index >= count_of(argument.slot) || argument.offset > bytes_of(argument.slot, argument.index)) {
        return bad(place + " lies outside its region");
      }
    }
  }
  return ok();
}

}  // namespace khost::sandbox
