#include "sandbox/judge/values/mismatch.h"

#include <cmath>
#include <ostream>
#include <sstream>
#include <utility>

namespace khost::judge {
namespace {

using sandbox::Manifest;

void write_list(std::ostream& out, const std::vector<std::int64_t>& values) {
  out << "[";
  for (std::size_t i = 0; i < values.size(); i++) {
    out << (i > 0 ? ", " : "") << values[i];
  }
  out << "]";
}

void write_example(std::ostream& out, const std::string& output, const Mismatch::Example& example) {
  out << "output" << (output.empty() ? "" : " " + output);
  write_list(out, example.at);
  out.precision(8);
  out << " is " << example.got << ", expected " << example.expected;
  out.precision(3);
  const double difference = std::abs(example.got - example.expected);
  if (std::isfinite(difference)) {
    out << "; |difference| " << difference << ", allowed " << example.allowed;
  }
}

void write_count(std::ostream& out, const Mismatch& mismatch) {
  out << mismatch.count << " of " << mismatch.total << " elements are "
      << (mismatch.reproach == Reproach::out         ? "farther off than a jump of the reference's"
          : mismatch.reproach == Reproach::untypical ? "less exact than is typical of the reference"
                                                     : "wrong");
  if (mismatch.beyond > 0) {
    out << ", where " << mismatch.beyond << " may be";
  }
}

}  // namespace

Reproach reproach_of(const Tolerance& tolerance, std::int64_t elements, const Found& counts) {
  if (counts.wrong > tolerance.beyond(elements)) {
    return Reproach::wrong;
  }
  if (counts.out > 0) {
    return Reproach::out;
  }
  return counts.untypical > tolerance.untypical(elements) ? Reproach::untypical : Reproach::none;
}

Mismatch mismatch_of(const Tolerance& tolerance, std::int64_t elements, Reproach reproach, std::int64_t count) {
  Mismatch result;
  result.reproach = reproach;
  result.count = count;
  result.total = elements;
  result.beyond = reproach == Reproach::wrong       ? tolerance.beyond(elements)
                  : reproach == Reproach::untypical ? tolerance.untypical(elements)
                                                    : 0;
  return result;
}

double allowed_by(const Tolerance& tolerance, Reproach reproach, double expected, std::optional<Format> format,
                  std::int64_t flat) {
  if (reproach == Reproach::out) {
    return tolerance.cap;
  }
  if (!format) {
    return 0;
  }
  return reproach == Reproach::untypical
             ? tolerance.ulps * ulp(expected, *format) + tolerance.typical[row_of(tolerance, expected, flat)]
             : allowed(tolerance, expected, *format, flat);
}

std::string Mismatch::text() const {
  std::ostringstream out;
  write_example(out, output, examples.front());
  out << "; ";
  write_count(out, *this);
  return out.str();
}

std::string Mismatch::report() const {
  std::ostringstream out;
  out << "output" << (output.empty() ? "" : " " + output) << ": ";
  write_count(out, *this);
  out.precision(8);
  out << ", the largest difference is " << largest << "\n";
  for (const Example& example : examples) {
    out << "  ";
    write_example(out, output, example);
    out << "\n";
  }
  return out.str();
}

std::string strided_tensors(const Manifest& inputs, const Manifest& state) {
  std::string text;
  for (const auto& [what, manifest] : {std::pair("inputs", &inputs), std::pair("state", &state)}) {
    const std::string note = sandbox::strides_note(*manifest);
    text += note.empty() ? "" : std::string(text.empty() ? "" : "; ") + what + ": " + note;
  }
  return text;
}

std::string text_of(const Mismatch& mismatch, const Manifest& inputs, const Manifest& state) {
  const std::string strided = strided_tensors(inputs, state);
  return mismatch.text() + (strided.empty() ? "" : "; " + strided);
}

}  // namespace khost::judge
