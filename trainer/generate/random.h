// splitmix64: a random stream of eight bytes of state, saved with a checkpoint as it is.
#pragma once

#include <cstdint>

namespace khost::trainer {

struct RandomStream {
  uint64_t state = 0;

  uint64_t next() {
    state += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)
};

}  // namespace khost::trainer
