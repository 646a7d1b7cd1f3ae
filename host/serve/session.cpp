#include "host/serve/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <cctype>
#include <cerrno>
#include <utility>

#include "host/base/json.h"

namespace khost::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr double kLingerSeconds = 2;
constexpr double kLastHeaderSeconds = 1;  // for a header whose first bytes are there when the listener closes
constexpr const char* kRetrySeconds = "5";
constexpr size_t kMostDiscarded = 12 << 20;  // more than a body that is allowed, which may be refused unread
constexpr size_t kDiscardBlock = 16 << 10;
// Bytes that may wait for the parser beside a header: a chunk's extension or a trailer without an end would grow for as
// long as the peer sends.
constexpr size_t kMostUnparsed = 64 << 10;
// A read that completed just before its deadline is not cancelled by it and goes on, so the deadline comes again.
constexpr auto kDeadlineAgain = std::chrono::milliseconds(50);
constexpr int kMostDeadlines = 20;  // then the connection is closed

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string text_of(boost::beast::string_view view) {
  return {view.data(), view.size()};
}

std::string error_body(const std::string& code, const std::string& message) {
  return Json{{"error", {{"code", code}, {"message", message}}}}.dump() + "\n";
}

bool is_our_limit(const error_code& error) {
  return error == http::error::header_limit || error == http::error::body_limit;
}

// An error of the parser, not of the connection.
bool is_malformed(const error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

}  // namespace

Session::Session(tcp::socket socket, const Limits& limits, std::shared_ptr<int> open, Deliver deliver)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      limits_(limits),
      open_(std::move(open)),
      deliver_(std::move(deliver)),
      buffer_(static_cast<size_t>(limits.header_bytes) + kMostUnparsed) {
  ++*open_;
  error_code error;
  socket_.set_option(tcp::no_delay(true), error);
  const auto peer = socket_.remote_endpoint(error);
  peer_ = error ? "" : peer.address().to_string();
}

Session::~Session() {
  if (!closed_) {
    --*open_;
  }
}

void Session::expire_in(double seconds) {
  timed_out_ = false;
  timer_.expires_after(std::chrono::milliseconds(std::max(1L, static_cast<long>(seconds * 1000))));
  await_deadline(++deadline_, 1);
}

void Session::await_deadline(unsigned number, int count) {
  timer_.async_wait([self = weak_from_this(), number, count](const error_code& error) {
    const auto session = self.lock();
    if (!session || error || session->deadline_ != number) {
      return;
    }
    if (count > kMostDeadlines) {
      session->close();
      return;
    }
    session->timed_out_ = true;
    error_code ignored;
    session->socket_.cancel(ignored);
    session->timer_.expires_after(kDeadlineAgain);
    session->await_deadline(number, count + 1);
  });
}

void Session::no_deadline() {
  ++deadline_;
  timer_.cancel();
}

void Session::turn_away(std::shared_ptr<int> away) {
  --*open_;
  open_ = std::move(away);
  ++*open_;
  parser_.emplace();
  in_work_ = true;
  refuse(503, "busy", "too many connections are open: try again later");
}

// A request that has begun to arrive is told that it came too late: a connection that is closed without a word leaves
// its client in doubt whether it was served.
void Session::retire() {
  retired_ = true;
  if (in_work_) {
    return;
  }
  error_code error;
  if (has_begun() || socket_.available(error) > 0) {
    expire_in(kLastHeaderSeconds);
  } else {
    close();
  }
}

bool Session::has_begun() const {
  return buffer_.size() > 0 || parser_->got_some();
}

void Session::read_head(double seconds) {
  head_ = {};
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  parser_->body_limit(boost::none);  // read_body knows it
  in_work_ = false;
  expire_in(seconds);
  http::async_read_header(socket_, buffer_, *parser_, [self = shared_from_this()](const error_code& error, size_t) {
    self->no_deadline();
    self->on_head(error);
  });
}

void Session::on_head(const error_code& error) {
  if (closed_) {
    return;
  }
  if (retired_ && has_begun() && (!error || timed_out_)) {
    refuse(503, "draining", "the service is ending");
  } else if (retired_) {
    close();
  } else if (!error) {
    take_head();
  } else if (timed_out_ && has_begun()) {
    refuse(408, "timeout", "the header did not arrive in time");
  } else if (error == http::error::header_limit) {
    refuse(431, "limit",
           "the header is larger than " + std::to_string(static_cast<int>(limits_.header_bytes)) + " bytes");
  } else if (is_malformed(error)) {
    refuse(400, "bad_input", "this is no HTTP/1.1 request: " + error.message());
  } else {
    close();
  }
}

