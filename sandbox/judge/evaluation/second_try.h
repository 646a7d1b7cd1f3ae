// One verdict, tried once more where the first try says nothing about the candidate.
#pragma once

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/judge/evaluation/blame.h"

namespace khost::judge {

// `judge` gives a verdict, Result<Json>; `worth_it` says whether a verdict deserves a second one on this target. The
// second stands, and its evidence says why the first failed.
template <class Judge, class WorthIt>
Result<Json> with_second_try(const Judge& judge, const WorthIt& worth_it) {
  Result<Json> verdict = judge();
  if (!verdict || !(worth_it(*verdict) || may_have_been_killed(*verdict))) {
    return verdict;
  }
  const Json first = {
      {"reason", (*verdict)["reason"]}, {"stage", (*verdict)["stage"]}, {"detail", (*verdict)["detail"]}};
  Result<Json> again = judge();
  if (again) {
    (*again)["evidence"]["retried"] = first;
  }
  return again;
}

}  // namespace khost::judge
