// Output of unknown length in bounded memory: the first and the last part are kept, the middle is dropped. Compiler
// errors stand at the head, summaries at the tail.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace khost::sandbox {

class HeadTail {
 public:
  // Keeps limit/2 bytes of the beginning and limit/2 of the end.
  explicit HeadTail(size_t limit_bytes);
  void add(std::string_view text);
  size_t total() const { return total_; }
  size_t dropped() const;
  // Head, a line that says how many bytes fell out (when some did), tail; cut at UTF-8 boundaries.
  std::string text() const;

 private:
  size_t head_limit_;
  size_t tail_limit_;
  size_t total_ = 0;
  std::string head_;
  std::string tail_;  // up to twice its limit, so that it is seldom moved
};

// Without ANSI escapes; of a line that a progress bar rewrote with carriage returns only its last state; invalid
// UTF-8 and NUL bytes become U+FFFD.
std::string clean_output(std::string_view text);

// At most `limit_bytes`, the middle replaced by a line that says how many bytes fell out, counting those that
// were dropped from this middle before.
std::string cut_middle(std::string_view text, size_t limit_bytes, size_t dropped_before = 0);

// What a stranger's process says of a failure, for a verdict: at most some 4,000 bytes of it, as lines of a screen.
std::string words_of_a_stranger(std::string_view text);

}  // namespace khost::sandbox
