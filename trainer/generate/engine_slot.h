// A place of the engine's cache and the request that has it; seen by engine*.cpp only.
#pragma once

#include "trainer/generate/engine.h"
#include "trainer/generate/random.h"

namespace khost::trainer {

struct Engine::Slot {
  bool busy = false;
  Request request;
  std::vector<int32_t> tokens;  // prompt and drawn tokens; kept after the request ended
  int64_t computed = 0;         // how many of them the cache holds, counting what a device was told to compute
  uint64_t version = 0;
  uint64_t last_used = 0;
  RandomStream random = {};
  Completion completion;
  std::string text;      // decoded so far; only where stop texts are watched
  int64_t launched = 0;  // tokens that a device was told to draw, those that came back included

  int64_t pending() const { return static_cast<int64_t>(tokens.size()) - computed; }
};

}  // namespace khost::trainer
