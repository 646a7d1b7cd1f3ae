#include "host/store/verdict_row.h"

#include "host/store/schema.h"
#include "sandbox/judge/verdict/words.h"

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

std::string verdicts_view_sql() {
  // Statuses that have been renamed since the first stores were written.
  const std::string status = "CASE status WHEN 'policy' THEN 'violation' ELSE status END";
  std::string counts = "CASE " + status;
  for (const judge::Outcome one : judge::all_statuses()) {
    counts +=
        " WHEN '" + std::string(judge::word_of(one)) + "' THEN '" + std::string(judge::word_of(counts_of(one))) + "'";
  }
  counts += " END";
  std::string sql = "CREATE TEMP VIEW verdicts AS SELECT id";
  const Kind& kind = **find_kind("verdicts");
  for (const Column& column : kind.columns) {
    const std::string& name = column.name;
    const bool of_speed = name.rfind("faster_", 0) == 0;
    sql += ", ";
    sql += name == "status"    ? status + " AS status"
           : name == "correct" ? "(" + counts + ") = 'passed' AS correct"
           : of_speed
               ? "CASE WHEN " + name + " IS NOT NULL THEN (" + counts + ") = 'passed' AND " + name + " END AS " + name
               : name;
  }
  return sql + ", (" + counts + ") AS counts, data, created_s FROM main.verdicts;";
}

}  // namespace khost
