// The listener of khost.serve with real sockets: what a peer may do, and what it is answered.
#include "host/base/executable.h"
#include "tests/host/child.h"
#include "tests/host/listener_fixture.h"

using namespace khost;
using namespace khost::serve_test;

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
