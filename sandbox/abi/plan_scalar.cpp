// Numbers of a plan as the machine passes them.
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "sandbox/abi/plan.h"

namespace khost::sandbox {
namespace {

Failure bad(const std::string& what) {
  return {"plan: " + what, "bad_input"};
}

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
Result<std::uint64_t> integer_bits(const Json& value) {
  if (value.is_boolean()) {
    return bits_of(static_cast<T>(value.get<bool>() ? 1 : 0));
  }
  if (!value.is_number_integer()) {
    return bad("scalar " + value.dump().substr(0, 40) + " is no integer");
  }
  const bool negative = !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
  const bool fits = negative ? std::numeric_limits<T>::is_signed &&
                                   value.get<std::int64_t>() >= static_cast<std::int64_t>(std::numeric_limits<T>::min())
                             : value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  if (!fits) {
    return bad("scalar " + value.dump() + " does not fit its type");
  }
  return bits_of(negative ? static_cast<T>(value.get<std::int64_t>()) : static_cast<T>(value.get<std::uint64_t>()));
}

Result<double> real(const Json& value) {
  if (value.is_number()) {
    return value.get<double>();
  }
  if (value.is_boolean()) {
    return value.get<bool>() ? 1.0 : 0.0;
  }
  for (const auto& [name, number] :
       {std::pair<const char*, double>{"inf", HUGE_VAL}, {"-inf", -HUGE_VAL}, {"nan", NAN}}) {
    if (value == name) {
      return number;
    }
  }
  return bad("scalar " + value.dump(-1, ' ', true).substr(0, 40) + " is no number");
}

}  // namespace

Result<std::uint64_t> scalar_bits(char type, const Json& value) {
  // What to_json() wrote: exact for every value, also for those that JSON has no number for.
  if (value.is_object() && value.contains("bits") && value["bits"].is_number_unsigned()) {
    return value["bits"].get<std::uint64_t>();
  }
  switch (type) {
    case 'f':
    case 'd': {
      Result<double> number = real(value);
      if (!number) {
        return number.failure();
      }
      return type == 'f' ? bits_of(static_cast<float>(*number)) : bits_of(*number);
    }
    case '?':
      return integer_bits<std::uint8_t>(value.is_boolean() ? value : Json(value != Json(0)));
    case 'b':
      return integer_bits<std::int8_t>(value);
    case 'B':
      return integer_bits<std::uint8_t>(value);
    case 'h':
      return integer_bits<std::int16_t>(value);
    case 'i':
      return integer_bits<std::int32_t>(value);
    case 'I':
      return integer_bits<std::uint32_t>(value);
    case 'l':
      return integer_bits<std::int64_t>(value);
    case 'L':
      return integer_bits<std::uint64_t>(value);
    default:
      return bad("a scalar of type '" + std::string(1, type) + "' cannot be passed: use float, double or an integer");
  }
}

}  // namespace khost::sandbox
