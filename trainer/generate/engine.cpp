#include "trainer/generate/engine.h"

#include <algorithm>
#include <chrono>

#include "host/base/lease.h"
#include "trainer/accelerator.h"
#include "trainer/generate/decode.h"
#include "trainer/generate/device_decoder.h"
#include "trainer/generate/engine_slot.h"

namespace khost::trainer {
namespace {

// Sharing less than this is not worth waiting for another request's prompt.
constexpr int64_t kWorthWaiting = 16;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b, int64_t limit) {
  const auto end = a.begin() + std::min(limit, static_cast<int64_t>(a.size()));
  return std::mismatch(a.begin(), end, b.begin(), b.end()).first - a.begin();
}

}  // namespace

Engine::Engine(std::shared_ptr<Network> network, std::shared_ptr<const Tokenizer> tokenizer,
               const EngineOptions& options)
    : network_(std::move(network)),
      tokenizer_(std::move(tokenizer)),
      options_(options),
      mask_(make_token_mask(tokenizer_.get(), network_->weights.config.vocabulary)),
      slots_(static_cast<size_t>(options.slots)) {
  const ModelConfig& config = network_->weights.config;
  const int64_t positions = options.positions > 0 ? std::min(options.positions, config.positions) : config.positions;
  positions_ = positions;
  if (!network_->weights.on_device()) {
    cache_ = std::make_unique<KvCache>(config, options.slots, positions);
  }
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

uint64_t Engine::submit(std::vector<int32_t> prompt, GenerateOptions options, Done done) {
  const std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  queue_.push_back({id, std::move(prompt), std::move(options), std::move(done)});
  ++stats_.requests;
  wake_.notify_all();
  return id;
}

void Engine::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
  wake_.notify_all();
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// Answers are given outside the lock: a callback may submit again.
void Engine::run() {
  std::optional<Lease> lease;
  if (!options_.lease_path.empty()) {
    if (Result<Lease> opened = Lease::open(options_.lease_path); opened) {
      lease.emplace(std::move(opened).value());
    }
  }
  const auto busy = [this] { return std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.busy; }); };
  while (true) {
    std::vector<Answer> answers;
    {
      std::unique_lock lock(mutex_);
      if (!busy() && queue_.empty()) {
        wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      }
      if (stopping_) {
        break;
      }
      take_cancelled(answers);
      admit();
      if (!busy() && !queue_.empty() && answers.empty()) {
        wake_.wait_for(lock, std::chrono::milliseconds(1));  // somebody writes the weights
      }
    }
    if (busy()) {
      std::optional<Lease::Guard> guard;
      if (lease) {
        guard.emplace(lease->acquire(Lease::Mode::shared));
      }
      network_->weights.on_device() ? step_on_device(answers) : step(answers);
    }
    for (Answer& answer : answers) {
      answer.done(std::move(answer.result));
    }
  }
  std::vector<Answer> answers;
  const Failure gone{"the policy was closed", "gone"};
  for (Slot& slot : slots_) {
    if (slot.busy) {
      finish(slot, gone, answers);
    }
  }
  for (Request& request : queue_) {
    answers.push_back({std::move(request.done), gone});
  }
  for (Answer& answer : answers) {
    answer.done(std::move(answer.result));
  }
}

void Engine::take_cancelled(std::vector<Answer>& answers) {
  for (const uint64_t id : cancelled_) {
    const Failure failure{"generation was cancelled", "cancelled"};
    for (Slot& slot : slots_) {
      if (slot.busy && slot.request.id == id) {
        finish(slot, failure, answers);
      }
    }
    const auto queued = std::find_if(queue_.begin(), queue_.end(), [&](const Request& r) { return r.id == id; });
    if (queued != queue_.end()) {
      answers.push_back({std::move(queued->done), failure});
      queue_.erase(queued);
    }
  }
  cancelled_.clear();
}

