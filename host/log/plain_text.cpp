#include "host/log/plain_text.h"

#include <cstdint>
#include <cstdio>

namespace khost {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Sign {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: no UTF-8
};

// The character that begins at text[0].
Sign first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char head = byte(0);
  const std::size_t bytes = head < 0x80                   ? 1
                            : head >= 0xC2 && head < 0xE0 ? 2
                            : head >= 0xE0 && head < 0xF0 ? 3
                            : head >= 0xF0 && head < 0xF5 ? 4
                                                          : 0;
  if (bytes == 0 || bytes > text.size()) {
    return {};
  }
  std::uint32_t code = bytes == 1 ? head : head & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; i++) {
    if ((byte(i) & 0xC0U) != 0x80) {
      return {};
    }
    code = code << 6 | (byte(i) & 0x3FU);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return overlong || surrogate || code > 0x10FFFF ? Sign{} : Sign{code, bytes};
}

bool acts(std::uint32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0) || code == 0x061C ||
         code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ||
         code == 0xFEFF;
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Sign sign = first_of(text.substr(i));
    if (sign.bytes == 0) {
      out += kReplacement;
      i++;
      continue;
    }
    const bool line_end = sign.code == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (line_end) {
      // "\r\n" ends a line; a lone "\r" would let what follows overwrite it
    } else if (acts(sign.code)) {
      char escaped[16];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(sign.code));
      out += escaped;
    } else {
      out += text.substr(i, sign.bytes);
    }
    i += sign.bytes;
  }
  return out;
}

}  // namespace khost
