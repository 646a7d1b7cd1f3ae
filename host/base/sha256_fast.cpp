#include "host/base/sha256_fast.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace khost {

#ifdef __x86_64__
namespace {

bool has_instructions() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 29)) != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

// The hash is kept as two vectors, (a, b, e, f) and (c, d, g, h), the highest element first.
__attribute__((target("sha,sse4.1"))) void add(std::array<std::uint32_t, 8>& hash, const unsigned char* block) {
  const __m128i swap_bytes = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  const auto element = [&](int i) { return static_cast<int>(hash[i]); };
  __m128i abef = _mm_set_epi32(element(0), element(1), element(4), element(5));
  __m128i cdgh = _mm_set_epi32(element(2), element(3), element(6), element(7));
  const __m128i abef_before = abef;
  const __m128i cdgh_before = cdgh;
  __m128i w[16];  // four words each
  for (int i = 0; i < 16; i++) {
    if (i < 4) {
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * i)), swap_bytes);
    } else {
      const __m128i middle = _mm_alignr_epi8(w[i - 1], w[i - 2], 4);
      w[i] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]), middle), w[i - 1]);
    }
    const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(kSha256Rounds.data() + 4 * i));
    const __m128i sum = _mm_add_epi32(w[i], constants);
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
  }
  alignas(16) std::array<std::uint32_t, 4> first;
  alignas(16) std::array<std::uint32_t, 4> second;
  _mm_store_si128(reinterpret_cast<__m128i*>(first.data()), _mm_add_epi32(abef, abef_before));
  _mm_store_si128(reinterpret_cast<__m128i*>(second.data()), _mm_add_epi32(cdgh, cdgh_before));
  hash = {first[3], first[2], second[3], second[2], first[1], first[0], second[1], second[0]};
}

}  // namespace

bool add_sha256_block_fast(std::array<std::uint32_t, 8>& hash, const unsigned char* block) {
  static const bool fast = has_instructions();
  if (fast) {
    add(hash, block);
  }
  return fast;
}
#else
bool add_sha256_block_fast(std::array<std::uint32_t, 8>&, const unsigned char*) {
  return false;
}
#endif

}  // namespace khost
