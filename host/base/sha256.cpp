#include "host/base/sha256.h"

#include <array>
#include <bit>
#include <cstdint>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace khost {
namespace {

alignas(16) constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using Hash = std::array<std::uint32_t, 8>;

void add_block(Hash& hash, const unsigned char* block) {
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
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const Hash step = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; i++) {
    hash[i] += step[i];
  }
}

void add_blocks(Hash& hash, const unsigned char* data, std::size_t count) {
  for (std::size_t i = 0; i < count; i++) {
    add_block(hash, data + 64 * i);
  }
}

#ifdef __x86_64__
bool has_sha_instructions() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 29)) != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

// The same with the processor's instructions for it, which are about six times as fast. They keep the hash as two
// vectors, (a, b, e, f) and (c, d, g, h), the highest element first.
__attribute__((target("sha,sse4.1"))) void add_blocks_fast(Hash& hash, const unsigned char* data, std::size_t count) {
  const __m128i swap_bytes = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  const auto element = [&](int i) { return static_cast<int>(hash[i]); };
  __m128i abef = _mm_set_epi32(element(0), element(1), element(4), element(5));
  __m128i cdgh = _mm_set_epi32(element(2), element(3), element(6), element(7));
  for (std::size_t block = 0; block < count; block++, data += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[16];  // four words each
    for (int i = 0; i < 16; i++) {
      if (i < 4) {
        w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 16 * i)), swap_bytes);
      } else {
        const __m128i middle = _mm_alignr_epi8(w[i - 1], w[i - 2], 4);
        w[i] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]), middle), w[i - 1]);
      }
      const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(kRound.data() + 4 * i));
      const __m128i sum = _mm_add_epi32(w[i], constants);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) std::array<std::uint32_t, 4> first;
  alignas(16) std::array<std::uint32_t, 4> second;
  _mm_store_si128(reinterpret_cast<__m128i*>(first.data()), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(second.data()), cdgh);
  hash = {first[3], first[2], second[3], second[2], first[1], first[0], second[1], second[0]};
}
#endif

using AddBlocks = void (*)(Hash&, const unsigned char*, std::size_t);

std::string hex_of(std::string_view bytes, AddBlocks add) {
  Hash hash = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const std::size_t done = bytes.size() / 64 * 64;
  add(hash, data, done / 64);
  // The rest, a one bit, zeros, and the length in bits fill one block or two.
  std::array<unsigned char, 128> tail{};
  const std::size_t rest = bytes.size() - done;
  for (std::size_t i = 0; i < rest; i++) {
    tail[i] = data[done + i];
  }
  tail[rest] = 0x80;
  const std::size_t padded = rest < 56 ? 64 : 128;
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  for (int i = 0; i < 8; i++) {
    tail[padded - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
  }
  add(hash, tail.data(), padded / 64);
  std::string hex;
  for (const std::uint32_t word : hash) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      hex += "0123456789abcdef"[(word >> shift) & 15];
    }
  }
  return hex;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
#ifdef __x86_64__
  static const bool fast = has_sha_instructions();
  if (fast) {
    return hex_of(bytes, add_blocks_fast);
  }
#endif
  return sha256_hex_portable(bytes);
}

std::string sha256_hex_portable(std::string_view bytes) {
  return hex_of(bytes, add_blocks);
}

}  // namespace khost
