// khost.serve: an HTTP/1.1 listener, lines on standard input and output, and the signal that ends a service
// (scripts/meta/khost.serve.lua).
#include <csignal>

#include "host/host.h"
#include "host/lua/bind.h"
#include "host/lua/task.h"
#include "host/modules/modules.h"
#include "host/serve/lines.h"
#include "host/serve/listener.h"

namespace khost::serve {

using lua::field;
using lua::Tag;

// The binder finds fields by the namespace of the struct.
constexpr auto fields(Tag<Limits>) {
  using L = Limits;
  return std::tuple(field("address", &L::address), field("port", &L::port), field("connections", &L::connections),
                    field("peer_connections", &L::peer_connections), field("header_bytes", &L::header_bytes),
                    field("header_s", &L::header_s), field("body_s", &L::body_s), field("write_s", &L::write_s),
                    field("idle_s", &L::idle_s));
}
constexpr auto fields(Tag<Head>) {
  using H = Head;
  return std::tuple(field("method", &H::method), field("target", &H::target), field("headers", &H::headers),
                    field("peer", &H::peer));
}
constexpr auto fields(Tag<ListenerCounts>) {
  using C = ListenerCounts;
  return std::tuple(field("accepted", &C::accepted), field("turned_away", &C::turned_away), field("open", &C::open));
}
constexpr const char* class_name(Tag<Listener>) {
  return "Listener";
}
constexpr const char* class_name(Tag<Exchange>) {
  return "Exchange";
}
constexpr const char* class_name(Tag<Lines>) {
  return "Lines";
}

}  // namespace khost::serve

