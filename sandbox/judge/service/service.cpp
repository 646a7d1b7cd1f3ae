#include "sandbox/judge/service/service.h"

#include <unistd.h>

#include "host/base/sha256.h"
#include "sandbox/judge/cpu/bandwidth.h"
#include "sandbox/judge/cpu/evaluation.h"
#include "sandbox/judge/cpu/subject.h"
#include "sandbox/judge/evaluation/tries.h"
#include "sandbox/judge/service/background.h"
#include "sandbox/judge/task/check.h"

namespace khost::judge {
namespace {
constexpr std::size_t kMostSessions = 32;
constexpr std::size_t kMostResidents = 4;  // tasks; a compiled baseline holds some 300 MB
constexpr std::size_t kMostRead = std::size_t{1} << 28;
constexpr double kQuestionTimeout_s = 60;

std::size_t memory_for_sets() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE)) / 4;
}
}  // namespace

Result<Zygote*> Service::zygote(Slot& slot, const char* name, Serves serves, const GpuView* gpu) {
  const std::scoped_lock lock(slot.mutex);
  if (slot.zygote && !slot.zygote->alive()) {
    const std::scoped_lock dead(zygotes_);
    dead_.push_back(std::move(slot.zygote));  // a job may still hold it
  }
  if (!slot.zygote) {
    Result<std::unique_ptr<Zygote>> started = Zygote::start(place_, name, serves, gpu);
    if (!started) {
      return started.failure();
    }
    slot.zygote = std::move(*started);
  }
  return slot.zygote.get();
}

void Service::warm_up() {
  std::call_once(warmed_, [this] { run_in_background([this] { (void)baselines(); }); });
}

std::shared_ptr<Session> Service::known_session(const std::string& hash) {
  for (auto i = sessions_.begin(); i != sessions_.end(); ++i) {
    if ((*i)->hash() == hash) {
      sessions_.splice(sessions_.begin(), sessions_, i);
      return sessions_.front();
    }
  }
  return nullptr;
}

// A new session of a task that was timed before begins with what its baselines took.
void Service::keep(const std::shared_ptr<Session>& session) {
  const auto known = measured_.find(session->hash());
  if (known != measured_.end()) {
    session->baselines = known->second.baselines;
    session->unavailable = known->second.unavailable;
  }
  sessions_.push_front(session);
  std::size_t bytes = 0, kept = 0;
  sessions_.remove_if([&](const std::shared_ptr<Session>& one) {
    bytes += one->bytes();
    kept++;
    return kept > 1 && (kept > kMostSessions || bytes > memory_for_sets());
  });
}

void Service::remember(const Session& session) {
  const std::scoped_lock lock(sessions_mutex_);
  measured_[session.hash()] = {session.calibration(), session.baselines, session.unavailable};
}

// Opening one makes inputs and outputs: other tasks go on meanwhile, who asks for the same one waits.
Result<std::shared_ptr<Session>> Service::session(const std::string& source, Audience audience) {
  const std::string hash = sha256_hex(source);
  const KeyedMutex::Lock opening(opening_, hash);
  SessionOptions options;
  options.audience = audience;
  {
    const std::scoped_lock lock(sessions_mutex_);
    if (std::shared_ptr<Session> known = known_session(hash)) {
      return known;
    }
    if (const auto measured = measured_.find(hash); measured != measured_.end()) {
      options.calibration = measured->second.calibration;
    }
  }
  Result<Zygote*> zygote = tasks();
  Result<std::shared_ptr<Session>> made =
      zygote ? Session::open(**zygote, source, options) : Result<std::shared_ptr<Session>>(zygote.failure());
  if (made) {
    const std::scoped_lock lock(sessions_mutex_);
    measured_[hash].calibration = (*made)->calibration();
    keep(*made);
  }
  return made;
}

void Service::retire_residents() {
  const std::scoped_lock lock(sessions_mutex_);
  std::size_t place = 0;
  for (const auto& session : sessions_) {
    if (place++ >= kMostResidents) {
      session->residents.clear();
    }
  }
}

