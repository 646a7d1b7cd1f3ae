// How fast this machine reads memory at best: the ground of the time that no kernel can be below.
#pragma once

#include <cstddef>

namespace khost::judge {

// Bytes a second of one thread on the given core (as pin() counts) that adds up `bytes` which were just written, as the
// inputs of a call were, by the widest loads that the machine has. The best of several tries; takes up to some 0.2 s. 0
// when there is no memory.
double measure_read_rate(std::size_t bytes, int core);

}  // namespace khost::judge
