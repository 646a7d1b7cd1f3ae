#include "sandbox/judge/cuda/calibration.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "sandbox/abi/build.h"
#include "sandbox/judge/statistics.h"

namespace khost::judge::gpu {
namespace {

constexpr int kWindows = 25;
constexpr double kTimeout_s = 2;
constexpr double kSetUpTimeout_s = 20;
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

Result<sandbox::Plan> bound(Result<sandbox::Plan> plan, const sandbox::Signatures& signatures) {
  const sandbox::Manifest nothing = no_tensors();
  if (plan) {
    if (Status fits = plan->bind(signatures, nothing, nothing); !fits) {
      return fits.failure();
    }
  }
  return plan;
}

Result<sandbox::Plan> empty_plan(const sandbox::Signatures& signatures) {
  const Json stream = Json::object({{"role", "S"}});
  const Json launch = {{"symbol", "launch_nothing"}, {"arguments", Json::array({stream})}};
  return bound(sandbox::Plan::parse({{"launches", Json::array({launch})},
                                     {"workspace", Json::array()},
                                     {"outputs", {{"kind", "none"}}},
                                     {"output_storages", Json::array()}}),
               signatures);
}

Result<sandbox::Plan> work_plan(const sandbox::Signatures& signatures, std::int64_t early_ns) {
  const Json arguments = {{{"role", "w"}, {"slot", "output"}, {"index", 0}, {"offset", 0}},
                          {{"role", "s"}, {"dtype", "l"}, {"value", kElements}},
                          {{"role", "s"}, {"dtype", "l"}, {"value", kWork_ns}},
                          {{"role", "s"}, {"dtype", "l"}, {"value", early_ns}},
                          {{"role", "S"}}};
  const Json output = {{"kind", "tensor"}, {"storage", 0}, {"dtype", "float32"}, {"size", {kElements}},
                       {"stride", {1}},    {"offset", 0}};
  const Json launch = {{"symbol", "work_and_acknowledge"}, {"arguments", arguments}};
  return bound(sandbox::Plan::parse({{"launches", Json::array({launch})},
                                     {"workspace", Json::array()},
                                     {"outputs", output},
                                     {"output_storages", {kElements * 4}}}),
               signatures);
}

struct Series {
  std::vector<double> right, all;  // seconds; `right` where every sample held
};

Result<Series> windows(Device& device, Candidate& subject) {
  const Window set_up = subject.ready(kSetUpTimeout_s);
  if (set_up.end != Window::End::done || set_up.status != 0) {
    return Failure{"a calibrating subject did not get ready: " + set_up.message, "host"};
  }
  Result<Sampled> sampled = ones(device, subject.outputs());
  if (!sampled) {
    return sampled.failure();
  }
  Call call;
  call.views = reinterpret_cast<const View*>(sampled->view.data());
  call.view_count = 1;
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
      result.all.push_back(turn.window.seconds);
      if (turn.wrong == 0) {
        result.right.push_back(turn.window.seconds);
      }
    }
  }
  return result;
}

Result<Series> windows(Device& device, const BlankSource& blanks, const sandbox::Plan& plan, const std::string& library) {
  Result<Blank> blank = blanks();
  Result<std::unique_ptr<Candidate>> subject =
      blank ? Candidate::start(std::move(*blank), nullptr, plan, library) : blank.failure();
  return subject ? windows(device, **subject) : subject.failure();
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

Result<GpuCost> calibrate_plans(Device& device, const std::string& root, const BlankSource& blanks) {
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
  cost.evidence = {{"form", "queued, frozen throughout"}, {"empty_s", cost.plan_s},
                   {"spread_s", cost.spread_s},           {"work_s", kWork_ns * 1e-9},
                   {"honest_s", honest - cost.plan_s},    {"adversaries", gains},
                   {"slack_s", cost.slack_s}};
  return cost;
}

Result<double> calibrate_candidate(Device& device, Candidate& empty) {
  Result<Series> series = windows(device, empty);
  return series ? Result<double>(median(series->right)) : series.failure();
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
