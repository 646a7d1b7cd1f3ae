// Lines on standard input and output, for protocols that are spoken there. While it is open, what anything else of this
// process prints on standard output goes to standard error. It belongs to the event loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "host/base/result.h"

namespace khost::serve {

class Lines : public std::enable_shared_from_this<Lines> {
 public:
  using Text = std::function<void(Result<std::string>)>;
  using Done = std::function<void(Result<bool>)>;

  static Result<std::shared_ptr<Lines>> open(boost::asio::io_context& io);
  explicit Lines(boost::asio::io_context& io);
  ~Lines();

  // The next line without its end. Codes: gone (the input ended), limit (longer than most_bytes), busy (another read
  // waits), io. After limit nothing more can be read.
  void read(size_t most_bytes, Text done);
  void drop_read();
  // Writes text as it is. Code "gone" when nobody reads any more.
  void write(std::string text, Done done);

 private:
  Status bind();
  void write_next();
  void on_line(bool failed, bool too_long, size_t most_bytes, size_t bytes);

  boost::asio::posix::stream_descriptor in_;
  boost::asio::posix::stream_descriptor out_;
  std::string buffer_;
  Text reader_;
  std::deque<std::pair<std::string, Done>> outgoing_;
  int print_to_ = -1;  // standard output as it was
  bool spoiled_ = false;
};

}  // namespace khost::serve
