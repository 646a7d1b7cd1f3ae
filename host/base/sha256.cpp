#include "host/base/sha256.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "host/base/defer.h"
#include "host/base/sha256_fast.h"

namespace khost {
namespace {

using Hash = std::array<std::uint32_t, 8>;

void add_block(Hash& hash, const unsigned char* block) {
  if (add_sha256_block_fast(hash, block)) {
    return;
  }
  std::array<std::uint32_t, 64> w;
  for (int i = 0; i < 16; i++) {
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  }
  for (int i = 16; i < 64; i++) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = hash;
  for (int i = 0; i < 64; i++) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Rounds[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const Hash step = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; i++) {
    hash[i] += step[i];
  }
}

class Sha256 {
 public:
  void add(std::string_view bytes) {
    length_ += bytes.size();
    if (!rest_.empty()) {
      const std::size_t wanted = std::min(64 - rest_.size(), bytes.size());
      rest_.append(bytes.substr(0, wanted));
      bytes.remove_prefix(wanted);
      if (rest_.size() < 64) {
        return;
      }
      add_block(hash_, reinterpret_cast<const unsigned char*>(rest_.data()));
      rest_.clear();
    }
    for (; bytes.size() >= 64; bytes.remove_prefix(64)) {
      add_block(hash_, reinterpret_cast<const unsigned char*>(bytes.data()));
    }
    rest_ = bytes;
  }

  // Nothing may be added afterwards.
  std::string hex() {
    // The rest, a one bit, zeros, and the length in bits fill one block or two.
    const std::uint64_t bits = length_ * 8;
    std::string tail = rest_ + '\x80';
    tail.resize(tail.size() <= 56 ? 56 : 120);
    for (int shift = 56; shift >= 0; shift -= 8) {
      tail += static_cast<char>(bits >> shift & 0xff);
    }
    for (std::size_t at = 0; at < tail.size(); at += 64) {
      add_block(hash_, reinterpret_cast<const unsigned char*>(tail.data()) + at);
    }
    std::string text;
    for (const std::uint32_t word : hash_) {
      for (int shift = 28; shift >= 0; shift -= 4) {
        text += "0123456789abcdef"[(word >> shift) & 15];
      }
    }
    return text;
  }

 private:
  Hash hash_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::uint64_t length_ = 0;
  std::string rest_;  // less than a block
};

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.hex();
}

Result<std::string> sha256_of_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Failure{"open " + path + ": " + std::strerror(errno), "io"};
  }
  const Defer closing([fd] { ::close(fd); });
  Sha256 sum;
  std::vector<char> block(1 << 20);
  while (true) {
    const ssize_t count = ::read(fd, block.data(), block.size());
    if (count == 0) {
      return sum.hex();
    }
    if (count < 0 && errno != EINTR) {
      return Failure{"read " + path + ": " + std::strerror(errno), "io"};
    }
    sum.add({block.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))});
  }
}

}  // namespace khost
