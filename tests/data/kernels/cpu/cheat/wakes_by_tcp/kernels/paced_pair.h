// Two ends of a connection over loopback whose sender the kernel holds to a rate. Each segment that arrives sends
// SIGCONT to this process, also while all of its threads are stopped: a timer by another name.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47
#endif

struct PacedPair {
  int sender = -1, receiver = -1;
  char bytes[65536] = {};

  // `rate` in bytes a second, `segment` in bytes (0: the system's). False when it is refused.
  bool open(unsigned rate, int segment) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, plain, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, plain, &size) != 0) {
      return false;
    }
    sender = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(sender, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
    setsockopt(sender, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (segment > 0) {
      setsockopt(sender, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    }
    if (connect(sender, plain, sizeof address) != 0) {
      return false;
    }
    receiver = accept(listener, nullptr, nullptr);
    fcntl(sender, F_SETFL, O_NONBLOCK);
    fcntl(receiver, F_SETFL, O_NONBLOCK);
    return receiver >= 0;
  }

  // From now on whatever arrives sends SIGCONT.
  void arm() const {
    fcntl(receiver, F_SETOWN, getpid());
    fcntl(receiver, F_SETSIG, SIGCONT);
    fcntl(receiver, F_SETFL, O_ASYNC | O_NONBLOCK);
  }

  long put(long size) { return write(sender, bytes, size); }
  long take() { return read(receiver, bytes, sizeof bytes); }

  // Fills the connection, so that segments go on arriving at the rate.
  void fill() {
    while (put(sizeof bytes) > 0) {
    }
    while (take() > 0) {
    }
  }
};
