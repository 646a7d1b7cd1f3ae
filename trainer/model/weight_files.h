// Weights on disk in the layout of Hugging Face: model.safetensors, or shards named by model.safetensors.index.json.
#pragma once

#include <string>

#include "host/base/result.h"
#include "trainer/model/weights.h"

namespace khost::trainer {

// Writes one file of fp32 tensors.
Status save_weights(const Weights& weights, const std::string& path);

// `directory` is a model folder. Every tensor must be there in the shape that the config says; a value head may be
// missing and then stays as it is. Failures name file and tensor.
Status load_weights(Weights& weights, const std::string& directory);

}  // namespace khost::trainer
