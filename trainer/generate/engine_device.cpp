// Engine: steps on a device. The next step is launched before the tokens of the last one are looked at, so that the
// device never waits for the host; a sequence that turns out to have ended takes part in one step too many, whose token
// is dropped. Where a lease is held around steps each one is waited for, since work that runs on would escape it.
#include <algorithm>
#include <chrono>

#include "trainer/accelerator.h"
#include "trainer/generate/engine_slot.h"
#include "trainer/generate/kv_cache.h"

namespace khost::trainer {
namespace {

constexpr int64_t kPromptTokens = 16384;  // read in one step: a device is idle with less

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Engine::copy_prefix(int64_t from, int64_t to, int64_t length) {
  if (cache_) {
    cache_->copy_prefix(from, to, length);
  } else if (device_) {
    device_->copy_prefix(from, to, length);
  }
}

void Engine::step_on_device(std::vector<Answer>& answers) {
  const double started = now_s();
  try {
    for (Slot& slot : slots_) {
      if (!slot.busy || slot.launched > 0) {
        continue;
      }
      if (const std::optional<Failure> failure = refuse(slot.request)) {
        slot.computed = 0;
        finish(slot, *failure, answers);
      }
    }
    const bool more = launch();
    const size_t behind = more && options_.lease_path.empty() ? 1 : 0;
    while (launched_.size() > behind) {
      collect(answers);
    }
  } catch (const std::exception& error) {
    launched_.clear();
    device_.reset();  // whatever it holds is not to be trusted
    for (Slot& slot : slots_) {
      slot.computed = 0;
      if (slot.busy) {
        finish(slot, Failure{error.what(), "host"}, answers);
      } else {
        slot.tokens.clear();
      }
    }
  }
  const std::lock_guard lock(mutex_);
  stats_.busy_s += now_s() - started;
}

// False when there was nothing to do.
bool Engine::launch() {
  std::vector<StepToken> tokens;
  std::vector<SlotDraw> first;
  std::vector<int64_t> advancing;
  std::vector<Member> members;
  int64_t budget = std::max(options_.prompt_tokens, kPromptTokens);
  for (Slot& slot : slots_) {
    if (!slot.busy) {
      continue;
    }
    const int64_t index = &slot - slots_.data();
    const GenerateOptions& options = slot.request.options;
    if (slot.launched > 0) {
      const auto prompt = static_cast<int64_t>(slot.request.prompt.size());
      if (slot.launched < options.max_tokens && prompt + slot.launched < positions_) {
        advancing.push_back(index);
        members.push_back({index, slot.request.id});
        ++slot.computed;
        ++slot.launched;
      }
      continue;
    }
    const int64_t count = std::min(slot.pending(), budget);
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back({slot.tokens[static_cast<size_t>(slot.computed + i)], index, slot.computed + i});
    }
    slot.computed += count;
    budget -= count;
    if (count > 0 && slot.pending() == 0) {
      first.push_back({index, options.seed, options.temperature, options.top_k, options.top_p});
      members.push_back({index, slot.request.id});
      slot.launched = 1;
    }
  }
  if (tokens.empty() && advancing.empty()) {
    return false;
  }
  const Weights& w = weights();
  if (!device_) {
    device_ = accelerator().decoder(w, options_.slots, positions_, mask_);
    device_version_ = network_->version;
  }
  if (device_version_ != network_->version) {
    device_->refresh();
    device_version_ = network_->version;
  }
  if (!tokens.empty()) {
    device_->read(tokens, first);
  }
  device_->advance(advancing);
  device_->mark();
  const std::lock_guard lock(mutex_);
  ++stats_.steps;
  stats_.drawn_tokens += members.size();
  stats_.prompt_tokens += tokens.size();
  launched_.push_back(std::move(members));
  return true;
}

void Engine::collect(std::vector<Answer>& answers) {
  const std::vector<SlotDrawn>& drawn = device_->collect();
  for (const Member& member : launched_.front()) {
    Slot& slot = slots_[static_cast<size_t>(member.slot)];
    if (!slot.busy || slot.request.id != member.request) {
      continue;
    }
    const SlotDrawn& token = drawn[static_cast<size_t>(member.slot)];
    if (take(slot, {token.token, token.logp})) {
      finish(slot, std::move(slot.completion), answers);
    }
  }
  launched_.pop_front();
}

}  // namespace khost::trainer
