// Frames: 4 bytes of length (little-endian), then JSON; on sockets, descriptors may travel beside them.
// send and receive block; one thread per direction.
#pragma once

#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost::judge {

inline constexpr std::size_t kMostFrameBytes = 256u << 20;

Status send_frame(int fd, const Json& value);
// With descriptors, over a unix socket.
Status send_frame(int fd, const Json& value, const std::vector<int>& fds);
// gone at the end of the stream, timeout when nothing came within timeout_s (negative: waits for ever).
Result<Json> receive_frame(int fd, double timeout_s = -1);

}  // namespace khost::judge
