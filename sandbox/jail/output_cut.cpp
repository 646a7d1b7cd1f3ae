#include "sandbox/jail/output_cut.h"

#include <algorithm>

namespace khost::sandbox {
namespace {

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// Without a character that was cut in two at the end.
std::string_view trim_end(std::string_view text) {
  size_t lead = text.size();
  while (lead > 0 && text.size() - lead < 4 && continues(text[lead - 1])) {
    --lead;
  }
  if (lead == 0) {
    return text;
  }
  const auto first = static_cast<unsigned char>(text[lead - 1]);
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return text.size() - lead + 1 < length ? text.substr(0, lead - 1) : text;
}

std::string_view trim_begin(std::string_view text) {
  size_t begin = 0;
  while (begin < std::min<size_t>(3, text.size()) && continues(text[begin])) {
    ++begin;
  }
  return text.substr(begin);
}

std::string joined(std::string_view head, size_t dropped, std::string_view tail) {
  return std::string(trim_end(head)) + "\n... [" + std::to_string(dropped) + " bytes left out] ...\n" +
         std::string(trim_begin(tail));
}

// Length of the valid UTF-8 sequence at the beginning, 0 when there is none.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return first == 0 ? 0 : 1;
  }
  const size_t length = first >= 0xf0 && first <= 0xf4  ? 4
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xc2 && first < 0xe0 ? 2
                                                        : 0;
  if (length == 0 || text.size() < length) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if (!continues(text[i])) {
      return 0;
    }
  }
  // overlong forms, surrogates, beyond U+10FFFF
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) || (first == 0xf0 && byte(1) < 0x90) ||
      (first == 0xf4 && byte(1) > 0x8f)) {
    return 0;
  }
  return length;
}

// Length of the escape sequence that begins at text[0] = ESC: CSI ... letter, OSC ... BEL or ESC \, or two bytes.
size_t escape_length(std::string_view text) {
  if (text.size() < 2) {
    return text.size();
  }
  if (text[1] == '[') {
    for (size_t i = 2; i < text.size(); ++i) {
      if (text[i] >= 0x40 && text[i] <= 0x7e) {
        return i + 1;
      }
    }
    return text.size();
  }
  if (text[1] == ']' || text[1] == 'P' || text[1] == '_' || text[1] == '^') {
    for (size_t i = 2; i < text.size(); ++i) {
      if (text[i] == '\a') {
        return i + 1;
      }
      if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '\\') {
        return i + 2;
      }
    }
    return text.size();
  }
  // charset choices have a third byte
  return text[1] == '(' || text[1] == ')' ? std::min<size_t>(3, text.size()) : 2;
}

}  // namespace

HeadTail::HeadTail(size_t limit_bytes) : head_limit_((limit_bytes + 1) / 2), tail_limit_(limit_bytes / 2) {}

void HeadTail::add(std::string_view text) {
  total_ += text.size();
  const size_t to_head = std::min(text.size(), head_limit_ - head_.size());
  head_.append(text.substr(0, to_head));
  text.remove_prefix(to_head);
  if (text.size() > tail_limit_) {
    text.remove_prefix(text.size() - tail_limit_);
  }
  tail_.append(text);
  if (tail_.size() > 2 * tail_limit_) {
    tail_.erase(0, tail_.size() - tail_limit_);
  }
}

size_t HeadTail::dropped() const {
  return total_ - head_.size() - std::min({tail_.size(), tail_limit_, total_ - head_.size()});
}

std::string HeadTail::text() const {
  const size_t missing = dropped();
  const std::string_view tail = std::string_view(tail_).substr(tail_.size() - std::min(tail_.size(), tail_limit_));
  return missing == 0 ? head_ + std::string(tail) : joined(head_, missing, tail);
}

std::string clean_output(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  size_t line = 0;  // where the current line begins in `clean`
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\x1b') {
      i += escape_length(text.substr(i));
    } else if (text[i] == '\r') {
      const size_t next = text.find_first_not_of('\r', i);
      if (next != std::string_view::npos && text[next] != '\n') {
        clean.resize(line);
      }
      i = next == std::string_view::npos ? text.size() : next;
    } else if (text[i] == '\b') {
      if (clean.size() > line) {
        clean.pop_back();
      }
      ++i;
    } else if (const size_t length = sequence_length(text.substr(i)); length > 0) {
      clean.append(text.substr(i, length));
      if (text[i] == '\n') {
        line = clean.size();
      }
      i += length;
    } else {
      clean += "\xef\xbf\xbd";
      ++i;
    }
  }
  return clean;
}

std::string cut_middle(std::string_view text, size_t limit_bytes, size_t dropped_before) {
  if (text.size() <= limit_bytes) {
    return std::string(text);
  }
  const size_t tail = limit_bytes / 2;
  const size_t head = limit_bytes - tail;
  return joined(text.substr(0, head), text.size() - limit_bytes + dropped_before, text.substr(text.size() - tail));
}

std::string words_of_a_stranger(std::string_view text) {
  constexpr std::size_t kMost = 4000;
  std::string words = clean_output(cut_middle(text, kMost));
  std::erase_if(words, [](unsigned char c) { return (c < ' ' && c != '\n' && c != '\t') || c == 0x7f; });
  return words;
}

}  // namespace khost::sandbox
