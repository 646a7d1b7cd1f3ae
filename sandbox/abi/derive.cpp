#include "sandbox/abi/derive.h"

#include <algorithm>
#include <map>

#include "sandbox/abi/argument_names.h"

namespace khost::sandbox {
namespace {

Failure bad(const std::string& what) {
  return {"plan: " + what, "bad_input"};
}

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

struct Named {
  Slot slot;
  const TensorLeaf* leaf;
};

class Deriver {
 public:
  explicit Deriver(const DeriveRequest& request) : request_(request) {
    for (const TensorLeaf& leaf : request.state.tensors) {
      tensors_[underscored(leaf.name.empty() ? leaf.path : leaf.name)] = {Slot::state, &leaf};
    }
    for (const TensorLeaf& leaf : request.inputs.tensors) {  // an input hides a weight of the same name
      tensors_[underscored(leaf.name.empty() ? leaf.path : leaf.name)] = {Slot::input, &leaf};
    }
  }

  Result<PlanArgument> argument(const SignatureArgument& wanted, const std::string& name) {
    PlanArgument result;
    result.role = wanted.role;
    result.type = wanted.type;
    switch (wanted.role) {
      case 'r':
        return read(result, name);
      case 'w':
        return written(result, name);
      case 's':
        return scalar(result, name);
      case 'W':
        result.slot = Slot::workspace;
        return result;
      default:
        return result;
    }
  }

  std::size_t outputs_used() const { return outputs_; }

 private:
  Result<PlanArgument> read(PlanArgument result, const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      std::string known;
      for (const auto& [key, value] : tensors_) {
        known += known.empty() ? key : ", " + key;
      }
      return bad("argument '" + name + "' is no input or weight; there are: " + known.substr(0, 1000) +
                 ". Rename it or write model_new.py");
    }
    const TensorLeaf& leaf = *found->second.leaf;
    if (type_of_dtype(leaf.dtype) != result.type) {
      return bad("argument '" + name + "' has another element type than the tensor, which is " + leaf.dtype);
    }
    result.slot = found->second.slot;
    result.index = leaf.storage;
    result.offset = static_cast<std::size_t>(leaf.offset) * dtype_bytes(leaf.dtype);
    return result;
  }

  Result<PlanArgument> written(PlanArgument result, const std::string& name) {
    if (outputs_ >= request_.outputs.tensors.size()) {
      return bad("argument '" + name + "' is written, but forward returns only " + std::to_string(outputs_) +
                 " tensor(s). Take scratch memory from khost::workspace or write model_new.py");
    }
    const TensorLeaf& leaf = request_.outputs.tensors[outputs_];
    if (type_of_dtype(leaf.dtype) != result.type) {
      return bad("argument '" + name + "' has another element type than the output, which is " + leaf.dtype);
    }
    result.slot = Slot::output;
    result.index = outputs_++;
    return result;
  }

  Result<PlanArgument> scalar(PlanArgument result, const std::string& name) {
    Json value;
    for (const ScalarLeaf& leaf : request_.inputs.scalars) {
      if (underscored(leaf.name.empty() ? leaf.path : leaf.name) == name) {
        value = leaf.value;
      }
    }
    const auto& inputs = request_.inputs.tensors;
    if (value.is_null() && (name == "n" || name == "numel") && !request_.outputs.tensors.empty()) {
      value = static_cast<std::uint64_t>(request_.outputs.tensors[0].count());
    } else if (value.is_null() && (name == "rows" || name == "cols") && !inputs.empty()) {
      const std::int64_t cols = inputs[0].size.empty() ? 1 : inputs[0].size.back();
      value = static_cast<std::uint64_t>(name == "cols" ? cols : cols == 0 ? 0 : inputs[0].count() / cols);
    }
    if (value.is_null()) {
      return bad("argument '" + name +
                 "' is no scalar that can be derived (n, numel, rows, cols, or a number that "
                 "forward takes). Write model_new.py");
    }
    Result<std::uint64_t> bits = scalar_bits(result.type, value);
    if (!bits) {
      return Failure{bits.failure().message + " (argument '" + name + "')", "bad_input"};
    }
    result.bits = *bits;
    return result;
  }

  const DeriveRequest& request_;
  std::map<std::string, Named> tensors_;
  std::size_t outputs_ = 0;
};

// The reference's tree with every tensor contiguous in a storage of its own, in tree order.
Json contiguous_tree(const Json& node, std::vector<std::size_t>& bytes) {
  Json result = node;
  if (node["kind"] == "tensor") {
    std::int64_t step = 1;
    Json stride = Json::array();
    for (std::size_t i = node["size"].size(); i-- > 0;) {
      stride.insert(stride.begin(), step);
      step *= std::max<std::int64_t>(node["size"][i].get<std::int64_t>(), 1);
    }
    result["stride"] = std::move(stride);
    result["offset"] = 0;
    result["storage"] = bytes.size();
    bytes.push_back(static_cast<std::size_t>(step) * dtype_bytes(node["dtype"].get<std::string>()));
  } else if (node.contains("items")) {
    for (auto& item : result["items"]) {
      item = contiguous_tree(Json(item), bytes);
    }
  }
  return result;
}

}  // namespace

Result<Plan> derive_plan(const DeriveRequest& request) {
  Result<std::vector<SignatureArgument>> signature = parse_signature(request.signature);
  if (!signature) {
    return signature.failure();
  }
  Result<std::vector<std::string>> names = argument_names(request.sources, request.symbol, signature->size());
  if (!names) {
    return names.failure();
  }
  Plan plan;
  Launch launch{request.symbol, {}};
  Deriver deriver(request);
  for (std::size_t i = 0; i < names->size(); i++) {
    const char role = (*signature)[i].role;
    if ((*names)[i].empty() && (role == 'r' || role == 's')) {
      return bad("argument " + std::to_string(i + 1) + " of '" + request.symbol +
                 "' has no name in its definition; name it, or write model_new.py");
    }
    Result<PlanArgument> argument = deriver.argument((*signature)[i], (*names)[i]);
    if (!argument) {
      return argument.failure();
    }
    launch.arguments.push_back(*argument);
    if (argument->role == 'W' && plan.workspace.empty()) {
      plan.workspace.push_back(kDerivedWorkspaceBytes);
    }
  }
  if (deriver.outputs_used() != request.outputs.tensors.size()) {
    return bad("'" + request.symbol + "' writes " + std::to_string(deriver.outputs_used()) + " of " +
               std::to_string(request.outputs.tensors.size()) + " outputs");
  }
  plan.launches.push_back(std::move(launch));
  std::vector<std::size_t> bytes;
  Json tree = contiguous_tree(request.outputs.tree, bytes);
  Json storages = Json::array();
  for (const Storage& storage : lay_out(bytes)) {
    storages.push_back({{"bytes", storage.bytes}, {"offset", storage.offset}});
  }
  Result<Manifest> outputs = Manifest::parse({{"storages", std::move(storages)}, {"tree", std::move(tree)}});
  if (!outputs) {
    return outputs.failure();
  }
  plan.outputs = std::move(*outputs);
  return plan;
}

}  // namespace khost::sandbox
