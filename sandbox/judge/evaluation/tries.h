// One verdict, tried again where a try says nothing about the candidate.
#pragma once

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/judge/evaluation/blame.h"

namespace khost::judge {

// Of a verdict that looks as if a process had been killed. Two kills in a row were seen where processes were killed
// every four seconds on a machine with more work than cores; a candidate that ends so by itself ends so each time.
inline constexpr int kMostTries = 3;

// `judge` gives a verdict, Result<Json>; `worth_it` says whether a verdict of the first try deserves a second one on
// this target. The last stands, and its evidence says why the one before failed.
template <class Judge, class WorthIt>
Result<Json> with_more_tries(const Judge& judge, const WorthIt& worth_it) {
  Result<Json> verdict = judge();
  for (int tries = 1; tries < kMostTries && verdict; tries++) {
    if (!may_have_been_killed(*verdict) && (tries > 1 || !worth_it(*verdict))) {
      break;
    }
    const Json before = {
        {"reason", (*verdict)["reason"]}, {"stage", (*verdict)["stage"]}, {"detail", (*verdict)["detail"]}};
    verdict = judge();
    if (verdict) {
      (*verdict)["evidence"]["retried"] = before;
    }
  }
  return verdict;
}

}  // namespace khost::judge