namespace khost::modules {
namespace {

using lua::ArgError;
using lua::Resume;
using serve::Exchange;
using serve::Lines;
using serve::Listener;

// What a waiting task is answered by, kept where its cancellation can take it back: a handler of the event loop must
// not hold the right to answer, since it may outlive the tasks.
template <class R>
std::shared_ptr<std::optional<Resume<R>>> slot(const Resume<R>& done) {
  auto held = std::make_shared<std::optional<Resume<R>>>(done);
  return held;
}

template <class R>
void settle(const std::shared_ptr<std::optional<Resume<R>>>& held, Result<R> result) {
  if (!*held) {
    return;
  }
  const Resume<R> done = std::move(**held);
  held->reset();
  if (result) {
    done(std::move(result).value());
  } else {
    done.fail(result.failure());
  }
}

// Whoever reads a service's log or answers may go; that is told by the write, and must not end the service.
void outlive_readers() {
  std::signal(SIGPIPE, SIG_IGN);
}

Result<std::shared_ptr<Listener>> listen(lua_State* L, serve::Limits limits) {
  if (limits.port < 0 || limits.port > 65535 || limits.connections < 1 || limits.peer_connections < 0 ||
      !(limits.header_bytes >= 256) || !(limits.header_bytes <= 1 << 20)) {
    throw ArgError(
        "listen: port is 0 to 65535, connections at least 1, peer_connections at least 0, header_bytes 256 to 1048576");
  }
  for (const double seconds : {limits.header_s, limits.body_s, limits.write_s, limits.idle_s}) {
    if (!(seconds > 0) || seconds > 1e6) {
      throw ArgError("listen: header_s, body_s, write_s and idle_s are more than 0 and at most 1e6");
    }
  }
  outlive_readers();
  return Listener::open(Host::of(L).io(), limits);
}

int port(std::shared_ptr<Listener> listener) {
  return listener->port();
}

void take(Resume<std::shared_ptr<Exchange>> done, std::shared_ptr<Listener> listener) {
  const auto held = slot(done);
  const uint64_t number =
      listener->take([held](Result<std::shared_ptr<Exchange>> exchange) { settle(held, std::move(exchange)); });
  if (*held) {
    done.on_cancel([held, number, weak = std::weak_ptr(listener)] {
      held->reset();
      if (const auto alive = weak.lock()) {
        alive->forget(number);
      }
    });
  }
}

void close_listener(std::shared_ptr<Listener> listener) {
  listener->close();
}

serve::ListenerCounts counts(std::shared_ptr<Listener> listener) {
  return listener->counts();
}

serve::Head head(std::shared_ptr<Exchange> exchange) {
  return exchange->head();
}

serve::Session& session_of(const Exchange& exchange, const char* what) {
  if (!exchange.session()) {
    throw ArgError(std::string(what) + ": this request was answered before");
  }
  return *exchange.session();
}

void body(Resume<std::string> done, std::shared_ptr<Exchange> exchange, double most_bytes) {
  if (!(most_bytes >= 0) || most_bytes > 1 << 30) {
    throw ArgError("body: most_bytes is 0 to 1073741824");
  }
  serve::Session& session = session_of(*exchange, "body");
  const auto held = slot(done);
  session.read_body(static_cast<size_t>(most_bytes),
                    [held](Result<std::string> text) { settle(held, std::move(text)); });
  if (*held) {
    done.on_cancel([held, connection = exchange->session()] {
      held->reset();
      connection->drop_body();
    });
  }
}

bool has_line_end(const std::string& text) {
  return text.find_first_of("\r\n") != std::string::npos;
}

void answer(Resume<bool> done, std::shared_ptr<Exchange> exchange, int status,
            std::map<std::string, std::string> headers, std::string text) {
  if (status < 200 || status > 599) {
    throw ArgError("answer: a status of 200 to 599 expected");
  }
  for (const auto& [name, value] : headers) {
    if (has_line_end(name) || has_line_end(value)) {
      throw ArgError("answer: a header field holds a line end");
    }
  }
  session_of(*exchange, "answer");
  const auto held = slot(done);
  done.on_cancel([held] { held->reset(); });
  exchange->answer({status, std::move(headers), std::move(text)},
                   [held](bool whole) { settle(held, Result<bool>(whole)); });
}

bool gone(std::shared_ptr<Exchange> exchange) {
  return session_of(*exchange, "gone").gone();
}

Result<std::shared_ptr<Lines>> lines(lua_State* L) {
  outlive_readers();
  return Lines::open(Host::of(L).io());
}

void read_line(Resume<std::string> done, std::shared_ptr<Lines> from, double most_bytes) {
  if (!(most_bytes >= 1) || most_bytes > 1 << 30) {
    throw ArgError("read: most_bytes is 1 to 1073741824");
  }
  const auto held = slot(done);
  from->read(static_cast<size_t>(most_bytes), [held](Result<std::string> line) { settle(held, std::move(line)); });
  if (*held) {
    done.on_cancel([held, from] {
      held->reset();
      from->drop_read();
    });
  }
}

void write_text(Resume<bool> done, std::shared_ptr<Lines> to, std::string text) {
  const auto held = slot(done);
  done.on_cancel([held] { held->reset(); });
  to->write(std::move(text), [held](Result<bool> written) { settle(held, std::move(written)); });
}

// Waits for the first SIGINT or SIGTERM, which then does not cancel the script; a second one does.
void interrupted(Resume<bool> done, lua_State* L) {
  Host& host = Host::of(L);
  const auto held = slot(done);
  done.on_cancel([held, &host] {
    held->reset();
    host.on_interrupt(nullptr);
  });
  host.on_interrupt([held] { settle(held, Result<bool>(true)); });
}

}  // namespace

void khost_open_serve(lua_State* L) {
  lua::add_class<Listener>(L, {lua::def<port>("port"), lua::def<take>("take"), lua::def<close_listener>("close"),
                               lua::def<counts>("counts")});
  lua::add_class<Exchange>(
      L, {lua::def<head>("head"), lua::def<body>("body"), lua::def<answer>("answer"), lua::def<gone>("gone")});
  lua::add_class<Lines>(L, {lua::def<read_line>("read"), lua::def<write_text>("write")});
  lua_newtable(L);
  lua::add(L, {lua::def<listen>("listen"), lua::def<lines>("lines"), lua::def<interrupted>("interrupted")});
  lua_pushliteral(L, KHOST_VERSION);
  lua_setfield(L, -2, "version");
}

}  // namespace khost::modules
