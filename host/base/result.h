// Result<T>: the value of an operation that may fail in an expected way, or a Failure that says why.
// Broken contracts throw instead; outcomes of an evaluation are values of Verdict, not failures.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace khost {

// `code` is one of: timeout, busy, gone, io, limit, host, cancelled, bad_input. Lua sees nil, message, code.
struct Failure {
  std::string message;
  std::string code = "host";
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  const Failure& failure() const { return std::get<1>(state_); }
  T* operator->() { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

 private:
  std::variant<T, Failure> state_;
};

using Status = Result<std::monostate>;
inline Status ok() {
  return Status(std::monostate{});
}

}  // namespace khost
