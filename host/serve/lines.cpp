#include "host/serve/lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>

namespace khost::serve {
namespace {

using boost::system::error_code;

}  // namespace

Lines::Lines(boost::asio::io_context& io) : in_(io), out_(io) {}

Lines::~Lines() {
  if (print_to_ >= 0) {
    std::fflush(stdout);
    ::dup2(print_to_, 1);
    ::close(print_to_);
  }
}

Result<std::shared_ptr<Lines>> Lines::open(boost::asio::io_context& io) {
  auto lines = std::make_shared<Lines>(io);
  if (Status bound = lines->bind(); !bound) {
    return bound.failure();
  }
  return lines;
}

Status Lines::bind() {
  const int from = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  const int to = ::fcntl(1, F_DUPFD_CLOEXEC, 3);
  if (from < 0 || to < 0) {
    return Failure{"standard input or output is closed", "io"};
  }
  error_code error;
  in_.assign(from, error);
  if (!error) {
    out_.assign(to, error);
  }
  if (error) {
    return Failure{"standard input or output: " + error.message(), "io"};
  }
  std::fflush(stdout);
  print_to_ = ::fcntl(1, F_DUPFD_CLOEXEC, 3);
  ::dup2(2, 1);
  return ok();
}

void Lines::read(size_t most_bytes, Text done) {
  if (reader_) {
    done(Failure{"another task reads these lines", "busy"});
    return;
  }
  if (spoiled_) {
    done(Failure{"the line before was too long", "limit"});
    return;
  }
  reader_ = std::move(done);
  boost::asio::async_read_until(in_, boost::asio::dynamic_buffer(buffer_, most_bytes + 1), '\n',
                                [self = weak_from_this(), most_bytes](const error_code& error, size_t bytes) {
                                  if (const auto lines = self.lock()) {
                                    lines->on_line(static_cast<bool>(error), error == boost::asio::error::not_found,
                                                   most_bytes, bytes);
                                  }
                                });
}

void Lines::on_line(bool failed, bool too_long, size_t most_bytes, size_t bytes) {
  const Text done = std::exchange(reader_, nullptr);
  if (!done) {
    return;
  }
  if (too_long) {
    spoiled_ = true;
    done(Failure{"a line has more than " + std::to_string(most_bytes) + " bytes", "limit"});
  } else if (!failed) {
    std::string line = buffer_.substr(0, bytes - 1);
    buffer_.erase(0, bytes);
    done(std::move(line));
  } else if (!buffer_.empty()) {
    done(std::exchange(buffer_, std::string()));  // the last line needs no end
  } else {
    done(Failure{"the input ended", "gone"});
  }
}

void Lines::drop_read() {
  reader_ = nullptr;
  error_code ignored;
  in_.cancel(ignored);
}

void Lines::write(std::string text, Done done) {
  outgoing_.emplace_back(std::move(text), std::move(done));
  if (outgoing_.size() == 1) {
    write_next();
  }
}

void Lines::write_next() {
  boost::asio::async_write(out_, boost::asio::buffer(outgoing_.front().first),
                           [self = weak_from_this()](const error_code& error, size_t) {
                             const auto lines = self.lock();
                             if (!lines) {
                               return;
                             }
                             const Done done = std::move(lines->outgoing_.front().second);
                             lines->outgoing_.pop_front();
                             if (error) {
                               done(Failure{"nobody reads standard output: " + error.message(), "gone"});
                             } else {
                               done(true);
                             }
                             if (!lines->outgoing_.empty()) {
                               lines->write_next();
                             }
                           });
}

}  // namespace khost::serve
