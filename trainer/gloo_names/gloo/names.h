// PyTorch's wheel ships ProcessGroupGloo.hpp and the compiled Gloo, but none of Gloo's headers. That file only holds
// pointers to Gloo's classes, so their names are enough; nothing here is ever constructed or called by khost.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

// Named in an inline function that khost does not call.
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

namespace rendezvous {
// The base of c10d's adapter, with the functions that the adapter overrides.
class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& data) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout);
};
}  // namespace rendezvous

}  // namespace gloo