// First come, first placed, except that a request may wait for a neighbour's prompt that it shares.
void Engine::admit() {
  for (auto request = queue_.begin(); request != queue_.end();) {
    if (std::all_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.busy; })) {
      return;
    }
    if (!network_->gate.try_read()) {
      return;
    }
    if (place(*request) == Admission::placed) {
      request = queue_.erase(request);
    } else {
      network_->gate.end_read();
      ++request;
    }
  }
}

Engine::Admission Engine::place(Request& request) {
  const int64_t limit = static_cast<int64_t>(request.prompt.size()) - 1;  // the last token is always read anew
  Slot* source = nullptr;
  Slot* oldest = nullptr;
  int64_t shared = 0;
  int64_t promised = 0;
  for (Slot& slot : slots_) {
    if (!slot.busy && (oldest == nullptr || slot.last_used < oldest->last_used)) {
      oldest = &slot;
    }
    if (slot.version != network_->version) {
      continue;
    }
    const int64_t common = common_prefix(slot.tokens, request.prompt, limit);
    const int64_t ready = std::min(common, slot.computed);
    promised = std::max(promised, slot.busy ? common : 0);
    if (ready > shared) {
      shared = ready;
      source = &slot;
    }
  }
  if (promised >= shared + kWorthWaiting) {
    return Admission::wait;
  }
  // A free slot that the prompt continues is taken as it is; otherwise the oldest free one, with a copy.
  Slot* target = oldest;
  if (source != nullptr && !source->busy && shared + kWorthWaiting >= source->computed) {
    target = source;
  } else if (source != nullptr && source != target) {
    copy_prefix(source - slots_.data(), target - slots_.data(), shared);
  }
  target->busy = true;
  target->tokens = request.prompt;
  target->computed = shared;
  target->version = network_->version;
  target->random = {request.options.seed};
  target->completion = {};
  target->text.clear();
  target->launched = 0;
  target->completion.version = network_->version;
  target->request = std::move(request);
  stats_.reused_tokens += static_cast<uint64_t>(shared);
  return Admission::placed;
}

void Engine::finish(Slot& slot, Result<Completion> result, std::vector<Answer>& answers) {
  slot.busy = false;
  slot.last_used = ++clock_;
  slot.computed = std::min(slot.computed, static_cast<int64_t>(slot.tokens.size()));
  slot.tokens.resize(static_cast<size_t>(slot.computed));  // the last token drawn was never read
  network_->gate.end_read();
  answers.push_back({std::move(slot.request.done), std::move(result)});
}

std::optional<Failure> Engine::refuse(const Request& request) const {
  const int64_t vocabulary = network_->weights.config.vocabulary;
  const auto legal = [&](int32_t token) { return token >= 0 && token < vocabulary; };
  if (request.prompt.empty()) {
    return Failure{"generate: the prompt is empty", "bad_input"};
  }
  if (!std::all_of(request.prompt.begin(), request.prompt.end(), legal)) {
    return Failure{"generate: the prompt holds a token outside the vocabulary", "bad_input"};
  }
  if (request.options.max_tokens < 1) {
    return Failure{"generate: max_tokens must be at least 1", "bad_input"};
  }
  const GenerateOptions& options = request.options;
  if (!(options.top_p > 0) || options.top_p > 1 || options.top_k < 0) {
    return Failure{"generate: top_p must be above 0 and at most 1, top_k at least 0", "bad_input"};
  }
  if (!options.stop_texts.empty() && !tokenizer_) {
    return Failure{"generate: stop texts need a tokenizer", "bad_input"};
  }
  if (static_cast<int64_t>(request.prompt.size()) >= positions_) {
    return Failure{"generate: the prompt has " + std::to_string(request.prompt.size()) + " tokens, at most " +
                       std::to_string(positions_ - 1) + " fit",
                   "limit"};
  }
  return std::nullopt;
}

