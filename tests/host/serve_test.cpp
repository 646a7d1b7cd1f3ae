// The listener of khost.serve with real sockets: what a peer may do, and what it is answered.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <deque>
#include <future>
#include <string>
#include <thread>
#include <type_traits>

#include "host/base/executable.h"
#include "host/serve/listener.h"
#include "tests/host/child.h"

using namespace khost;
using namespace khost::serve;

namespace {

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

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kHead = "POST /p?q=1 HTTP/1.1\r\nHost: x\r\n";

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

}  // namespace

TEST_CASE("serve: a connection answers requests one after the other, also those that came together") {
  Service service;
  Peer peer(service);
  peer.send(kHead + "Content-Length: 2\r\n\r\nab" + kHead + "Transfer-Encoding: chunked\r\n\r\n3\r\ncde\r\n0\r\n\r\n");
  const std::string text = peer.read("POST /p?q=1 cde");
  CHECK(has(text, "POST /p?q=1 ab"));
  CHECK(has(text, "POST /p?q=1 cde"));
  CHECK(has(text, "x-test: 1"));
  peer.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(has(peer.read(), "GET / "));
  CHECK(peer.closed());
}

TEST_CASE("serve: a body of one gigabyte is refused when it is announced, and its sender reads why") {
  Service service;
  Peer peer(service);
  peer.send(kHead + "Content-Length: 1073741824\r\n\r\n");
  const std::string block(1 << 16, 'x');
  for (int i = 0; i < 8 && peer.send(block); i++) {
  }
  const std::string text = peer.read();
  CHECK(has(text, "400 Bad Request"));
  CHECK(has(text, "limit"));
  CHECK(peer.closed());
  Peer endless(service);
  endless.send(kHead + "Transfer-Encoding: chunked\r\n\r\n7ff\r\n" + std::string(0x7ff, 'x') + "\r\n");
  CHECK(has(endless.read(), "limit"));
}

TEST_CASE("serve: a refusal reaches whoever sends a body of the usual size before it reads") {
  Service service;
  Peer peer(service);
  CHECK(peer.send(kHead + "Content-Length: 8388608\r\n\r\n" + std::string(8 << 20, 'x')));
  CHECK(has(peer.read(), "limit"));
}

TEST_CASE("serve: who sends slowly is told so and let go") {
  Service service;
  Peer silent(service);
  Peer head(service);
  Peer body(service);
  head.send("POST / HTTP/1.1\r\nHost:");
  body.send(kHead + "Content-Length: 5\r\n\r\nab");
  CHECK(has(head.read(), "408 Request Timeout"));
  CHECK(has(body.read(), "timeout"));
  CHECK(silent.read().empty());
  CHECK(silent.closed());
  CHECK(eventually([&] { return service.on_loop([&] { return service.listener().counts().open; }) == 0; }));
}

