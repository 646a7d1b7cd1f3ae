#include "trainer/model/normalizer.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

namespace khost::trainer {
namespace {

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      return false;
    }
  }
  return true;
}

struct Free {
  void operator()(utf8proc_uint8_t* text) const { std::free(text); }
};

void append_composed(std::string_view valid, std::string& out) {
  if (is_ascii(valid)) {
    out += valid;
    return;
  }
  utf8proc_uint8_t* raw = nullptr;
  const auto option = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                                               static_cast<utf8proc_ssize_t>(valid.size()), &raw, option);
  const std::unique_ptr<utf8proc_uint8_t, Free> composed(raw);
  if (length < 0) {  // out of memory or overlong: the text is still usable as it is
    out += valid;
    return;
  }
  out.append(reinterpret_cast<const char*>(raw), static_cast<size_t>(length));
}

}  // namespace

Result<Normalization> read_normalizer(const Json& json) {
  if (json.is_null()) {
    return Normalization::none;
  }
  const std::string type = json.is_object() ? json.value("type", "") : "";
  if (type == "NFC") {
    return Normalization::nfc;
  }
  if (type == "Sequence" && json.contains("normalizers") && json["normalizers"].is_array()) {
    Normalization all = Normalization::none;
    for (const Json& part : json["normalizers"]) {
      const Result<Normalization> one = read_normalizer(part);
      if (!one) {
        return one;
      }
      all = one.value() == Normalization::nfc ? Normalization::nfc : all;
    }
    return all;
  }
  return Failure{"normalizer: type '" + type + "' is not supported, expected NFC", "bad_input"};
}

Json write_normalizer(Normalization normalization) {
  return normalization == Normalization::nfc ? Json{{"type", "NFC"}} : Json();
}

std::string compose(std::string_view text) {
  std::string out;
  if (is_ascii(text)) {
    out = text;
    return out;
  }
  size_t valid_from = 0;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (length > 0) {
      at += static_cast<size_t>(length);
      continue;
    }
    append_composed(text.substr(valid_from, at - valid_from), out);
    out += text[at++];
    valid_from = at;
  }
  append_composed(text.substr(valid_from), out);
  return out;
}

}  // namespace khost::trainer
