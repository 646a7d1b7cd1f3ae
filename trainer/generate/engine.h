// Draws sequences for many requests at once. One thread of its own runs steps over all slots; requests join and leave
// between steps (continuous batching). A finished slot keeps its cache, and a prompt that begins with what some slot
// holds reuses it: the next turn of an episode, and the members of a group after the first, read only what is new.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host/base/result.h"
#include "trainer/generate/sampler.h"
#include "trainer/network.h"
#include "trainer/policy.h"

namespace khost::trainer {

class DeviceDecoder;
class KvCache;

class Engine {
 public:
  using Done = std::function<void(Result<Completion>)>;

  // `tokenizer` may be null; requests with stop texts are refused then.
  Engine(std::shared_ptr<Network> network, std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options);
  ~Engine();  // answers everything in flight with code gone

  // Any thread. `done` is called once, on the engine's thread.
  uint64_t submit(std::vector<int32_t> prompt, GenerateOptions options, Done done);
  // The request is answered with code cancelled before the next step. Unknown or finished ids are ignored.
  void cancel(uint64_t id);
  EngineStats stats() const;
  bool on_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  struct Request {
    uint64_t id;
    std::vector<int32_t> prompt;
    GenerateOptions options;
    Done done;
  };
  struct Slot;
  struct Answer {
    Done done;
    Result<Completion> result;
  };
  enum class Admission { placed, wait };

  void run();
  void take_cancelled(std::vector<Answer>& answers);
  void admit();
  Admission place(Request& request);
  void step(std::vector<Answer>& answers);
  void step_on_device(std::vector<Answer>& answers);
  bool launch();
  void collect(std::vector<Answer>& answers);
  void copy_prefix(int64_t from, int64_t to, int64_t length);
  void finish(Slot& slot, Result<Completion> result, std::vector<Answer>& answers);
  std::optional<Failure> refuse(const Request& request) const;
  bool take(Slot& slot, const Drawn& drawn);
  const Weights& weights();

  const std::shared_ptr<Network> network_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const EngineOptions options_;
  const TokenMask mask_;
  int64_t positions_ = 0;           // longest sequence
  std::unique_ptr<KvCache> cache_;  // on the host
  // On a device: who took part in steps that were launched and not yet collected, oldest first.
  struct Member {
    int64_t slot;
    uint64_t request;
  };
  std::unique_ptr<DeviceDecoder> device_;
  uint64_t device_version_ = 0;  // of the weights that it knows
  std::deque<std::vector<Member>> launched_;
  std::vector<Slot> slots_;  // the engine's thread only
  uint64_t clock_ = 0;
  std::optional<Weights> rounded_;  // what bf16 sampling draws with, of `rounded_version_`
  uint64_t rounded_version_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Request> queue_;
  std::vector<uint64_t> cancelled_;
  EngineStats stats_;
  uint64_t next_id_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace khost::trainer
