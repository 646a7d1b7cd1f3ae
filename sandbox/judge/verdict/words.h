// The words of a verdict: closed sets, made of reasons.def. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/json.h"

namespace khost::judge {

enum class Outcome : std::uint8_t {
#define KHOST_STATUS(name, word, fault, counts, exit_code, sentence) name,
#define KHOST_REASON(word, statuses, stages, sentence)
#include "sandbox/judge/verdict/reasons.def"
#undef KHOST_STATUS
#undef KHOST_REASON
};

enum class Stage : std::uint8_t { task, build, plan, verify, time, profile };  // profile: of an agent's question alone

enum class Reason : std::uint8_t {
  none,  // of status ok
#define KHOST_STATUS(name, word, fault, counts, exit_code, sentence)
#define KHOST_REASON(word, statuses, stages, sentence) word,
#include "sandbox/judge/verdict/reasons.def"
#undef KHOST_STATUS
#undef KHOST_REASON
};

enum class Fault : std::uint8_t { nobody, candidate, task, host };
// What a verdict is in a rate or a reward; what is not counted pays nothing and stands in no denominator.
enum class Counts : std::uint8_t { passed, failed, not_counted };

enum class Speed : std::uint8_t { none, measured, unresolved };  // none: not asked, or the candidate failed
enum class SpeedReason : std::uint8_t {
  none,
  short_baseline,  // a baseline is shorter than what the clock's slack lets be compared
  no_baseline,     // no baseline could be measured
  disturbed,       // others had the subject's cores while the candidate or a baseline was timed, again and again
  constant_task,   // inputs and state contain nothing random, or few values, so an answer can be replayed
};

std::string_view word_of(Outcome status);
std::string_view word_of(Stage stage);
std::string_view word_of(Reason reason);  // "" for none
std::string_view word_of(Fault fault);
std::string_view word_of(Counts counts);
std::string_view word_of(Speed speed);
std::string_view word_of(SpeedReason reason);  // "" for none
// Nothing for a word of no row.
std::optional<Outcome> status_of(std::string_view word);
std::optional<Reason> reason_of(std::string_view word);

Fault fault_of(Outcome status);
Counts counts_of(Outcome status);
int exit_code_of(Outcome status);
std::string_view sentence_of(Reason reason);

// Whether the table allows the three together; `none` goes with ok alone.
bool allowed(Outcome status, Stage stage, Reason reason);

const std::vector<Outcome>& all_statuses();
const std::vector<Stage>& all_stages();
const std::vector<Reason>& all_reasons();  // without none

// [{word, fault, counts, scored, exit_code, sentence}]
Json statuses_to_json();
// [{word, statuses: [word], stages: [word], sentence}]
Json reasons_to_json();

}  // namespace khost::judge
