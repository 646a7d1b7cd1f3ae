#include "sandbox/judge/cuda/calibration.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "sandbox/build/build.h"
#include "sandbox/judge/cuda/views.h"
#include "sandbox/judge/evaluation/limits.h"
#include "sandbox/judge/evaluation/statistics.h"

namespace khost::judge::gpu {
namespace {

constexpr int kWindows = 25;
constexpr double kTimeout_s = 2;
constexpr double kCopyTimeout_s = 10;
constexpr double kLeastTime_s = 1e-7;  // what no kernel is faster than
constexpr double kMostBesides = 0.1;
constexpr std::int64_t kElements = std::int64_t{1} << 20;
constexpr std::int64_t kWork_ns = 500000;
// How much earlier the adversaries acknowledge: from a few microseconds to before they begin.
constexpr std::int64_t kEarly_ns[] = {2000, 5000, 10000, 20000, kWork_ns};

double quantile(std::vector<double> values, double q) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

// What every calibration window compares: an output that should be ones, against ones.
struct Sampled {
  Memory expected, view;
};

Result<Sampled> ones(Device& device, const std::byte* got) {
  Result<Memory> expected = Memory::make(kElements * sizeof(float));
  Result<Memory> there = Memory::make(sizeof(View));
  if (!expected || !there) {
    return expected ? there.failure() : expected.failure();
  }
  const std::vector<float> values(static_cast<std::size_t>(kElements), 1.0f);
  View view{};
  view.got = got != nullptr ? got : expected->data();
  view.expected = expected->data();
  view.element = Element::f32;
  view.count = kElements;
  cudaMemcpy(expected->data(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(there->data(), &view, sizeof view, cudaMemcpyHostToDevice);
  return device.settle(5) ? Result<Sampled>(Sampled{std::move(*expected), std::move(*there)})
                          : Failure{"the GPU did not answer", "device"};
}

sandbox::Manifest no_tensors() {
  return sandbox::Manifest::parse({{"storages", Json::array()}, {"tree", {{"kind", "none"}}}}).value();
}

// Of one launch. `floats`: of its output, which is then its first argument; 0 for none. The others are numbers, the
// last is the stream.
Result<sandbox::Plan> plan_of(const sandbox::Signatures& signatures, const char* symbol, std::int64_t floats,
                              const std::vector<std::int64_t>& numbers) {
  Json arguments = Json::array();
  Json output = {{"kind", "none"}};
  Json storages = Json::array();
  if (floats > 0) {
    arguments.push_back({{"role", "w"}, {"slot", "output"}, {"index", 0}, {"offset", 0}});
    output = {{"kind", "tensor"},           {"storage", 0}, {"dtype", "float32"}, {"size", Json::array({floats})},
              {"stride", Json::array({1})}, {"offset", 0}};
    storages.push_back(floats * 4);
  }
  for (const std::int64_t number : numbers) {
    arguments.push_back({{"role", "s"}, {"dtype", "l"}, {"value", number}});
  }
  arguments.push_back(Json::object({{"role", "S"}}));
  const Json launch = {{"symbol", symbol}, {"arguments", arguments}};
  Result<sandbox::Plan> plan = sandbox::Plan::parse({{"launches", Json::array({launch})},
                                                     {"workspace", Json::array()},
                                                     {"outputs", output},
                                                     {"output_storages", storages}});
  if (plan) {
    const sandbox::Manifest nothing = no_tensors();
    if (Status fits = plan->bind(signatures, nothing, nothing); !fits) {
      return fits.failure();
    }
  }
  return plan;
}

Result<sandbox::Plan> empty_plan(const sandbox::Signatures& signatures) {
  return plan_of(signatures, "launch_nothing", 0, {});
}

// In units of 16 bytes; a stamp of a block is one of them.
struct Streamed {
  std::int64_t written = 0, read = 0, blocks = 0;
};

Result<sandbox::Plan> stream_plan(const sandbox::Signatures& signatures, const Streamed& streamed) {
  return plan_of(signatures, "stream_and_stamp", 4 * (streamed.blocks + streamed.written + streamed.read),
                 {streamed.written, streamed.read, streamed.blocks});
}

Result<sandbox::Plan> work_plan(const sandbox::Signatures& signatures, std::int64_t early_ns) {
  return plan_of(signatures, "work_and_acknowledge", kElements, {kElements, kWork_ns, early_ns});
}

struct Series {
  std::vector<double> right, all;  // seconds; `right` where every sample held
};

Status get_ready(Candidate& subject) {
  const Window set_up = subject.ready(kSetUpTimeout_s);
  return set_up.end == Window::End::done && set_up.status == 0
             ? ok()
             : Status(Failure{"a calibrating subject did not get ready: " + set_up.message, "host"});
}

using Inside = std::function<double()>;  // of the call that was made: seconds that are no cost

// Of a subject that is ready.
Result<Series> windows(Candidate& subject, Call call, const Inside& inside = {}) {
  Series result;
  for (int i = 0; i < kWindows + 3; i++) {
    call.seed = secret_number();
    // The first calls load the kernel, unqueued.
    Turn turn;
    if (i < 3) {
      turn.window = subject.direct_again(kTimeout_s);
    } else {
      turn = subject.queued_again(call, kTimeout_s);
    }
    if (turn.window.end != Window::End::done || turn.window.status != 0 || turn.lost) {
      return Failure{"a calibrating call did not come back: " + turn.window.message, "host"};
    }
    if (i >= 5) {
      result.all.push_back(turn.window.seconds - (inside ? inside() : 0));
      if (turn.wrong == 0) {
        result.right.push_back(result.all.back());
      }
    }
  }
  return result;
}

// Without tolerances elements must be equal.
Call looking_at(const Memory& views, std::size_t count, const Memory* tolerances = nullptr) {
  Call call;
  call.outputs = {reinterpret_cast<const View*>(views.data()),
                  tolerances != nullptr ? reinterpret_cast<const Tolerance*>(tolerances->data()) : nullptr,
                  static_cast<int>(count)};
  return call;
}

Result<Series> windows(Device& device, Candidate& subject) {
  if (Status ready = get_ready(subject); !ready) {
    return ready.failure();
  }
  Result<Sampled> sampled = ones(device, subject.outputs());
  return sampled ? windows(subject, looking_at(sampled->view, 1)) : sampled.failure();
}

Result<std::unique_ptr<Candidate>> started(const IdleSubjectSource& blanks, const sandbox::Plan& plan,
                                           const std::string& library) {
  Result<IdleSubject> blank = blanks();
  return blank ? Candidate::start(std::move(*blank), nullptr, plan, library) : blank.failure();
}

Result<Series> windows(Device& device, const IdleSubjectSource& blanks, const sandbox::Plan& plan,
                       const std::string& library) {
  Result<std::unique_ptr<Candidate>> subject = started(blanks, plan, library);
  return subject ? windows(device, **subject) : subject.failure();
}

// What a window takes beyond the time from the first block's begin to the last one's end, of a kernel that reads and
// writes as much as the task's inputs and outputs are.
Result<double> beyond_streaming(Device& device, const IdleSubjectSource& blanks, const sandbox::Built& built,
                                const Layouts& layouts) {
  Streamed streamed;
  streamed.written = static_cast<std::int64_t>(layouts.outputs.region_bytes / 16);
  streamed.read = static_cast<std::int64_t>((layouts.inputs.region_bytes + layouts.state.region_bytes) / 16);
  streamed.blocks = 2 * device.multiprocessors();
  Result<sandbox::Plan> plan = stream_plan(built.signatures, streamed);
  Result<std::unique_ptr<Candidate>> subject = plan ? started(blanks, *plan, built.path) : plan.failure();
  if (!subject) {
    return subject.failure();
  }
  std::vector<std::int64_t> stamps(static_cast<std::size_t>(2 * streamed.blocks));
  const Inside streaming = [&] {
    cudaMemcpy(stamps.data(), (*subject)->outputs(), stamps.size() * sizeof stamps[0], cudaMemcpyDeviceToHost);
    std::int64_t begin = stamps[0], end = stamps[1];
    for (std::size_t i = 2; i < stamps.size(); i += 2) {
      begin = std::min(begin, stamps[i]);
      end = std::max(end, stamps[i + 1]);
    }
    return 1e-9 * static_cast<double>(end - begin);
  };
  if (Status ready = get_ready(**subject); !ready) {
    return ready.failure();
  }
  Result<Sampled> sampled = ones(device, nullptr);
  Result<Series> series = sampled ? windows(**subject, looking_at(sampled->view, 1), streaming) : sampled.failure();
  return series ? Result<double>(median(series->all)) : series.failure();
}

}  // namespace

Result<sandbox::Built> build_adversary(const std::string& root, const std::string& architecture) {
  const std::string path = root + "/sandbox/judge/cuda/adversary/kernels/early.cu";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    return Failure{path + " cannot be read", "host"};
  }
  sandbox::BuildRequest request;
  request.files = {{"kernels/early.cu", text.str()}};
  request.target = "cuda";
  request.arch = architecture;
  return sandbox::build(request);
}

Result<GpuCost> calibrate_plans(Device& device, const std::string& root, const IdleSubjectSource& blanks) {
  Result<sandbox::Built> built = build_adversary(root, device.architecture());
  if (!built) {
    return Failure{"the clock's adversary does not build: " + built.failure().message, "host"};
  }
  Result<sandbox::Plan> nothing = empty_plan(built->signatures);
  Result<Series> empty = nothing ? windows(device, blanks, *nothing, built->path) : nothing.failure();
  if (!empty) {
    return empty.failure();
  }
  GpuCost cost;
  cost.plan_s = median(empty->right);
  cost.spread_s = quantile(empty->right, 0.9) - quantile(empty->right, 0.1);
  double honest = 0;
  double gain = 0;
  Json gains = Json::object();
  std::vector<std::int64_t> leads = {-1};
  leads.insert(leads.end(), std::begin(kEarly_ns), std::end(kEarly_ns));
  for (const std::int64_t early : leads) {
    Result<sandbox::Plan> plan = work_plan(built->signatures, early);
    Result<Series> series = plan ? windows(device, blanks, *plan, built->path) : plan.failure();
    if (!series) {
      return series.failure();
    }
    if (early < 0) {
      honest = median(series->right);
      cost.spread_s = std::max(cost.spread_s, quantile(series->right, 0.9) - quantile(series->right, 0.1));
      continue;
    }
    // An adversary needs every call of a block to pass; what it gains otherwise is a wrong answer.
    const bool passes = series->right.size() == series->all.size();
    const double gained = passes ? honest - median(series->right) : 0;
    gains[std::to_string(early / 1000) + " us"] = {
        {"gain_s", honest - median(series->all)}, {"passed", series->right.size()}, {"of", series->all.size()}};
    gain = std::max(gain, gained);
  }
  cost.slack_s = std::max(gain, cost.spread_s);
  cost.evidence = {{"form", "queued, frozen throughout"},
                   {"empty_s", cost.plan_s},
                   {"spread_s", cost.spread_s},
                   {"work_s", kWork_ns * 1e-9},
                   {"honest_s", honest - cost.plan_s},
                   {"adversaries", gains},
                   {"slack_s", cost.slack_s}};
  return cost;
}

Result<double> calibrate_candidate(Device& device, Candidate& empty) {
  Result<Series> series = windows(device, empty);
  return series ? Result<double>(median(series->right)) : series.failure();
}

Result<TaskCost> measure_task_cost(Device& device, const std::string& root, const IdleSubjectSource& blanks,
                                   const Session& session, const Batch& batch, const Tolerances& tolerances) {
  const Layouts& layouts = session.layouts();
  const std::size_t outputs = layouts.outputs.tensors.size();
  Result<Memory> got = Memory::make(layouts.outputs.region_bytes);
  Result<Memory> there = Memory::make(outputs * sizeof(View));
  Result<Memory> bounds = Memory::make(outputs * sizeof(Tolerance));
  if (!got || !there || !bounds) {
    return TaskCost{};
  }
  const std::vector<Tolerance>& tolerance = tolerances.of(batch.sets[0]);
  const std::byte* expected = batch.sets[0].device.data + layouts.inputs.region_bytes + layouts.state.region_bytes;
  const std::vector<View> views = views_of(layouts.outputs, got->data(), layouts.outputs, expected, tolerance);
  cudaMemcpyAsync(got->data(), expected, layouts.outputs.region_bytes, cudaMemcpyDeviceToDevice, device.stream());
  cudaMemcpyAsync(there->data(), views.data(), outputs * sizeof(View), cudaMemcpyHostToDevice, device.stream());
  cudaMemcpyAsync(bounds->data(), tolerance.data(), outputs * sizeof(Tolerance), cudaMemcpyHostToDevice,
                  device.stream());
  if (!device.settle(kCopyTimeout_s)) {
    return Failure{"the GPU did not answer", "device"};
  }
  Result<sandbox::Built> built = build_adversary(root, device.architecture());
  Result<sandbox::Plan> nothing = built ? empty_plan(built->signatures) : built.failure();
  Result<std::unique_ptr<Candidate>> empty = nothing ? started(blanks, *nothing, built->path) : nothing.failure();
  if (!empty) {
    return empty.failure();
  }
  Result<Series> small = windows(device, **empty);
  Result<Series> own = small ? windows(**empty, looking_at(*there, outputs, &*bounds)) : small.failure();
  if (!own) {
    return own.failure();
  }
  TaskCost cost;
  cost.closing_s = std::max(0.0, median(own->all) - median(small->all));
  empty->reset();
  const Result<double> beyond = beyond_streaming(device, blanks, *built, layouts);
  if (!beyond && device.lost()) {
    return beyond.failure();  // all else is want of room
  }
  cost.flush_s = beyond ? std::max(0.0, *beyond - median(small->all)) : 0;
  cost.measured = static_cast<bool>(beyond);
  return cost;
}

double without(double window_s, double besides_s) {
  return std::max(kLeastTime_s, window_s - std::min(besides_s, kMostBesides * window_s));
}

Result<double> measure_idle_open(Device& device, const Session& session, const Batch& batch) {
  Result<Memory> there = Memory::make(session.layouts().inputs.region_bytes + session.layouts().state.region_bytes);
  if (!there) {
    return there.failure();
  }
  Call call;
  call.span_count = 1;
  call.spans[0] = {batch.sets[0].device.data, there->data(),
                   session.layouts().inputs.region_bytes + session.layouts().state.region_bytes};
  const double seconds = idle_open_s(device, call);
  return seconds > 0 ? Result<double>(seconds) : Failure{"an opening could not be measured", "device"};
}

}  // namespace khost::judge::gpu
