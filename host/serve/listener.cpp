#include "host/serve/listener.h"

#include <algorithm>
#include <utility>

namespace khost::serve {
namespace {

using boost::system::error_code;

constexpr auto kPause = std::chrono::milliseconds(100);  // after an accept that failed, for lack of descriptors

}  // namespace

Exchange::~Exchange() {
  if (session_) {
    answer({500,
            {{"content-type", "application/json"}},
            "{\"error\":{\"code\":\"host\",\"message\":\"the service gave no answer\"}}\n"},
           [](bool) {});
  }
}

void Exchange::answer(Answer given, Session::Done done) {
  std::exchange(session_, nullptr)->answer(std::move(given), std::move(done));
}

Listener::Listener(boost::asio::io_context& io, const Limits& limits) : acceptor_(io), pause_(io), limits_(limits) {}

Listener::~Listener() {
  close();
}

Result<std::shared_ptr<Listener>> Listener::open(boost::asio::io_context& io, const Limits& limits) {
  auto listener = std::make_shared<Listener>(io, limits);
  if (Status bound = listener->bind(); !bound) {
    return bound.failure();
  }
  listener->accept();
  return listener;
}

Status Listener::bind() {
  error_code error;
  const auto address = boost::asio::ip::make_address(limits_.address, error);
  if (error) {
    return Failure{"address " + limits_.address + ": a numeric IPv4 or IPv6 address expected, such as 127.0.0.1",
                   "bad_input"};
  }
  const tcp::endpoint end(address, static_cast<unsigned short>(limits_.port));
  acceptor_.open(end.protocol(), error);
  if (!error) {
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  }
  if (!error) {
    acceptor_.bind(end, error);
  }
  if (!error) {
    acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
  }
  if (error) {
    return Failure{"address " + limits_.address + ", port " + std::to_string(limits_.port) + ": " + error.message() +
                       "; choose another port, or end what listens there",
                   "io"};
  }
  port_ = acceptor_.local_endpoint().port();
  return ok();
}

void Listener::accept() {
  acceptor_.async_accept([self = weak_from_this()](const error_code& error, tcp::socket socket) {
    const auto listener = self.lock();
    if (!listener || listener->closed_) {
      return;
    }
    if (!error) {
      listener->admit(std::move(socket));
      listener->accept();
      return;
    }
    listener->pause_.expires_after(kPause);
    listener->pause_.async_wait([self](const error_code& cancelled) {
      const auto alive = self.lock();
      if (alive && !cancelled && !alive->closed_) {
        alive->accept();
      }
    });
  });
}

// Whether one more connection may be open, of all peers and of this one.
bool Listener::has_room_for(const std::string& peer) {
  sessions_.erase(std::remove_if(sessions_.begin(), sessions_.end(), [](const auto& one) { return one.expired(); }),
                  sessions_.end());
  const auto of_peer = std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& one) {
    const auto session = one.lock();
    return session && !session->closed() && session->peer() == peer;
  });
  return *open_ <= limits_.connections && (limits_.peer_connections == 0 || of_peer < limits_.peer_connections);
}

void Listener::admit(tcp::socket socket) {
  ++accepted_;
  auto session = std::make_shared<Session>(std::move(socket), limits_, open_,
                                           [self = weak_from_this()](std::shared_ptr<Session> with_head) {
                                             if (const auto listener = self.lock()) {
                                               listener->deliver(std::move(with_head));
                                             } else {
                                               with_head->retire();
                                             }
                                           });
  if (!has_room_for(session->peer())) {
    // What is told why costs a connection for two seconds. Those are counted apart, so that they take no place of a
    // peer that may come in, and where they are too many the next one is not even told.
    ++turned_away_;
    if (*away_ < limits_.connections) {
      session->turn_away(away_);
    }
    return;
  }
  sessions_.push_back(session);
  session->start();
}

void Listener::deliver(std::shared_ptr<Session> session) {
  ready_.push_back(std::make_shared<Exchange>(std::move(session)));
  match();
}

void Listener::match() {
  while (!takers_.empty() && (!ready_.empty() || closed_)) {
    const Taker taker = std::move(takers_.front().second);
    takers_.pop_front();
    if (ready_.empty()) {
      taker(Failure{"the listener is closed", "gone"});
      continue;
    }
    const auto exchange = std::move(ready_.front());
    ready_.pop_front();
    taker(exchange);
  }
}

uint64_t Listener::take(Taker taker) {
  takers_.emplace_back(++last_taker_, std::move(taker));
  const uint64_t number = last_taker_;
  match();
  return number;
}

void Listener::forget(uint64_t number) {
  takers_.erase(std::remove_if(takers_.begin(), takers_.end(), [&](const auto& one) { return one.first == number; }),
                takers_.end());
}

void Listener::close() {
  closed_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (const auto& weak : sessions_) {
    if (const auto session = weak.lock()) {
      session->retire();
    }
  }
  match();
}

ListenerCounts Listener::counts() const {
  return {accepted_, turned_away_, static_cast<double>(*open_ + *away_)};
}

}  // namespace khost::serve
