// A listener of khost.serve on a loop of its own, and peers of it on real sockets.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include "host/serve/listener.h"

namespace khost::serve_test {

using namespace khost::serve;

// A listener on a loop of its own, which answers each request with its method, target and body, or with what went
// wrong.
class Service {
 public:
  explicit Service(Limits limits = {}, bool answers = true) : answers_(answers) {
    limits.header_s = std::min(limits.header_s, 0.5);
    limits.body_s = std::min(limits.body_s, 0.5);
    auto opened = Listener::open(io_, limits);
    REQUIRE(opened);
    listener_ = *opened;
    take();
    thread_ = std::thread([this] { io_.run(); });
  }
  Service(const Service&) = delete;
  ~Service() {
    on_loop([this] {
      held_.reset();
      listener_->close();
      listener_.reset();
      return 0;
    });
    guard_.reset();
    io_.stop();
    thread_.join();
  }

  template <class Work>
  std::invoke_result_t<Work> on_loop(Work work) {
    std::promise<std::invoke_result_t<Work>> promise;
    boost::asio::post(io_, [&] { promise.set_value(work()); });
    return promise.get_future().get();
  }
  int port() const { return listener_->port(); }
  Listener& listener() { return *listener_; }
  // The request that is kept without an answer.
  std::shared_ptr<Exchange>& held() { return held_; }
  int taken() {
    return on_loop([this] { return taken_; });
  }

 private:
  void take() {
    listener_->take([this](Result<std::shared_ptr<Exchange>> got) {
      if (!got) {
        return;
      }
      ++taken_;
      const auto exchange = *got;
      if (!answers_) {
        held_ = exchange;
      } else {
        exchange->session()->read_body(1000, [exchange](Result<std::string> body) {
          const Head& head = exchange->head();
          const std::string text = body ? head.method + " " + head.target + " " + *body : body.failure().code;
          exchange->answer({body ? 200 : 400, {{"x-test", "1"}}, text}, [](bool) {});
        });
      }
      take();
    });
  }

  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{io_.get_executor()};
  std::shared_ptr<Listener> listener_;
  std::shared_ptr<Exchange> held_;
  std::thread thread_;
  int taken_ = 0;
  bool answers_;
};

class Peer {
 public:
  // `from` is the last byte of its own address, 127.0.0.1 or another one of the loopback network.
  explicit Peer(const Service& service, int from = 1) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(static_cast<uint32_t>((127 << 24) | from));
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    address.sin_port = htons(static_cast<uint16_t>(service.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  Peer(const Peer&) = delete;
  ~Peer() { ::close(socket_); }

  // False when the other side has closed.
  bool send(const std::string& text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  void half_close() const { ::shutdown(socket_, SHUT_WR); }
  // Everything until the other side closes, or until the text holds the part; at most 10 s.
  std::string read(const std::string& part = "") {
    std::string text;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end && (part.empty() || text.find(part) == std::string::npos)) {
      pollfd watched{socket_, POLLIN, 0};
      if (::poll(&watched, 1, 100) <= 0) {
        continue;
      }
      char block[4096];
      const ssize_t got = ::recv(socket_, block, sizeof block, 0);
      if (got <= 0) {
        closed_ = true;
        break;
      }
      text.append(block, static_cast<size_t>(got));
    }
    return text;
  }
  bool closed() const { return closed_; }

 private:
  int socket_;
  bool closed_ = false;
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline const std::string kHead = "POST /p?q=1 HTTP/1.1\r\nHost: x\r\n";

template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 500; i++) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace khost::serve_test
