#include "host/store/verdict_row.h"

namespace khost {

namespace {

// What a verdict's row has from the trajectory or the caller, not from the judge.
const char* const kOuter[] = {"stage", "step", "task", "policy", "reward", "scheme", "script_hash"};

Json row_of(const Json& verdict) {
  Json row = verdict;
  if (row.contains("stage")) {
    row["judge_stage"] = row["stage"];
    row.erase("stage");
  }
  return row;
}

}  // namespace

Json flatten_verdict(const Json& record) {
  if (!record.contains("verdict") || !record["verdict"].is_object()) {
    return record;
  }
  Json row = row_of(record["verdict"]);
  for (const auto& [key, value] : record.items()) {
    if (key != "verdict") {
      row[key] = value;
    }
  }
  return row;
}

Json verdict_of_trajectory(const Json& verdict, const Json& trajectory) {
  Json row = row_of(verdict);
  for (const char* key : kOuter) {
    if (trajectory.contains(key)) {
      row[key] = trajectory[key];
    }
  }
  return row;
}

Json nested_verdict(Json row) {
  for (const char* key : kOuter) {
    row.erase(key);
  }
  row.erase("trajectory");
  if (row.contains("judge_stage")) {
    row["stage"] = row["judge_stage"];
    row.erase("judge_stage");
  }
  return row;
}

}  // namespace khost
