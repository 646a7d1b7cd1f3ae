#include "sandbox/judge/cpu/subject.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "sandbox/jail/libraries.h"
#include "sandbox/judge/cpu/allocator.h"
#include "sandbox/judge/evaluation/limits.h"
#include "sandbox/judge/values/compare.h"

namespace khost::judge {

using sandbox::Fd;
using sandbox::Jail;
using sandbox::JailSpec;

namespace {

constexpr double kSettleTimeout_s = 60;

void copy(const Region& to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) {
    memcpy(to.data(), from, bytes);
  }
}

struct Gap {
  std::size_t storage = 0, begin = 0, end = 0;
};

constexpr std::size_t kPage = 4096;

// What lies between the end of each storage and what comes behind it: another one, or the end of the last page.
std::vector<Gap> gaps_of(const sandbox::Manifest& outputs) {
  std::vector<std::size_t> begins = {(outputs.region_bytes + kPage - 1) / kPage * kPage};
  for (const sandbox::Storage& storage : outputs.storages) {
    begins.push_back(storage.offset);
  }
  std::sort(begins.begin(), begins.end());
  std::vector<Gap> result;
  for (std::size_t i = 0; i < outputs.storages.size(); i++) {
    const std::size_t end = outputs.storages[i].offset + outputs.storages[i].bytes;
    result.push_back({i, end, *std::lower_bound(begins.begin(), begins.end(), end)});
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<Subject>> Subject::start(const Session* session, const sandbox::Plan& plan,
                                                const std::string& library, int threads,
                                                const sandbox::Limits& limits) {
  std::unique_ptr<Subject> subject(new Subject);
  subject->plan_ = plan;
  const std::string text = plan.to_json().dump();
  const std::size_t inputs = session != nullptr ? session->layouts().inputs.region_bytes : 0;
  const std::size_t state = session != nullptr ? session->layouts().state.region_bytes : 0;
  struct Part {
    Region Subject::*region;
    const char* name;
    std::size_t bytes;
    Region::Others others;
  };
  for (const Part& part : {Part{&Subject::control_, "control", sandbox::kControlBytes, Region::Others::write},
                           Part{&Subject::inputs_, "inputs", inputs, Region::Others::read},
                           Part{&Subject::state_, "state", state, Region::Others::read},
                           Part{&Subject::outputs_, "outputs", plan.outputs.region_bytes, Region::Others::write},
                           Part{&Subject::text_, "plan", text.size(), Region::Others::read}}) {
    Result<Region> made = Region::make(part.name, part.bytes, part.others);
    if (!made) {
      return made.failure();
    }
    subject.get()->*part.region = std::move(*made);
  }
  memcpy(subject->text_.data(), text.data(), text.size());

  const bool file = library.find('/') != std::string::npos;
  if (file) {
    Result<Region> copied = Region::copy_of(library);
    if (!copied) {
      return copied.failure();
    }
    subject->library_ = std::move(*copied);
  }
  const std::string program = sandbox::self_directory() + "/khost-subject";
  JailSpec spec;
  spec.name = "subject";
  spec.argv = {program,
               "--control",
               "3",
               "--inputs",
               "4",
               "--state",
               "5",
               "--outputs",
               "6",
               "--library",
               file ? "7" : library,
               "--plan",
               "8",
               "--threads",
               std::to_string(threads)};
  spec.readable_prefixes = {program};
  sandbox::keep_in_memory(program);
  spec.environment.insert(kAllocatorSettings.begin(), kAllocatorSettings.end());
  spec.libraries_only = !kSanitized;
  spec.threads_only = true;
  spec.limit_address_space = !kSanitized;
  spec.limits = limits;
  // Each call has a limit of its own, and the process stands between them: this one ends what no call accounts for.
  spec.limits.cpu_s = subject_cores(threads) * (kSetUpTimeout_s + kMostCalls * kCallTimeout_s);
  spec.limits.processes += std::min(threads, core_count());  // those that its kernel is told to use come on top
  spec.fds = {{subject->control_.fd(), 3},
              {subject->inputs_.fd(), 4},
              {subject->state_.fd(), 5},
              {subject->outputs_.fd(), 6},
              {subject->text_.fd(), 8}};
  if (file) {
    spec.fds.push_back({subject->library_.fd(), 7});
  }
  Result<Jail> jail = Jail::start(spec);
  if (!jail) {
    return jail.failure();
  }
  subject->jail_ = std::make_unique<Jail>(std::move(*jail));
  Jail* held = subject->jail_.get();
  pin(held->pid(), subject_core(), subject_cores(threads));
  subject->clock_ = std::make_unique<Clock>(
      Player{held->pid(), reinterpret_cast<sandbox::ControlPage*>(subject->control_.data()), [held] { held->freeze(); },
             [held] { held->thaw(); }, [held] { return held->poll(); }, subject_core(), subject_cores(threads)});
  return subject;
}

void Subject::write(const Session& session, const Set& set) {
  met_.push_back(&set);
  // In the order of a baseline, which touches its outputs first: what was written last is nearest to the cores.
  poison(plan_.outputs, outputs_.data(), outputs_.bytes(), secret_number());
  if (const std::size_t rest = outputs_.bytes() % kPage; rest > 0) {  // poison ends with the region
    memset(outputs_.data() + outputs_.bytes(), static_cast<int>(secret_number() & 0xff), kPage - rest);
  }
  behind_.clear();
  for (const Gap& gap : gaps_of(plan_.outputs)) {
    behind_.insert(behind_.end(), outputs_.data() + gap.begin, outputs_.data() + gap.end);
  }
  copy(inputs_, session.inputs_of(set), session.layouts().inputs.region_bytes);
  copy(state_, session.state_of(set), session.layouts().state.region_bytes);
}

std::optional<std::size_t> Subject::written_beyond() const {
  const std::byte* was = behind_.data();
  for (const Gap& gap : gaps_of(plan_.outputs)) {
    const std::size_t bytes = gap.end - gap.begin;
    if (std::memcmp(outputs_.data() + gap.begin, was, bytes) != 0) {
      return gap.storage;
    }
    was += bytes;
  }
  return std::nullopt;
}

Result<std::unique_ptr<BaselineSubject>> BaselineSubject::start(Zygote& zygote, const Session& session,
                                                                const Set& first, const BaselineKind& kind,
                                                                double timeout_s) {
  std::unique_ptr<BaselineSubject> subject(new BaselineSubject);
  const Layouts& layouts = session.layouts();
  Result<Region> control = Region::make("control", sandbox::kControlBytes, Region::Others::write);
  Result<Region> inputs = Region::make("inputs", layouts.inputs.region_bytes, Region::Others::write);
  Result<Region> state = Region::make("state", layouts.state.region_bytes, Region::Others::write);
  for (const auto* region : {&control, &inputs, &state}) {
    if (!*region) {
      return region->failure();
    }
  }
  subject->control_ = std::move(*control);
  subject->inputs_ = std::move(*inputs);
  subject->state_ = std::move(*state);
  subject->write(session, first);
  Result<Child> child = zygote.spawn();
  if (!child) {
    return child.failure();
  }
  subject->child_ = std::move(*child);
  Child* held = &subject->child_;
  const int cores = subject_cores(kind.threads);
  pin(held->pid(), subject_core(), cores);
  const Json request = {{"kind", kind.name},
                        {"source", session.source()},
                        {"cache", kind.cache},
                        {"threads", cores},
                        {"judge_core", judge_core()},
                        {"library", sandbox::self_directory() + "/libkhost_subject_python.so"},
                        {"inputs", layouts.inputs.to_json()},
                        {"state", layouts.state.to_json()}};
  Result<Json> ready = held->call({{"kind", "baseline"}, {"baseline", request}},
                                  {subject->control_.fd(), subject->inputs_.fd(), subject->state_.fd()}, timeout_s);
  if (!ready) {
    return ready.failure();
  }
  subject->cache_hits_ = ready->value("cache_hits", -1);
  subject->clock_ = std::make_unique<Clock>(
      Player{held->pid(), reinterpret_cast<sandbox::ControlPage*>(subject->control_.data()), [held] { held->freeze(); },
             [held] { held->thaw(); }, [held] { return held->ended(); }, subject_core(), cores});
  subject->clock_->stop();
  return subject;
}

void BaselineSubject::write(const Session& session, const Set& set) {
  if (clock_) {
    clock_->call(kSettleTimeout_s);  // a turn of its own, which nobody times: see baselines.py
  }
  copy(inputs_, session.inputs_of(set), session.layouts().inputs.region_bytes);
  copy(state_, session.state_of(set), session.layouts().state.region_bytes);
}

}  // namespace khost::judge