TEST_CASE("serve: what is no HTTP is refused without reaching anybody") {
  Service service;
  for (const std::string& text :
       {std::string("\x16\x03\x01\x02\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nA B: c\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
        kHead + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        kHead + "Transfer-Encoding: gzip\r\n\r\n", kHead + "Transfer-Encoding: chunked, identity\r\n\r\nab",
        std::string("POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        kHead + "Content-Length: -2\r\n\r\n", kHead + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"}) {
    Peer peer(service);
    peer.send(text);
    CHECK_MESSAGE(has(peer.read(), "400 Bad Request"), text);
  }
  Peer large(service);
  large.send("GET / HTTP/1.1\r\nA: " + std::string(40000, 'x') + "\r\n\r\n");
  CHECK(has(large.read(), "431 "));
  CHECK(service.taken() == 0);
}

TEST_CASE("serve: a chunk's extension without an end is cut off, and does not fill the memory") {
  Service service;
  Peer peer(service);
  peer.send(kHead + "Transfer-Encoding: chunked\r\n\r\n1;");
  const std::string block(1 << 16, 'a');
  int sent = 0;
  while (sent < 512 && peer.send(block)) {
    sent++;
  }
  CHECK(sent < 512);
}

TEST_CASE("serve: HEAD is answered without a body, so that the next answer is where it is looked for") {
  Service service;
  Peer peer(service);
  peer.send("HEAD /p HTTP/1.1\r\nHost: x\r\n\r\nGET /q HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string text = peer.read();
  CHECK(has(text, "\r\n\r\nHTTP/1.1 200"));
  CHECK_FALSE(has(text, "HEAD /p"));
  CHECK(has(text, "GET /q"));
}

TEST_CASE("serve: a peer that closed its sending side counts as gone, and can still read its answer") {
  Service service({}, false);
  Peer peer(service);
  peer.send(kHead + "Content-Length: 0\r\n\r\n");
  REQUIRE(eventually([&] { return service.taken() == 1; }));
  CHECK(!service.on_loop([&] { return service.held()->session()->gone(); }));
  peer.half_close();
  CHECK(eventually([&] { return service.on_loop([&] { return service.held()->session()->gone(); }); }));
  service.on_loop([&] {
    service.held()->answer({400, {}, "half closed"}, [](bool) {});
    return 0;
  });
  CHECK(has(peer.read(), "half closed"));
  Service other;
  Peer cut(other);
  cut.send(kHead + "Content-Length: 5\r\n\r\nab");
  cut.half_close();
  CHECK(has(cut.read(), "gone"));
}

TEST_CASE("serve: a request that is dropped without an answer is answered 500, once") {
  Service service({}, false);
  Peer peer(service);
  peer.send(kHead + "Content-Length: 0\r\n\r\n");
  REQUIRE(eventually([&] { return service.taken() == 1; }));
  service.on_loop([&] {
    service.held().reset();
    return 0;
  });
  CHECK(has(peer.read("no answer\"}}\n"), "500 Internal Server Error"));
  peer.send(kHead + "Content-Length: 0\r\n\r\n");
  REQUIRE(eventually([&] { return service.taken() == 2; }));
  service.on_loop([&] {
    service.held()->answer({200, {}, "second"}, [](bool) {});
    service.held().reset();
    return 0;
  });
  const std::string text = peer.read("second");
  CHECK(has(text, "200 OK"));
  CHECK(!has(text, "500"));
}

TEST_CASE("serve: more connections than are allowed are turned away, and places come back") {
  Limits limits;
  limits.connections = 2;
  Service service(limits, false);
  Peer first(service);
  Peer second(service);
  first.send(kHead + "Content-Length: 0\r\n\r\n");
  second.send(kHead + "Content-Length: 0\r\n\r\n");
  REQUIRE(eventually([&] { return service.taken() == 2; }));
  Peer third(service);
  const std::string away = third.read();
  CHECK(has(away, "503 Service Unavailable"));
  CHECK(has(away, "retry-after: 5"));
  service.on_loop([&] {
    service.held()->answer({200, {{"connection", "close"}}, "x"}, [](bool) {});
    return 0;
  });
  CHECK(has(second.read("\r\n\r\nx"), "200 OK"));
}

TEST_CASE("serve: one address gets no more than its share of the connections, and its places come back") {
  Limits limits;
  limits.connections = 8;
  limits.peer_connections = 1;
  Service service(limits);
  {
    Peer first(service);
    first.send(kHead + "Content-Length: 0\r\n\r\n");
    CHECK(has(first.read("x-test"), "200 OK"));
    Peer second(service);
    CHECK(has(second.read(), "503 Service Unavailable"));
  }
  REQUIRE(eventually([&] { return service.on_loop([&] { return service.listener().counts().open == 0; }); }));
  Peer third(service);
  third.send(kHead + "Content-Length: 0\r\n\r\n");
  CHECK(has(third.read("x-test"), "200 OK"));
}

TEST_CASE("serve: who is turned away takes no place of another address, however many come") {
  Limits limits;
  limits.connections = 4;
  limits.peer_connections = 2;
  Service service(limits, false);
  std::deque<Peer> crowd;  // its members never close, so that the service lingers with each that it told why
  for (int i = 0; i < 2; i++) {
    crowd.emplace_back(service, 2);
    crowd.back().send(kHead + "Content-Length: 0\r\n\r\n");
  }
  REQUIRE(eventually([&] { return service.taken() == 2; }));
  for (int i = 0; i < 10; i++) {
    crowd.emplace_back(service, 2);
  }
  REQUIRE(eventually([&] { return service.on_loop([&] { return service.listener().counts().turned_away; }) == 10; }));
  // Four are told why; for the others there is no room even for that.
  CHECK(service.on_loop([&] { return service.listener().counts().open; }) == 6);
  CHECK(crowd.back().read().empty());
  CHECK(crowd.back().closed());
  CHECK(has(crowd[5].read("\r\n\r\n"), "503 Service Unavailable"));
  std::deque<Peer> others;
  for (int i = 0; i < 2; i++) {
    others.emplace_back(service, 3);
    others.back().send(kHead + "Content-Length: 0\r\n\r\n");
  }
  CHECK(eventually([&] { return service.taken() == 4; }));
  CHECK(eventually([&] { return service.on_loop([&] { return service.listener().counts().open; }) == 4; }));
}

TEST_CASE("serve: a closed listener lets idle connections go and answers what is in work") {
  Service service({}, false);
  Peer idle(service);
  Peer working(service);
  working.send(kHead + "Content-Length: 0\r\n\r\n");
  REQUIRE(eventually([&] { return service.taken() == 1; }));
  service.on_loop([&] {
    service.listener().close();
    return 0;
  });
  CHECK(idle.read().empty());
  CHECK(idle.closed());
  service.on_loop([&] {
    service.held()->answer({200, {}, "last"}, [](bool) {});
    return 0;
  });
  const std::string text = working.read();
  CHECK(has(text, "last"));
  CHECK(has(text, "Connection: close"));
  CHECK(working.closed());
}

TEST_CASE("serve: a request that arrives while the listener closes is told that it came too late") {
  Service service({}, false);
  Peer whole(service);
  Peer half(service);
  half.send("POST / HTTP/1.1\r\nHo");
  REQUIRE(eventually([&] { return service.on_loop([&] { return service.listener().counts().open; }) == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the half header is read by then
  service.on_loop([&] {
    whole.send(kHead + "Content-Length: 0\r\n\r\n");
    service.listener().close();
    return 0;
  });
  for (Peer* peer : {&whole, &half}) {
    const std::string text = peer->read();
    CHECK(has(text, "503 Service Unavailable"));
    CHECK(has(text, "draining"));
    CHECK(peer->closed());
  }
  CHECK(service.taken() == 0);
}

TEST_CASE("serve: a client that waits to be asked for its body is asked") {
  Service service;
  Peer peer(service);
  peer.send(kHead + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  CHECK(has(peer.read("\r\n\r\n"), "100 Continue"));
  peer.send("ab");
  CHECK(has(peer.read("POST /p?q=1 ab"), "200 OK"));
}

TEST_CASE("serve: the command drains after SIGTERM and ends with 0") {
  tests::Child service({executable_dir() + "/khost", "serve", "--port", "0"},
                       {{"KHOST_ROOT", KHOST_SOURCE_DIR}, {"KHOST_PYTHON", "/usr/bin/python3"}});
  REQUIRE_MESSAGE(service.until("khost serves http://127.0.0.1:", 60), service.text());
  service.signal(SIGTERM);
  CHECK(service.wait(60) == 0);
  CHECK_MESSAGE(service.has("drained"), service.text());
}

TEST_CASE("serve: another address than loopback is refused without tokens") {
  tests::Child service({executable_dir() + "/khost", "serve", "--port", "0", "--address", "0.0.0.0"},
                       {{"KHOST_ROOT", KHOST_SOURCE_DIR}, {"KHOST_PYTHON", "/usr/bin/python3"}});
  CHECK(service.wait(60) == 2);
  CHECK_MESSAGE(service.has("only loopback is served without tokens"), service.text());
}