void Engine::step(std::vector<Answer>& answers) {
  const double started = now_s();
  std::vector<StepToken> tokens;
  std::vector<int64_t> last_rows;
  std::vector<Slot*> drawing;
  std::vector<Draw> draws;
  int64_t budget = options_.prompt_tokens;
  uint64_t prompt_tokens = 0;
  for (Slot& slot : slots_) {
    if (!slot.busy) {
      continue;
    }
    if (slot.completion.tokens.empty()) {
      if (const std::optional<Failure> failure = refuse(slot.request)) {
        slot.computed = 0;
        finish(slot, *failure, answers);
        continue;
      }
    }
    const bool reading = slot.completion.tokens.empty();
    const int64_t count = reading ? std::min(slot.pending(), budget) : slot.pending();
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back({slot.tokens[static_cast<size_t>(slot.computed + i)], &slot - slots_.data(), slot.computed + i});
    }
    slot.computed += count;
    if (reading) {
      budget -= count;
      prompt_tokens += static_cast<uint64_t>(count);
    }
    if (count > 0 && slot.pending() == 0) {
      last_rows.push_back(static_cast<int64_t>(tokens.size()) - 1);
      drawing.push_back(&slot);
      const GenerateOptions& options = slot.request.options;
      draws.push_back({options.temperature, &slot.random, options.top_k, options.top_p});
    }
  }
  if (tokens.empty()) {
    return;
  }
  const at::NoGradGuard no_grad;
  const Weights& w = weights();
  at::Tensor hidden_NC = decode(w, *cache_, tokens);
  if (last_rows.size() < tokens.size()) {
    hidden_NC =
        hidden_NC.index_select(0, at::from_blob(last_rows.data(), {static_cast<int64_t>(last_rows.size())}, at::kLong));
  }
  const std::vector<Drawn> drawn = drawing.empty() ? std::vector<Drawn>() : sample(w, hidden_NC, draws, mask_);
  for (size_t i = 0; i < drawing.size(); ++i) {
    if (take(*drawing[i], drawn[i])) {
      finish(*drawing[i], std::move(drawing[i]->completion), answers);
    }
  }
  const std::lock_guard lock(mutex_);
  ++stats_.steps;
  stats_.drawn_tokens += drawn.size();
  stats_.prompt_tokens += prompt_tokens;
  stats_.busy_s += now_s() - started;
}

// Adds a drawn token to its sequence. True when that ends it.
bool Engine::take(Slot& slot, const Drawn& drawn) {
  const GenerateOptions& options = slot.request.options;
  Completion& completion = slot.completion;
  slot.tokens.push_back(drawn.token);
  completion.tokens.push_back(drawn.token);
  completion.logprobs.push_back(drawn.logp);
  bool stop = std::find(options.stop.begin(), options.stop.end(), drawn.token) != options.stop.end();
  if (!options.stop_texts.empty()) {
    const size_t before = slot.text.size();
    slot.text += tokenizer_->decode({drawn.token}, Special::plain);
    for (const std::string& text : options.stop_texts) {
      // A stop text that is complete now ends within the new bytes.
      const size_t found = slot.text.find(text, before >= text.size() ? before - text.size() + 1 : 0);
      if (!text.empty() && found != std::string::npos) {
        const auto bytes = static_cast<int64_t>(found);
        completion.text_bytes = completion.text_bytes < 0 ? bytes : std::min(completion.text_bytes, bytes);
        stop = true;
      }
    }
  }
  const bool full = static_cast<int64_t>(completion.tokens.size()) >= options.max_tokens ||
                    static_cast<int64_t>(slot.tokens.size()) >= positions_;
  completion.finish = stop ? "stop" : "length";
  return stop || full;
}

// Called while a request in flight holds the weights back from changing.
const Weights& Engine::weights() {
  if (options_.dtype != "bf16" || network_->weights.compute == ComputeType::bf16) {
    return network_->weights;
  }
  if (!rounded_ || rounded_version_ != network_->version) {
    if (rounded_) {
      round_half(network_->weights, *rounded_);  // in place: recorded steps of a device point at it
    } else {
      rounded_ = make_half(network_->weights);
    }
    if (rounded_->on_device()) {
      accelerator().finish();  // the decoder reads on a stream of its own
    }
    rounded_version_ = network_->version;
  }
  return *rounded_;
}

}  // namespace khost::trainer