void Session::take_head() {
  const auto& message = parser_->get();
  head_ = {};
  head_.method = text_of(message.method_string());
  head_.target = text_of(message.target());
  for (const auto& field : message) {
    std::string& value = head_.headers[lower(text_of(field.name_string()))];
    value += (value.empty() ? "" : ", ") + text_of(field.value());
  }
  // A coding that this parser does not undo would leave a body behind that is read as the next request.
  // HTTP/1.0 has no codings: what stands between may have passed the field on without knowing it.
  const auto coding = head_.headers.find("transfer-encoding");
  if (coding != head_.headers.end() &&
      (lower(coding->second) != "chunked" || message.version() < 11 || head_.headers.count("content-length") > 0)) {
    refuse(400, "bad_input",
           "a body is sent with Content-Length, or by HTTP/1.1 with Transfer-Encoding: chunked alone");
    return;
  }
  head_.peer = peer_;
  in_work_ = true;
  deliver_(shared_from_this());
}

void Session::refuse(int status, const std::string& code, const std::string& message) {
  in_work_ = true;
  retired_ = true;
  std::map<std::string, std::string> headers = {{"content-type", "application/json"}};
  if (status == 503) {
    headers["retry-after"] = kRetrySeconds;
  }
  answer({status, std::move(headers), error_body(code, message)}, [](bool) {});
}

void Session::read_body(size_t most_bytes, Text done) {
  const auto length = parser_->content_length();
  if (length && *length > most_bytes) {
    done(Failure{
        "the body has " + std::to_string(*length) + " bytes, at most " + std::to_string(most_bytes) + " are read",
        "limit"});
    return;
  }
  parser_->body_limit(most_bytes);
  body_done_ = std::move(done);
  expire_in(limits_.body_s);
  const auto read = [self = shared_from_this(), most_bytes] {
    http::async_read(self->socket_, self->buffer_, *self->parser_, [self, most_bytes](const error_code& error, size_t) {
      self->no_deadline();
      self->on_body(error, most_bytes);
    });
  };
  if (lower(text_of(parser_->get()[http::field::expect])) == "100-continue" && buffer_.size() == 0) {
    static constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(socket_, asio::buffer(kGoOn), [read](const error_code&, size_t) { read(); });
  } else {
    read();
  }
}

void Session::drop_body() {
  body_done_ = nullptr;
  error_code ignored;
  socket_.cancel(ignored);
}

void Session::on_body(const error_code& error, size_t most_bytes) {
  const Text done = std::exchange(body_done_, nullptr);
  if (!done) {
    return;
  }
  if (!error) {
    done(std::move(parser_->get().body()));
  } else if (timed_out_) {
    done(Failure{"the body did not arrive in time", "timeout"});
  } else if (is_our_limit(error)) {
    done(Failure{"the body has more than " + std::to_string(most_bytes) + " bytes", "limit"});
  } else if (is_malformed(error)) {
    done(Failure{"the body is no HTTP/1.1: " + error.message(), "bad_input"});
  } else {
    done(Failure{"the body ended before its announced length", "gone"});
  }
}

void Session::answer(Answer given, Done done) {
  answer_done_ = std::move(done);
  const bool keep = parser_->is_done() && parser_->keep_alive() && !retired_;
  response_ = {};
  response_.version(11);
  response_.result(static_cast<unsigned>(given.status));
  for (const auto& [name, value] : given.headers) {
    response_.set(name, value);
  }
  response_.keep_alive(keep);
  response_.body() = std::move(given.body);
  response_.prepare_payload();
  if (head_.method == "HEAD") {
    response_.body().clear();  // its length is told, and nothing follows (RFC 9110, 9.3.2)
  }
  expire_in(limits_.write_s);
  http::async_write(socket_, response_, [self = shared_from_this(), keep](const error_code& error, size_t) {
    self->no_deadline();
    self->on_written(!error, keep);
  });
}

void Session::on_written(bool whole, bool keep) {
  response_ = {};
  if (const Done done = std::exchange(answer_done_, nullptr)) {
    done(whole);
  }
  if (!whole) {
    close();
  } else if (keep && !retired_) {
    read_head(limits_.idle_s);
  } else {
    linger();
  }
}

// Closing at once would reset the connection where the peer still sends, and it would never read its answer.
void Session::linger() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  rest_.resize(kDiscardBlock);
  expire_in(kLingerSeconds);
  discard();
}

void Session::discard() {
  socket_.async_read_some(asio::buffer(rest_), [self = shared_from_this()](const error_code& error, size_t bytes) {
    self->discarded_ += bytes;
    if (error || self->timed_out_ || self->discarded_ > kMostDiscarded) {
      self->close();
    } else {
      self->discard();
    }
  });
}

void Session::close() {
  if (std::exchange(closed_, true)) {
    return;
  }
  --*open_;
  no_deadline();
  error_code ignored;
  socket_.close(ignored);
}

bool Session::gone() {
  char byte = 0;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace khost::serve
