// What the jobs of a judge share: zygotes, sessions, the right to time. Any thread.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "host/base/lease.h"
#include "sandbox/judge/service/gpu_target.h"
#include "sandbox/judge/service/keyed_mutex.h"
#include "sandbox/judge/task/check.h"
#include "sandbox/judge/task/session.h"
#include "sandbox/judge/task/zygote.h"

namespace khost::judge {

// What a window costs by itself, measured with subjects that do nothing, while no candidate is alive.
struct Cost {
  bool known = false;
  double plan_s = 0, python_s = 0;
  double late_s = 0;   // processor time of an honest subject between its acknowledgement and its stop
  double slack_s = 0;  // the most that an acknowledgement before its time can gain
};

class Service {
 public:
  // `host`: the process whose jails stand still while something is timed; 0 for none. `limits`:
  // of a candidate's process.
  Service(PythonPlace place, std::string lease_path, pid_t host, const sandbox::Limits& limits)
      : place_(std::move(place)), lease_path_(std::move(lease_path)), host_(host), limits_(limits) {}
  Result<Zygote*> tasks() { return zygote(tasks_, "reference", Serves::tasks); }
  // Its children start with a warm compiler, which takes this one some seconds more to begin with.
  Result<Zygote*> baselines() { return zygote(baselines_, "baselines", Serves::compilers); }
  Result<Zygote*> recorders() { return zygote(recorders_, "recorder", Serves::recorders); }
  Result<Zygote*> device_recorders() { return zygote(device_recorders_, "recorder-cuda", Serves::device_recorders); }
  Result<std::shared_ptr<Session>> session(const std::string& source, Audience audience);
  // {"kind": "evaluate" | "verify" | "profile" | "trace" | …, "task": {"source"}, …}
  Result<Json> handle(const Json& request);

 private:
  friend class CpuEvaluation;
  Result<Json> evaluate_on_gpu(const Json& request);
  Result<Json> evaluate(const Json& request);
  double read_rate(std::size_t bytes, bool again = false);
  Result<Json> ask(const std::string& kind, const std::string& source);
  // Both under sessions_mutex_.
  std::shared_ptr<Session> known_session(const std::string& hash);
  void keep(const std::shared_ptr<Session>& session);
  // Keeps what the baselines took when the session goes: measuring them again costs seconds, as does measuring the
  // bounds of outputs, which are kept too. For whoever holds the right to time.
  void remember(const Session& session);
  // Ends the resident baselines of all but the tasks asked for last. For whoever holds the right to time.
  void retire_residents();
  struct Slot;
  Result<Zygote*> zygote(Slot& slot, const char* name, Serves serves, const GpuView* gpu = nullptr);
  Result<Zygote*> device_checks(Slot& slot);
  Result<Json> check_task(const Json& request);
  Result<std::shared_ptr<GpuTarget>> gpu();
  // Starts what timing will need beside the first build and verification.
  void warm_up();
  PythonPlace place_;
  std::string lease_path_;
  pid_t host_;
  sandbox::Limits limits_;
  std::mutex zygotes_, sessions_mutex_, timing_;
  std::shared_mutex running_;                 // shared by a subject's call or set-up, alone for a block that is timed
  std::map<std::size_t, double> read_rates_;  // under timing_
  // Starting one takes seconds, in which the others are to be had.
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<Zygote> zygote;
  };
  Slot tasks_, baselines_, recorders_, device_recorders_, device_checks_, device_again_;
  std::mutex viewing_;
  std::unique_ptr<GpuView> view_;  // of the device, once known; both under viewing_
  std::shared_ptr<Room> room_;
  std::once_flag warmed_;
  std::vector<std::unique_ptr<Zygote>> dead_;
  struct Measured {
    std::shared_ptr<const Calibration> calibration;
    std::map<std::string, Baseline> baselines;
    std::map<std::string, std::string> unavailable;
  };
  std::list<std::shared_ptr<Session>> sessions_;
  std::map<std::string, Measured> measured_;  // by the hash of a task
  KeyedMutex opening_;                        // of the hash of a task
  Cost cost_;                                 // under timing_
  std::mutex opening_gpu_;
  std::shared_ptr<GpuTarget> gpu_;  // made by the first request for target cuda; under opening_gpu_
};

}  // namespace khost::judge
