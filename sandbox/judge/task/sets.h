// The sets that a verdict rests on - inputs, live state and what the reference returned for them - and the order in
// which a candidate meets them.
//
// Sets are of two kinds. Drawn ones are as the task draws them; planted ones hold outliers among drawn numbers, so that
// an answer must be right there too. Each kind has bounds of its own (tolerance.h). A candidate is verified on both, in
// secret order. Its time is that of drawn sets; among the calls that are timed, planted sets stand at places that are
// drawn anew for each block, and are checked like the others, but their windows do not count. So a process that counts
// its calls cannot know on which of them it may be wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sandbox/judge/task/region.h"

namespace khost::judge {

inline constexpr std::size_t kVerificationSets = 5, kPlantedVerification = 2;
inline constexpr std::size_t kTimedSets = 20, kPlantedTimed = 4;  // these beside those
// Of the sets that an agent may learn of; what it is told about time rests on the drawn ones of both.
inline constexpr std::size_t kVisibleVerified = 3, kPlantedVisible = 1, kVisibleTimed = 3;
// Of each verdict alone, where others have met the batch (evaluation_unseen.cpp).
inline constexpr std::size_t kUnseenVerified = 1, kUnseenTimed = 3;
inline constexpr std::size_t kFewestSets = 7;  // with which a task can be judged

// Memory of a set that is no Region: a GPU's. The zygote's child gets the descriptor.
struct SetMemory {
  std::shared_ptr<void> owner;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  int fd = -1;
  std::function<void()> close_file = {};  // the memory stays
};

// In one region of the judge: inputs, state, outputs.
struct Set {
  Region region;
  std::uint64_t seed = 0;
  bool planted = false;
  SetMemory device = {};  // instead of the region, for target cuda
};

struct Batch {
  std::vector<Set> sets;     // those for verification first
  std::size_t verified = 0;  // so many are for verification
  int uses = 0;
  std::set<std::string> seen;  // artefacts that were judged on it

  bool timed() const { return sets.size() > verified; }  // whether a candidate can be timed on it
  // Places of drawn sets, of verification and timing: what baselines are timed on.
  std::vector<std::size_t> drawn() const;
};

// Whom a batch is for: a verdict with times, one without, or an agent. Most tasks of a training are never timed, and
// the sets of verification are a fifth of all.
enum class Audience { verdict, verification, agent };

// Which sets of a batch are planted, those for verification first, each part in secret order.
struct Kinds {
  std::vector<bool> planted;
  std::size_t verified = 0;
};

// `affordable`: for how many sets there is memory, at least kFewestSets. With less memory than for all there are fewer
// timed sets, and with the least one less for verification.
Kinds kinds_of_sets(Audience audience, std::size_t affordable, bool planting);

// How many sets that is when memory is no matter.
std::size_t wanted_sets(Audience audience, bool planting);

// The sets of one block of timed calls, as places in the batch: `drawn` timed sets that are drawn, or all of them when
// it is 0, beginning with number `first` and going round; and among them, at secret places, their share of planted
// ones.
std::vector<std::size_t> timed_order(const Batch& batch, std::size_t first, std::size_t drawn);

// So many of the places, from number `first` on and round and round.
std::vector<std::size_t> around(const std::vector<std::size_t>& places, std::size_t first, std::size_t count);

std::uint64_t secret_number();  // 62 bits of getrandom(2)

}  // namespace khost::judge
