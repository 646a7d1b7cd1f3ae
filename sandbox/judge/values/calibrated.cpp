#include "sandbox/judge/values/calibrated.h"

#include <cmath>

namespace khost::judge {
namespace {

constexpr double kPaper = 1e-2, kStrict = 1e-4;

Failure bad(const std::string& what) {
  return {what, "bad_task"};
}

// A number of at least 0; -1 where there is none.
double number_in(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  const bool usable = found != entry.end() && found->is_number();
  const double value = usable ? found->get<double>() : -1;
  return value >= 0 && std::isfinite(value) ? value : -1;
}

Status read_table(const Json& table, double (&rows)[kOctaves]) {
  if (!table.is_array() || table.size() != kOctaves) {
    return bad("the bounds of an output are no table of 256 numbers");
  }
  for (int i = 0; i < kOctaves; i++) {
    const Json& value = table[static_cast<std::size_t>(i)];
    const double bound = value.is_number() ? value.get<double>() : -1;
    if (!(bound >= 0) || !std::isfinite(bound)) {
      return bad("a bound of an output is no number of at least 0");
    }
    rows[i] = bound;
  }
  return ok();
}

// What rows the tables have, and the tables.
Status read_tables(const Json& entry, Tolerance& tolerance) {
  const auto by = entry.find("by"), first = entry.find("first"), step = entry.find("step");
  if (by == entry.end() || (*by != "octave" && *by != "element")) {
    return bad("the rows of an output's table are by octave or by element");
  }
  if (first == entry.end() || step == entry.end() || !first->is_number_integer() || !step->is_number_integer() ||
      first->get<int>() < -2000 || first->get<int>() > 2000 || step->get<int>() < 1 || step->get<int>() > 16) {
    return bad("the rows of an output's table have no exponents: first is within 2000 of 0, step from 1 to 16");
  }
  tolerance.row = *by == "element" ? Tolerance::Row::element : Tolerance::Row::octave;
  tolerance.first = first->get<int>();
  tolerance.step = step->get<int>();
  tolerance.typical_share = number_in(entry, "typical_share");
  if (tolerance.typical_share < 0 || tolerance.typical_share > 1) {
    return bad("the share of an output's elements that may be untypical is no number from 0 to 1");
  }
  if (const auto pole = entry.find("pole"); pole != entry.end() && !pole->is_null()) {
    tolerance.pole = number_in(entry, "pole");
    if (!(tolerance.pole > 0)) {
      return bad("the size from which an output's numbers stand for infinities is neither null nor a number above 0");
    }
  }
  if (Status read = read_table(entry.value("bounds", Json()), tolerance.bounds); !read) {
    return read;
  }
  return tolerance.typical_share < 1 ? read_table(entry.value("typical", Json()), tolerance.typical) : ok();
}

bool flag_in(const Json& answer, const char* key) {
  const auto found = answer.find(key);
  return found != answer.end() && found->is_boolean() && found->get<bool>();
}

// What is known of the elements that a share excuses; both fields may be missing.
Status read_undecided(const Json& entry, Tolerance& tolerance) {
  if (const auto always = entry.find("always"); always != entry.end() && !always->is_null()) {
    if (!always->is_number_unsigned() || always->get<std::uint64_t>() > (std::uint64_t{1} << 40)) {
      return bad("how many of an output's elements lie beyond in every set is no whole number");
    }
    tolerance.always = always->get<std::int64_t>();
  }
  tolerance.at_ends = flag_in(entry, "at_ends");
  if (const auto jumps = entry.find("jumps"); jumps != entry.end() && !jumps->is_null()) {
    tolerance.jumps = number_in(entry, "jumps");
    if (tolerance.jumps < 0) {
      return bad("how many jumps a set of an output has is neither null nor a number of at least 0");
    }
  }
  return ok();
}

Result<Tolerance> read_tolerance(const Json& entry) {
  if (!entry.is_object() || !entry.contains("rule") || !entry["rule"].is_string()) {
    return bad("the bounds of an output have no rule");
  }
  Tolerance tolerance;
  const std::string rule = entry["rule"].get<std::string>();
  tolerance.share = number_in(entry, "share");
  if (!(tolerance.share >= 0 && tolerance.share <= 1)) {
    return bad("the share of an output's elements that may lie beyond their bounds is no number from 0 to 1");
  }
  if (const auto cap = entry.find("cap"); cap == entry.end() || !cap->is_null()) {
    tolerance.cap = number_in(entry, "cap");
    if (tolerance.cap < 0) {
      return bad("how far an output's elements may lie beyond their bounds is neither null nor a number of at least 0");
    }
  }
  if (Status read = read_undecided(entry, tolerance); !read) {
    return read.failure();
  }
  if (rule == "exact") {
    return tolerance;
  }
  tolerance.rule = Tolerance::Rule::table;
  tolerance.ulps = number_in(entry, "ulps");
  tolerance.rtol = number_in(entry, "rtol");
  if (rule != "table" || tolerance.ulps < 0 || tolerance.rtol < 0) {
    return bad("the rule of an output is exact or table, not '" + rule + "', and a table has ulps and rtol");
  }
  const Status read = read_tables(entry, tolerance);
  return read ? Result<Tolerance>(tolerance) : read.failure();
}

Result<std::vector<Tolerance>> read_kind(const Json& entries, std::size_t outputs) {
  if (!entries.is_array() || entries.size() != outputs) {
    return bad("there are not as many bounds as outputs");
  }
  std::vector<Tolerance> result;
  for (const Json& entry : entries) {
    Result<Tolerance> one = read_tolerance(entry);
    if (!one) {
      return one.failure();
    }
    result.push_back(*one);
  }
  return result;
}

std::string text_in(const Json& answer, const char* key) {
  const auto found = answer.find(key);
  return found != answer.end() && found->is_string() ? found->get<std::string>() : "";
}

// Without the tables, which nobody reads in a verdict.
Json summary(const Json& entries, const sandbox::Manifest& outputs) {
  Json result = Json::array();
  for (std::size_t i = 0; i < outputs.tensors.size(); i++) {
    Json one = {{"output", outputs.tensors[i].path}};
    for (const char* key :
         {"rule", "ulps", "k", "precision", "share", "cap", "by", "typical_share", "jumps", "always", "pole"}) {
      if (entries[i].contains(key)) {
        one[key] = entries[i][key];
      }
    }
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace

Result<Calibration> Calibration::parse(const Json& answer, const sandbox::Manifest& outputs) {
  if (!answer.is_object() || !answer.contains("kinds") || !answer["kinds"].is_object() ||
      !answer["kinds"].contains("drawn")) {
    return bad("the task's bounds could not be measured: the reference gave none");
  }
  if (flag_in(answer, "equal_sets")) {
    return Failure{
        "two sets from different seeds are equal although the task draws numbers: it seeds the generator itself, so "
        "that an answer could be replayed",
        "equal_sets"};
  }
  if (const std::string ambiguous = text_in(answer, "ambiguous"); !ambiguous.empty()) {
    return Failure{ambiguous, "ambiguous"};
  }
  Calibration result;
  const Json& kinds = answer["kinds"];
  Result<std::vector<Tolerance>> drawn = read_kind(kinds["drawn"], outputs.tensors.size());
  if (!drawn) {
    return drawn.failure();
  }
  result.tolerances.drawn = std::move(*drawn);
  result.evidence = {{"drawn", summary(kinds["drawn"], outputs)}, {"planted", nullptr}};
  result.given_up = text_in(answer, "planting");
  if (kinds.contains("planted") && kinds["planted"].is_array()) {
    Result<std::vector<Tolerance>> planted = read_kind(kinds["planted"], outputs.tensors.size());
    if (!planted) {
      return planted.failure();
    }
    result.tolerances.planted = std::move(*planted);
    result.evidence["planted"] = summary(kinds["planted"], outputs);
  } else if (result.given_up.empty()) {
    result.given_up = "the reference did not say why";
  }
  result.planted_kinds = answer.value("planted_kinds", Json::array());
  result.constant = flag_in(answer, "constant");
  result.uninformative = text_in(answer, "uninformative");
  result.oracle_error = text_in(answer, "oracle_error");
  return result;
}

Result<Tolerances> tolerances(const std::string& name, const Calibration& calibration, std::size_t outputs) {
  if (name == "calibrated") {
    return calibration.tolerances;
  }
  if (name != "paper" && name != "strict") {
    return Failure{"tolerance is paper, strict or calibrated, not '" + name + "'", "bad_input"};
  }
  const double flat = name == "paper" ? kPaper : kStrict;
  const std::vector<Tolerance> all(outputs, Tolerance::flat(flat, flat));
  return Tolerances{all, calibration.plants() ? all : std::vector<Tolerance>()};
}

Status tells_apart(const std::string& name, const Calibration& calibration) {
  return name == "calibrated" && !calibration.uninformative.empty()
             ? Status(Failure{calibration.uninformative, "trivial"})
             : ok();
}

void describe(const std::string& name, const Calibration& calibration, Json& evidence) {
  evidence["tolerance"] = name;
  evidence["inputs"] = calibration.constant ? "constant" : calibration.plants() ? "drawn and planted" : "drawn";
  if (name == "calibrated") {
    evidence["bounds"] = calibration.evidence;
  }
  if (!calibration.plants()) {
    evidence["planting"] = calibration.given_up;
  }
  if (!calibration.oracle_error.empty()) {
    evidence["oracle_error"] = calibration.oracle_error;
  }
}

}  // namespace khost::judge
