#include "sandbox/judge/verdict/words.h"

#include <array>

namespace khost::judge {
namespace {

using Mask = std::uint32_t;

template <class E>
constexpr Mask bit(E value) {
  return Mask{1} << static_cast<unsigned>(value);
}

// The words of reasons.def.
constexpr Mask WRONG = bit(Outcome::wrong), BUILD_FAILED = bit(Outcome::build_failed), CRASH = bit(Outcome::crash),
               TIMEOUT = bit(Outcome::timeout), OOM = bit(Outcome::oom), VIOLATION = bit(Outcome::violation),
               SUSPECT = bit(Outcome::suspect), BAD_TASK = bit(Outcome::bad_task),
               UNINFORMATIVE = bit(Outcome::uninformative), VOID = bit(Outcome::void_);
constexpr Mask BUILD = bit(Stage::build), PLAN = bit(Stage::plan), TIME = bit(Stage::time);
constexpr Mask RUNNING = bit(Stage::verify) | TIME | bit(Stage::profile);
constexpr Mask ANY = bit(Stage::task) | BUILD | PLAN | RUNNING;

struct StatusRow {
  std::string_view word;
  Fault fault;
  Counts counts;
  int exit_code;
  std::string_view sentence;
};

struct ReasonRow {
  std::string_view word;
  Mask statuses, stages;
  std::string_view sentence;
};

constexpr std::array kStatuses{
#define KHOST_STATUS(name, word, fault, counts, exit_code, sentence) \
  StatusRow{word, Fault::fault, Counts::counts, exit_code, sentence},
#define KHOST_REASON(word, statuses, stages, sentence)
#include "sandbox/judge/verdict/reasons.def"
#undef KHOST_STATUS
#undef KHOST_REASON
};

constexpr std::array kReasons{
    ReasonRow{"", bit(Outcome::ok), ANY, ""},
#define KHOST_STATUS(name, word, fault, counts, exit_code, sentence)
#define KHOST_REASON(word, statuses, stages, sentence) ReasonRow{#word, statuses, stages, sentence},
#include "sandbox/judge/verdict/reasons.def"
#undef KHOST_STATUS
#undef KHOST_REASON
};

constexpr std::array<std::string_view, 6> kStages{"task", "build", "plan", "verify", "time", "profile"};
constexpr std::array<std::string_view, 4> kFaults{"nobody", "candidate", "task", "host"};
constexpr std::array<std::string_view, 3> kCounts{"passed", "failed", "not_counted"};
constexpr std::array<std::string_view, 3> kSpeeds{"none", "measured", "unresolved"};
constexpr std::array<std::string_view, 5> kSpeedReasons{"", "short_baseline", "no_baseline", "disturbed",
                                                        "constant_task"};

template <class E>
constexpr std::size_t at(E value) {
  return static_cast<std::size_t>(value);
}

template <class E>
std::vector<E> values(std::size_t first, std::size_t end) {
  std::vector<E> result;
  for (std::size_t i = first; i < end; i++) {
    result.push_back(static_cast<E>(i));
  }
  return result;
}

template <class E, class Rows>
std::optional<E> find(const Rows& rows, std::string_view word) {
  for (std::size_t i = 0; i < rows.size(); i++) {
    if (!word.empty() && rows[i].word == word) {
      return static_cast<E>(i);
    }
  }
  return std::nullopt;
}

template <class E>
Json words_in(Mask mask, const std::vector<E>& all) {
  Json result = Json::array();
  for (const E value : all) {
    if ((mask & bit(value)) != 0) {
      result.push_back(word_of(value));
    }
  }
  return result;
}

}  // namespace

std::string_view word_of(Outcome status) {
  return kStatuses[at(status)].word;
}
std::string_view word_of(Stage stage) {
  return kStages[at(stage)];
}
std::string_view word_of(Reason reason) {
  return kReasons[at(reason)].word;
}
std::string_view word_of(Fault fault) {
  return kFaults[at(fault)];
}
std::string_view word_of(Counts counts) {
  return kCounts[at(counts)];
}
std::string_view word_of(Speed speed) {
  return kSpeeds[at(speed)];
}
std::string_view word_of(SpeedReason reason) {
  return kSpeedReasons[at(reason)];
}

std::optional<Outcome> status_of(std::string_view word) {
  return find<Outcome>(kStatuses, word);
}
std::optional<Reason> reason_of(std::string_view word) {
  return find<Reason>(kReasons, word);
}

Fault fault_of(Outcome status) {
  return kStatuses[at(status)].fault;
}
Counts counts_of(Outcome status) {
  return kStatuses[at(status)].counts;
}
int exit_code_of(Outcome status) {
  return kStatuses[at(status)].exit_code;
}
std::string_view sentence_of(Reason reason) {
  return kReasons[at(reason)].sentence;
}

bool allowed(Outcome status, Stage stage, Reason reason) {
  const ReasonRow& row = kReasons[at(reason)];
  return (row.statuses & bit(status)) != 0 && (row.stages & bit(stage)) != 0;
}

const std::vector<Outcome>& all_statuses() {
  static const std::vector<Outcome> all = values<Outcome>(0, kStatuses.size());
  return all;
}
const std::vector<Stage>& all_stages() {
  static const std::vector<Stage> all = values<Stage>(0, kStages.size());
  return all;
}
const std::vector<Reason>& all_reasons() {
  static const std::vector<Reason> all = values<Reason>(1, kReasons.size());
  return all;
}

Json statuses_to_json() {
  Json result = Json::array();
  for (const StatusRow& row : kStatuses) {
    result.push_back({{"word", row.word},
                      {"fault", word_of(row.fault)},
                      {"counts", word_of(row.counts)},
                      {"scored", row.counts != Counts::not_counted},
                      {"exit_code", row.exit_code},
                      {"sentence", row.sentence}});
  }
  return result;
}

Json reasons_to_json() {
  Json result = Json::array();
  for (const Reason reason : all_reasons()) {
    const ReasonRow& row = kReasons[at(reason)];
    result.push_back({{"word", row.word},
                      {"statuses", words_in(row.statuses, all_statuses())},
                      {"stages", words_in(row.stages, all_stages())},
                      {"sentence", row.sentence}});
  }
  return result;
}

}  // namespace khost::judge