Result<Json> Service::handle(const Json& request) {
  const std::string kind = request.value("kind", "");
  if (const Result<std::string> target = target_of(request); !target) {
    return target.failure();
  }
  if (kind == "crawl") {
    // Whose children have what runs on fake tensors imported.
    Result<Zygote*> zygote = request.value("target", "cpu") == "cuda" ? device_checks(device_checks_) : baselines();
    return zygote ? crawl(**zygote, request) : zygote.failure();
  }
  if (!request.contains("task") || !request["task"].contains("source") || !request["task"]["source"].is_string()) {
    return Failure{"a request needs task.source", "bad_input"};
  }
  if (kind == "check") {
    return check_task(request);
  }
  const bool judges = kind == "evaluate" || kind == "verify" || kind == "profile";
  if (const auto opponents = opponents_of(request); judges && !opponents) {
    return opponents.failure();
  }
  if (const Result<std::string> rules = rules_of(request); judges && !rules) {
    return rules.failure();
  }
  if (judges && request.value("target", "cpu") == "cuda") {
    return evaluate_on_gpu(request);
  }
  if (kind == "evaluate") {
    return evaluate(request);
  }
  if (kind == "profile") {
    warm_up();
  }
  if (kind == "verify" || kind == "profile") {
    return CpuEvaluation(*this, request, kind == "verify" ? Purpose::verify : Purpose::profile).run();
  }
  if (kind == "trace") {
    return ask(kind, request["task"]["source"].get<std::string>());
  }
  return Failure{"unknown kind '" + kind + "'; known are evaluate, verify, profile, trace, check and crawl",
                 "bad_input"};
}

// Tasks of a suite that nobody has checked run beside the device in a jail of their own, apart from what the judge
// needs.
Result<Json> Service::check_task(const Json& request) {
  CheckPlaces places;
  const bool cuda = request.value("target", "cpu") == "cuda";
  Result<Zygote*> zygote = cuda ? device_checks(device_checks_) : baselines();  // it compiles
  if (!zygote) {
    return zygote.failure();
  }
  places.zygote = *zygote;
  places.apart = [this, cuda] { return cuda ? device_checks(device_again_) : tasks(); };
  if (cuda) {
    const std::scoped_lock lock(viewing_);
    places.room = room_;
  }
  return check(places, request);
}

Result<Zygote*> Service::device_checks(Slot& slot) {
  const Result<std::shared_ptr<GpuTarget>> target = gpu();
  if (!target) {
    return target.failure();
  }
  const std::scoped_lock lock(viewing_);
  if (!view_) {
    Result<GpuSeen> view = (*target)->view();
    if (!view) {
      return view.failure();
    }
    view_ = std::make_unique<GpuView>(std::move(view->gpu));
    room_ = std::make_shared<Room>(view->bytes / 100 * 85);
  }
  return zygote(slot, "checks-cuda", Serves::tasks, view_.get());
}

// Loading the library may mean building it first, for minutes: other jobs go on meanwhile, and a failure is final only
// for the request that met it.
Result<std::shared_ptr<GpuTarget>> Service::gpu() {
  const std::scoped_lock lock(opening_gpu_);
  if (!gpu_) {
    Result<std::shared_ptr<GpuTarget>> opened = open_gpu_target(*this, place_, lease_path_);
    if (!opened) {
      return opened.failure();
    }
    gpu_ = std::move(*opened);
  }
  return gpu_;
}

Result<Json> Service::evaluate_on_gpu(const Json& request) {
  const Result<std::shared_ptr<GpuTarget>> target = gpu();
  return target ? (*target)->evaluate(request) : target.failure();
}

// A verdict that failed for a reason of ours is tried once more; what remains void says why the first try was.
Result<Json> Service::evaluate(const Json& request) {
  if (request.value("measure", true)) {
    warm_up();
  }
  return with_more_tries([&] { return CpuEvaluation(*this, request, Purpose::verdict).run(); },
                         [](const Json& verdict) { return verdict.value("status", "") == "void"; });
}

// Bytes a second that one thread reads from memory that was just written, for at most so many bytes: what a cache holds
// of fewer is read faster, and no kernel may be called faster than a machine is. `again`: measured once more, since a
// machine that changes its clock may have been slow when it was measured; the best counts. For whoever holds the right
// to time.
double Service::read_rate(std::size_t bytes, bool again) {
  std::size_t size = 1 << 16;
  while (2 * size <= bytes && size < kMostRead) {
    size *= 2;
  }
  double& rate = read_rates_[size];
  if (rate == 0 || again) {
    rate = std::max(rate, measure_read_rate(size, subject_core()));
  }
  return rate;
}

// Tracing imports what compiling imports, which takes a second: that zygote has it already.
Result<Json> Service::ask(const std::string& kind, const std::string& source) {
  warm_up();
  Result<Zygote*> zygote = kind == "trace" ? baselines() : tasks();
  if (!zygote) {
    return zygote.failure();
  }
  Result<Child> child = (*zygote)->spawn();
  if (!child) {
    return child.failure();
  }
  return child->call({{"kind", kind}, {"source", source}}, {}, kQuestionTimeout_s);
}

}  // namespace khost::judge
