#include "sandbox/judge/cuda/profiling.h"

#include <cuda_runtime_api.h>
#include <glob.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "sandbox/profiler/ceilings.h"

namespace khost::judge::gpu {
namespace {

namespace fs = std::filesystem;

constexpr double kSetUpTimeout_s = 30;
constexpr double kCallTimeout_s = 5;
constexpr double kCopyTimeout_s = 10;
constexpr double kBaselineTimeout_s = 240;  // it may compile
constexpr double kCeilingsTimeout_s = 60;
constexpr std::size_t kWarmUps = 3;
constexpr std::size_t kProfiledCalls = 10;

const std::string kCupti = "libcupti.so." + std::to_string(CUDART_VERSION / 1000);

std::string first_found(const std::string& pattern) {
  glob_t list{};
  const bool any = glob(pattern.c_str(), 0, nullptr, &list) == 0 && list.gl_pathc > 0;
  const std::string path = any ? list.gl_pathv[0] : "";
  globfree(&list);
  std::error_code error;
  return path.empty() ? path : fs::canonical(path, error).string();
}

std::string find_cupti(const std::string& python) {
  const char* set = getenv("CUDA_HOME");
  const std::string home = set != nullptr ? set : "/usr/local/cuda";
  const std::string packages = fs::path(python).parent_path().parent_path().string();
  for (const std::string& folder :
       {home + "/lib64", home + "/extras/CUPTI/lib64", packages + "/lib/python3*/site-packages/nvidia/*/lib"}) {
    if (std::string path = first_found(folder + "/" + kCupti); !path.empty()) {
      return path;
    }
  }
  return "";
}

std::string ending_of(const Window& window) {
  using End = Window::End;
  const char* how = window.end == End::timeout ? "a call did not come back under the profiler"
                    : window.end == End::gone  ? "its process ended under the profiler"
                    : window.end == End::stuck ? "the GPU did not answer"
                                               : "a call failed under the profiler";
  return how + std::string(window.message.empty() ? "" : ": ") + window.message;
}

bool done(const Window& window) {
  return window.end == Window::End::done && window.status == 0;
}

}  // namespace

Result<ProfilerPlace> find_profiler(const std::string& python) {
  ProfilerPlace place{sandbox::self_directory() + "/libkhost_profiler.so", find_cupti(python), kCupti};
  if (!fs::exists(place.library)) {
    return Failure{"libkhost_profiler.so is not beside khost-judge", "host"};
  }
  if (place.cupti.empty()) {
    return Failure{kCupti + " is neither in the CUDA toolkit nor among the packages of " + python, "host"};
  }
  return place;
}

Result<profiler::Side> profile_candidate(Device& device, std::unique_ptr<Candidate> subject, const Region& page,
                                         const Batch& batch) {
  const std::vector<std::size_t> sets = around(batch.drawn(), 0, std::max(kWarmUps, kProfiledCalls));
  Window window = subject->ready(kSetUpTimeout_s);
  for (std::size_t i = 0; done(window) && i < kWarmUps; i++) {
    window = subject->direct(batch, sets[i], kCallTimeout_s);
  }
  for (std::size_t i = 0; done(window) && i < kProfiledCalls; i++) {
    // As before a timed call: the copy also pushes the subject's memory out of the tables of addresses.
    if (Status revealed = subject->reveal(batch, sets[i]); !revealed) {
      return revealed.failure();
    }
    profiler::read_through(device.stream(), device.multiprocessors(), device.scrub().data(), device.scrub().bytes());
    if (!device.settle(kCopyTimeout_s)) {
      return Failure{"the GPU did not answer", "device"};
    }
    window = subject->direct_again(kCallTimeout_s);
  }
  subject.reset();  // it writes no more
  if (!done(window)) {
    return Failure{ending_of(window), "gone"};
  }
  Result<profiler::Trace> trace = profiler::read_trace(page.data(), page.bytes());
  return trace ? Result<profiler::Side>(profiler::summarize(*trace, sandbox::kReady + 1 + kWarmUps)) : trace.failure();
}

Result<ProfiledBaseline> profile_baseline(Device& device, const ProfilerPlace& place, Zygote& zygote,
                                          const Session& session, const Batch& batch, const std::string& kind) {
  const Layouts& layouts = session.layouts();
  Result<Region> page = Region::make("profile", profiler::kPageBytes, Region::Others::write);
  Result<Lent> inputs = Lent::make(layouts.inputs.region_bytes);
  Result<Lent> state = Lent::make(layouts.state.region_bytes);
  if (!page || !inputs || !state) {
    return !page ? page.failure() : !inputs ? inputs.failure() : state.failure();
  }
  const std::byte* const set = batch.sets[batch.drawn().front()].device.data;
  if (layouts.inputs.region_bytes > 0) {
    cudaMemcpyAsync(inputs->data(), set, layouts.inputs.region_bytes, cudaMemcpyDeviceToDevice, device.stream());
  }
  if (layouts.state.region_bytes > 0) {
    cudaMemcpyAsync(state->data(), set + layouts.inputs.region_bytes, layouts.state.region_bytes,
                    cudaMemcpyDeviceToDevice, device.stream());
  }
  if (!device.settle(kCopyTimeout_s)) {
    return Failure{"revealing inputs: the GPU did not answer", "device"};
  }
  Result<Child> child = zygote.spawn();
  if (!child) {
    return child.failure();
  }
  const Json request = {{"kind", kind},
                        {"source", session.source()},
                        {"library", sandbox::self_directory() + "/libkhost_subject_cuda.so"},
                        {"profiler", place.library},
                        {"cupti", place.loaded},
                        {"calls", kProfiledCalls},
                        {"scrub_bytes", device.scrub().bytes()},
                        {"bytes", {inputs->bytes(), state->bytes()}},
                        {"inputs", layouts.inputs.to_json()},
                        {"state", layouts.state.to_json()}};
  // A region of no bytes has no descriptor; the page's stands in its place and is not looked at.
  const auto fd_of = [&](const Lent& lent) { return lent.bytes() > 0 ? lent.fd() : page->fd(); };
  Result<Json> answer = child->call({{"kind", "profile_cuda"}, {"profile", request}},
                                    {page->fd(), fd_of(*inputs), fd_of(*state)}, kBaselineTimeout_s);
  if (!answer) {
    return answer.failure();
  }
  Result<profiler::Trace> trace = profiler::read_trace(page->data(), page->bytes());
  if (!trace) {
    return trace.failure();
  }
  ProfiledBaseline result{profiler::summarize(*trace, 1), std::nullopt};
  if (answer->contains("flops") && (*answer)["flops"].is_number()) {
    result.flops = (*answer)["flops"].get<double>();
  }
  return result;
}

profiler::Ceilings measure_ceilings(Device& device, Zygote& zygote) {
  profiler::Ceilings result;
  result.bandwidth = device.bandwidth();
  result.fma = profiler::measure_fma(device.stream(), device.multiprocessors());
  Result<Child> child = zygote.spawn();
  Result<Json> answer = child ? child->call({{"kind", "ceilings_cuda"}}, {}, kCeilingsTimeout_s) : child.failure();
  if (!answer) {
    result.unavailable = answer.failure().message;
    return result;
  }
  for (const auto& [name, rate] : answer->items()) {
    if (rate.is_number() && rate.get<double>() > 0) {
      result.gemm[name] = rate.get<double>();
    }
  }
  return result;
}

}  // namespace khost::judge::gpu
