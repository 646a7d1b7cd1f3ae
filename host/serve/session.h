// One HTTP/1.1 connection: reads a header, hands it on as an Exchange, reads the body when it is asked for, writes the
// one answer, and reads the next header where both sides keep the connection. It belongs to the event loop's thread.
//
// What is refused before anybody asks: a header that is no HTTP or too large (400, 431), one that does not arrive in
// time (408), one that arrives while the listener closes (503). A connection whose request was not read to its end is
// closed behind the answer: first the sending side, then, when the peer has read it or two seconds are over, the whole.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "host/base/result.h"
#include "host/serve/limits.h"

namespace khost::serve {

using tcp = boost::asio::ip::tcp;
namespace http = boost::beast::http;

// Names in lower case. Fields that stand twice are joined by ", ".
struct Head {
  std::string method;
  std::string target;  // as the client wrote it: path and query
  std::map<std::string, std::string> headers;
  std::string peer;  // numeric address
};

struct Answer {
  int status = 200;
  std::map<std::string, std::string> headers;
  std::string body;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Deliver = std::function<void(std::shared_ptr<Session>)>;
  using Text = std::function<void(Result<std::string>)>;
  using Done = std::function<void(bool written)>;

  // `deliver` gets the session each time that a header was read. `open` counts connections until they are closed.
  Session(tcp::socket socket, const Limits& limits, std::shared_ptr<int> open, Deliver deliver);
  Session(const Session&) = delete;
  ~Session();

  void start() { read_head(limits_.header_s); }
  // Answers 503 without reading anything. The connection is counted in `away` from then on.
  void turn_away(std::shared_ptr<int> away);
  // Lets the answer to a request in work be the last, answers 503 to one that has begun to arrive, and closes a
  // connection on which there is none.
  void retire();

  const Head& head() const { return head_; }
  // The numeric address of the other side; empty where it was gone before it could be asked for.
  const std::string& peer() const { return peer_; }
  bool closed() const { return closed_; }
  // Reads the body of at most so many bytes, once. Codes: limit (announced or sent), timeout, gone, bad_input.
  void read_body(size_t most_bytes, Text done);
  // Gives up a body that is being read; `done` is not called.
  void drop_body();
  // Once for each header delivered. `done` hears whether all of it was handed to the network.
  void answer(Answer answer, Done done);
  // Whether the peer closed its sending side, or the connection is broken.
  bool gone();

 private:
  using Parser = http::request_parser<http::string_body>;

  void read_head(double seconds);
  void on_head(const boost::system::error_code& error);
  void take_head();
  bool has_begun() const;
  void refuse(int status, const std::string& code, const std::string& message);
  void on_body(const boost::system::error_code& error, size_t most_bytes);
  void on_written(bool whole, bool keep);
  void linger();
  void discard();
  void close();
  void expire_in(double seconds);
  void await_deadline(unsigned number, int count);
  void no_deadline();

  tcp::socket socket_;
  boost::asio::steady_timer timer_;
  Limits limits_;
  std::string peer_;
  std::shared_ptr<int> open_;
  Deliver deliver_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  http::response<http::string_body> response_;
  Head head_;
  Text body_done_;
  Done answer_done_;
  std::string rest_;       // of what the peer sent and nobody reads
  size_t discarded_ = 0;   // bytes of it
  unsigned deadline_ = 0;  // the number of the deadline that counts
  bool timed_out_ = false;
  bool in_work_ = false;  // from a header to its answer
  bool retired_ = false;
  bool closed_ = false;
};

}  // namespace khost::serve
