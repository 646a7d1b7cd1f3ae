// What one listener allows those who connect to it. Bytes and seconds.
#pragma once

#include <string>

namespace khost::serve {

struct Limits {
  std::string address = "127.0.0.1";  // numeric, IPv4 or IPv6
  int port = 0;                       // 0: a free one
  int connections = 256;              // open at once; one more is answered 503 and closed
  int peer_connections = 0;           // of them from one address; 0: as many as all
  double header_bytes = 16 << 10;     // of the request line and all header fields together
  double header_s = 10;               // from the first byte a connection owes to the end of a header
  double body_s = 60;                 // from the end of the header to the end of the body
  double write_s = 60;                // of one answer
  double idle_s = 60;                 // between two requests of a connection
};

}  // namespace khost::serve
