// Generation on a device: keys, values and everything a running sequence needs stay there, one entry a slot, so that
// a step needs nothing from the host but the list of slots that take part. Free of LibTorch headers.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/generate/random.h"

namespace khost::trainer {

struct StepToken {
  int64_t token;
  int64_t slot;
  int64_t position;
};

// How a slot draws, from its first token on.
struct SlotDraw {
  int64_t slot;
  uint64_t seed;
  double temperature;  // 0: the most likely token
  int64_t top_k;       // 0: all
  double top_p;
};

struct SlotDrawn {
  int32_t token;
  float logp;
};

class DeviceDecoder {
 public:
  virtual ~DeviceDecoder() = default;

  virtual int64_t positions() const = 0;
  // After a change of the weights, before the next step.
  virtual void refresh() = 0;
  virtual void copy_prefix(int64_t from, int64_t to, int64_t length) = 0;

  // Reads prompt tokens, those of one slot side by side and in order. `draws` begin: the last token given of such a
  // slot is the last of its prompt, and its first token is drawn.
  virtual void read(const std::vector<StepToken>& tokens, const std::vector<SlotDraw>& draws) = 0;
  // One further token for each of these slots, from the one it drew last.
  virtual void advance(const std::vector<int64_t>& slots) = 0;

  // Marks the end of a step, and waits for the oldest one that was marked and not yet collected: what slots drew last
  // in it, one entry a slot; meaningless where a slot drew nothing.
  virtual void mark() = 0;
  virtual const std::vector<SlotDrawn>& collect() = 0;
};

}  // namespace khost::trainer
