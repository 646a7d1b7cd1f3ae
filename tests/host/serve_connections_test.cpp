// How many connections the listener of khost.serve has at once, and from whom.
#include <deque>

#include "tests/host/listener_fixture.h"

using namespace khost;
using namespace khost::serve_test;

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
