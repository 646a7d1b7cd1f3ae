#include "sandbox/judge/task/sets.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

namespace khost::judge {
namespace {

template <class T>
void shuffle(std::vector<T>& values, std::size_t from, std::size_t to) {
  for (std::size_t i = to; i > from + 1; i--) {
    const std::size_t other = from + secret_number() % (i - from);
    const T kept = values[i - 1];
    values[i - 1] = values[other];
    values[other] = kept;
  }
}

}  // namespace

std::uint64_t secret_number() {
  std::uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value >> 2;
}

std::vector<std::size_t> Batch::drawn() const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < sets.size(); i++) {
    if (!sets[i].planted) {
      result.push_back(i);
    }
  }
  return result;
}

std::size_t wanted_sets(Audience audience, bool planting) {
  switch (audience) {
    case Audience::agent:
      return kVisibleVerified + kVisibleTimed;
    case Audience::verification:
      return kVerificationSets;
    case Audience::verdict:
      break;
  }
  return kVerificationSets + kTimedSets + (planting ? kPlantedTimed : 0);
}

Kinds kinds_of_sets(Audience audience, std::size_t affordable, bool planting) {
  if (audience == Audience::verification) {
    Kinds kinds = kinds_of_sets(Audience::verdict, affordable, planting);
    kinds.planted.resize(kinds.verified);
    return kinds;
  }
  const bool secret = audience == Audience::verdict;
  const std::size_t count = std::min(affordable, wanted_sets(audience, planting));
  Kinds kinds;
  kinds.verified = !secret ? kVisibleVerified : kVerificationSets - (planting && count == kFewestSets ? 1 : 0);
  kinds.planted.assign(count, false);
  if (planting) {
    const std::size_t verified = secret ? kPlantedVerification : kPlantedVisible;
    std::fill_n(kinds.planted.begin(), verified, true);
    // An agent's timed sets are drawn ones: its times rest on few sets.
    const std::size_t timed = count - kinds.verified;
    const std::size_t planted =
        secret ? std::max<std::size_t>(1, timed * kPlantedTimed / (kTimedSets + kPlantedTimed)) : 0;
    std::fill_n(kinds.planted.begin() + static_cast<std::ptrdiff_t>(kinds.verified), planted, true);
  }
  shuffle(kinds.planted, 0, kinds.verified);
  shuffle(kinds.planted, kinds.verified, count);
  return kinds;
}

std::vector<std::size_t> around(const std::vector<std::size_t>& places, std::size_t first, std::size_t count) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < count && !places.empty(); i++) {
    result.push_back(places[(first + i) % places.size()]);
  }
  return result;
}

std::vector<std::size_t> timed_order(const Batch& batch, std::size_t first, std::size_t drawn) {
  std::vector<std::size_t> plain, planted;
  for (std::size_t i = batch.verified; i < batch.sets.size(); i++) {
    (batch.sets[i].planted ? planted : plain).push_back(i);
  }
  if (plain.empty()) {
    return {};
  }
  const std::size_t wanted = drawn > 0 ? std::min(drawn, plain.size()) : plain.size();
  const std::size_t rounded = (2 * planted.size() * wanted + plain.size()) / (2 * plain.size());
  const std::size_t beside = planted.empty() ? 0 : std::clamp<std::size_t>(rounded, 1, planted.size());
  shuffle(planted, 0, planted.size());
  std::vector<bool> is_planted(wanted + beside, false);
  std::fill_n(is_planted.begin(), beside, true);
  shuffle(is_planted, 0, is_planted.size());
  const std::vector<std::size_t> timed = around(plain, first, wanted);
  std::vector<std::size_t> order;
  std::size_t next_timed = 0, next_planted = 0;
  for (const bool here : is_planted) {
    order.push_back(here ? planted[next_planted++] : timed[next_timed++]);
  }
  return order;
}

}  // namespace khost::judge
