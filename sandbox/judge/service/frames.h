// How a host and its judge talk: a frame is a length of four bytes, then as many bytes of JSON.
#pragma once

#include <cstdint>

namespace khost::judge {

// A longer request ends the judge, and with it what others asked of it; hosts send none.
inline constexpr std::uint32_t kMostRequestBytes = 256u << 20;

}  // namespace khost::judge
