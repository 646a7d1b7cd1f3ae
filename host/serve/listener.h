// Accepts connections on one address and keeps the requests whose headers were read until somebody takes them. It
// belongs to the event loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "host/base/result.h"
#include "host/serve/session.h"

namespace khost::serve {

// One request of a connection. Whoever holds it owes an answer: what dies without one is answered 500. An answered one
// has let go of its connection, on which the next request may be in work.
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<Session> session) : head_(session->head()), session_(std::move(session)) {}
  Exchange(const Exchange&) = delete;
  ~Exchange();

  const Head& head() const { return head_; }
  // Null once it is answered.
  const std::shared_ptr<Session>& session() const { return session_; }
  void answer(Answer answer, Session::Done done);

 private:
  Head head_;
  std::shared_ptr<Session> session_;
};

struct ListenerCounts {
  double accepted = 0;
  double turned_away = 0;
  double open = 0;
};

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  using Taker = std::function<void(Result<std::shared_ptr<Exchange>>)>;

  // Code "bad_input" for an address that is none, "io" where it cannot be bound.
  static Result<std::shared_ptr<Listener>> open(boost::asio::io_context& io, const Limits& limits);
  Listener(boost::asio::io_context& io, const Limits& limits);
  ~Listener();

  int port() const { return port_; }
  // The next request; code "gone" when the listener was closed and none is left. The number takes the wish back.
  uint64_t take(Taker taker);
  void forget(uint64_t number);
  // Accepts nothing more and closes the connections on which nothing is in work.
  void close();
  ListenerCounts counts() const;

 private:
  Status bind();
  void accept();
  void admit(tcp::socket socket);
  bool has_room_for(const std::string& peer);
  void deliver(std::shared_ptr<Session> session);
  void match();

  tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  Limits limits_;
  std::shared_ptr<int> open_ = std::make_shared<int>(0);  // without those that are turned away
  std::shared_ptr<int> away_ = std::make_shared<int>(0);  // that are being turned away
  std::vector<std::weak_ptr<Session>> sessions_;
  std::deque<std::shared_ptr<Exchange>> ready_;
  std::deque<std::pair<uint64_t, Taker>> takers_;
  uint64_t last_taker_ = 0;
  double accepted_ = 0;
  double turned_away_ = 0;
  int port_ = 0;
  bool closed_ = false;
};

}  // namespace khost::serve
