#include "sandbox/judge/cuda/subject.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "sandbox/judge/cuda/views.h"
#include "sandbox/judge/values/elements.h"
#include "sandbox/subject/fd_message.h"

namespace khost::judge::gpu {

using sandbox::Fd;

namespace {

constexpr double kCopyTimeout_s = 10;

Failure device_failure(const std::string& what) {
  return Failure{what + ": the GPU did not answer", "device"};
}

std::int64_t told(const Met& met) {
  return static_cast<std::int64_t>(met.count);
}

// A stream for copies that are made without the device lock, and therefore must not use the device's stream.
class OwnStream {
 public:
  OwnStream() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { cudaStreamDestroy(stream_); }
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) const {
    cudaMemcpyAsync(to, from, bytes, kind, stream_);
  }
  bool settle() const { return cudaStreamSynchronize(stream_) == cudaSuccess; }

 private:
  cudaStream_t stream_ = nullptr;
};

Status reveal_now(Device& device, const Call& call) {
  for (int i = 0; i < call.span_count; i++) {
    const Span& span = call.spans[i];
    cudaMemcpyAsync(span.to, span.from, span.bytes, cudaMemcpyDeviceToDevice, device.stream());
  }
  return device.settle(kCopyTimeout_s) ? ok() : Status(device_failure("revealing inputs"));
}

// The spans that reveal a set: inputs and state, from the judge's copy to the lent memory.
Call revealing(const Session& session, const Set& set, const Lent& inputs, const Lent& state) {
  Call call;
  const std::size_t first = session.layouts().inputs.region_bytes;
  const std::size_t second = session.layouts().state.region_bytes;
  if (first > 0) {
    call.spans[call.span_count++] = {set.device.data, inputs.data(), first};
  }
  if (second > 0) {
    call.spans[call.span_count++] = {set.device.data + first, state.data(), second};
  }
  return call;
}

}  // namespace

Candidate::~Candidate() {
  clock_.reset();
  jail_.reset();  // before the memory that it has mapped
}

Result<std::unique_ptr<Candidate>> Candidate::start(IdleSubject blank, const Session* session,
                                                    const sandbox::Plan& plan, const std::string& library) {
  std::unique_ptr<Candidate> subject(new Candidate(*blank.device));
  subject->session_ = session;
  subject->plan_ = plan;
  subject->control_ = std::move(blank.control);
  subject->jail_ = std::move(blank.jail);
  subject->clock_ = std::move(blank.clock);
  const std::string text = plan.to_json().dump();
  Result<Region> written = Region::make("plan", text.size(), Region::Others::read);
  if (!written) {
    return written.failure();
  }
  subject->text_ = std::move(*written);
  memcpy(subject->text_.data(), text.data(), text.size());
  std::vector<std::string> words = {"--plan", "@0", "--library", library};
  std::vector<int> fds = {subject->text_.fd()};
  if (library.find('/') != std::string::npos) {
    subject->library_ = Fd(open(library.c_str(), O_RDONLY | O_CLOEXEC));
    if (!subject->library_) {
      return sandbox::system_failure("open " + library);
    }
    words.back() = "@1";
    fds.push_back(subject->library_.get());
  }
  struct Part {
    const char* name;
    Lent Candidate::*memory;
    std::size_t bytes;
  };
  for (const Part& part :
       {Part{"--inputs", &Candidate::inputs_, session != nullptr ? session->layouts().inputs.region_bytes : 0},
        Part{"--state", &Candidate::state_, session != nullptr ? session->layouts().state.region_bytes : 0},
        Part{"--outputs", &Candidate::outputs_, plan.outputs.region_bytes}}) {
    Result<Lent> lent = Lent::make(part.bytes);
    if (!lent) {
      return lent.failure();
    }
    words.insert(words.end(), {part.name, "@" + std::to_string(fds.size()), std::to_string(lent->bytes())});
    // Memory of no bytes has no descriptor; the plan's stands in its place and is not looked at.
    fds.push_back(lent->bytes() > 0 ? lent->fd() : subject->text_.fd());
    subject.get()->*part.memory = std::move(*lent);
  }
  if (!sandbox::send_words(blank.orders.get(), words, fds)) {
    return Failure{"the subject ended before it was told what to play", "device"};
  }
  return subject;
}

Status Candidate::expect(const Batch& batch, const Tolerances& tolerances) {
  const Layouts& layouts = session_->layouts();
  views_.clear();
  for (const Set& set : batch.sets) {
    const std::byte* expected = set.device.data + layouts.inputs.region_bytes + layouts.state.region_bytes;
    const std::vector<View> views =
        views_of(plan_.outputs, outputs_.data(), layouts.outputs, expected, tolerances.of(set));
    for (const View& view : views) {
      if (view.dimensions > kMostDimensions) {
        return Failure{"an output has strides in more than 8 dimensions", "bad_task"};
      }
    }
    most_loose_ = std::max(most_loose_, gpu::most_loose(views));
    views_.insert(views_.end(), views.begin(), views.end());
  }
  Result<Memory> there = Memory::make(views_.size() * sizeof(View));
  Result<Memory> differences = Memory::make(layouts.outputs.tensors.size() * sizeof(Difference) + 64);
  if (!there || !differences) {
    return there ? differences.failure() : there.failure();
  }
  views_on_device_ = std::move(*there);
  differences_ = std::move(*differences);
  cudaMemcpyAsync(views_on_device_.data(), views_.data(), views_.size() * sizeof(View), cudaMemcpyHostToDevice,
                  device_.stream());
  return lay_out_tolerances(tolerances);
}

// Those of drawn sets, then those of planted ones.
Status Candidate::lay_out_tolerances(const Tolerances& tolerances) {
  tolerances_ = tolerances;
  std::vector<Tolerance> all = tolerances_.drawn;
  all.insert(all.end(), tolerances_.planted.begin(), tolerances_.planted.end());
  Result<Memory> there = Memory::make(all.size() * sizeof(Tolerance));
  if (!there) {
    return there.failure();
  }
  tolerances_on_device_ = std::move(*there);
  cudaMemcpyAsync(tolerances_on_device_.data(), all.data(), all.size() * sizeof(Tolerance), cudaMemcpyHostToDevice,
                  device_.stream());
  return device_.settle(kCopyTimeout_s) ? ok() : Status(device_failure("laying out outputs"));
}

const Tolerance* Candidate::tolerances_of(const Set& set) const {
  const auto* const first = reinterpret_cast<const Tolerance*>(tolerances_on_device_.data());
  return set.planted ? first + tolerances_.drawn.size() : first;
}

Call Candidate::revealing(const Batch& batch, std::size_t set) const {
  return gpu::revealing(*session_, batch.sets[set], inputs_, state_);
}

Status Candidate::reveal(const Batch& batch, std::size_t set) {
  return reveal_now(device_, revealing(batch, set));
}

Call Candidate::call_of(const Batch& batch, std::size_t set) const {
  Call call = revealing(batch, set);
  const std::size_t outputs = session_->layouts().outputs.tensors.size();
  call.outputs = {reinterpret_cast<const View*>(views_on_device_.data()) + set * outputs,
                  tolerances_of(batch.sets[set]), static_cast<int>(outputs)};
  call.seed = secret_number();
  return call;
}

Status Candidate::poison_outputs() {
  const std::uint64_t seed = secret_number();
  poison(device_.stream(), device_.multiprocessors(), outputs_.data(), outputs_.bytes(), seed, (seed & 1) != 0);
  for (const sandbox::TensorLeaf& leaf : plan_.outputs.tensors) {
    if (leaf.dtype == "bool") {
      const sandbox::Storage& storage = plan_.outputs.storages[leaf.storage];
      spoil_booleans(device_.stream(), device_.multiprocessors(), outputs_.data() + storage.offset, storage.bytes);
    }
  }
  return device_.settle(kCopyTimeout_s) ? ok() : Status(device_failure("overwriting outputs"));
}

std::optional<std::size_t> Candidate::before(std::size_t set) const {
  for (std::size_t i = met_.size(); i-- > 0;) {
    if (met_[i] != set) {
      return met_[i];
    }
  }
  return std::nullopt;
}

Window Candidate::direct(const Batch& batch, std::size_t set, double timeout_s) {
  met_.push_back(set);
  Window window;
  if (!poison_outputs() || !reveal(batch, set)) {
    window.end = Window::End::stuck;
    return window;
  }
  return clock_->direct(timeout_s);
}

Turn Candidate::queued(const Batch& batch, std::size_t set, double timeout_s) {
  met_.push_back(set);
  if (!poison_outputs()) {
    Turn turn;
    turn.lost = true;
    return turn;
  }
  return clock_->queued(call_of(batch, set), timeout_s);
}

Result<double> Candidate::value_at(const std::byte* base, std::int64_t index, const sandbox::TensorLeaf& leaf) const {
  std::byte element[16] = {};
  const std::size_t bytes = sandbox::dtype_bytes(leaf.dtype);
  const cudaError_t error =
      cudaMemcpy(element, base + index * static_cast<std::int64_t>(bytes), bytes, cudaMemcpyDeviceToHost);
  return error == cudaSuccess ? Result<double>(number_of(leaf.dtype, element)) : cuda_failure("reading outputs", error);
}

Result<std::optional<Mismatch>> Candidate::compare(const Batch& batch, std::size_t set) {
  if (Status laid = look_at(batch, set); !laid) {
    return laid.failure();
  }
  const Call call = call_of(batch, set);
  const auto& leaves = session_->layouts().outputs.tensors;
  std::vector<Difference> found(leaves.size());
  const std::size_t bytes = found.size() * sizeof(Difference);
  auto* there = reinterpret_cast<Difference*>(differences_.data());
  cudaMemcpyAsync(there, found.data(), bytes, cudaMemcpyHostToDevice, device_.stream());
  compare_all(device_.stream(), device_.multiprocessors(), call.outputs, there);
  cudaMemcpyAsync(found.data(), there, bytes, cudaMemcpyDeviceToHost, device_.stream());
  if (!device_.settle(kCopyTimeout_s)) {
    return device_failure("comparing outputs");
  }
  for (std::size_t i = 0; i < leaves.size(); i++) {
    const Reproach reproach = reproach_of(tolerances_.of(batch.sets[set])[i], leaves[i].count(),
                                          {told(found[i].wrong), told(found[i].out), told(found[i].untypical)});
    if (reproach == Reproach::none) {
      continue;
    }
    Result<Mismatch> wrong = mismatch(batch, set, i, reproach, found[i]);
    return wrong ? Result<std::optional<Mismatch>>(std::move(*wrong)) : wrong.failure();
  }
  return std::optional<Mismatch>();
}

// The first element of which that is said, and how many there are.
Result<Mismatch> Candidate::mismatch(const Batch& batch, std::size_t set, std::size_t output, Reproach reproach,
                                     const Difference& found) const {
  const Met& met = reproach == Reproach::wrong ? found.wrong : reproach == Reproach::out ? found.out : found.untypical;
  const sandbox::TensorLeaf& leaf = session_->layouts().outputs.tensors[output];
  const View& view = this->view(set, output);
  const auto flat = static_cast<std::int64_t>(met.first);
  const Result<double> got = value_at(view.got, element_offset(view, flat), leaf);
  const Result<double> expected = value_at(view.expected, flat, leaf);
  if (!got || !expected) {
    return got ? expected.failure() : got.failure();
  }
  const Tolerance& tolerance = tolerances_.of(batch.sets[set])[output];
  Mismatch mismatch = mismatch_of(tolerance, leaf.count(), reproach, told(met));
  mismatch.output = leaf.path;
  mismatch.examples.push_back({position_of(leaf.size, flat), *got, *expected,
                               allowed_by(tolerance, reproach, *expected, format_of(leaf.dtype), flat)});
  mismatch.largest = std::abs(*got - *expected);
  return mismatch;
}

Result<bool> Candidate::inputs_changed(const Batch& batch, std::size_t set) {
  const Call call = revealing(batch, set);
  auto* counter = reinterpret_cast<unsigned*>(differences_.data());
  unsigned count = 0;
  cudaMemsetAsync(counter, 0, sizeof *counter, device_.stream());
  for (int i = 0; i < call.span_count; i++) {
    count_changes(device_.stream(), device_.multiprocessors(), call.spans[i].from, call.spans[i].to,
                  call.spans[i].bytes, counter);
  }
  cudaMemcpyAsync(&count, counter, sizeof count, cudaMemcpyDeviceToHost, device_.stream());
  return device_.settle(kCopyTimeout_s) ? Result<bool>(count > 0) : device_failure("comparing inputs");
}

Result<std::unique_ptr<GpuBaseline>> GpuBaseline::begin(Device& device, Zygote& zygote, const Session& session,
                                                        const Batch& batch, const std::string& kind, Beside beside) {
  std::unique_ptr<GpuBaseline> subject(new GpuBaseline(device));
  const Layouts& layouts = session.layouts();
  subject->session_ = &session;
  Result<Region> control = Region::make("control", sandbox::kControlBytes, Region::Others::write);
  Result<Lent> inputs = Lent::make(layouts.inputs.region_bytes);
  Result<Lent> state = Lent::make(layouts.state.region_bytes);
  Result<Memory> dummy = Memory::make(std::size_t{4} << 20);
  Result<Memory> view = Memory::make(sizeof(View));
  if (!control) {
    return control.failure();
  }
  for (const auto* lent : {&inputs, &state}) {
    if (!*lent) {
      return lent->failure();
    }
  }
  for (const auto* memory : {&dummy, &view}) {
    if (!*memory) {
      return memory->failure();
    }
  }
  subject->control_ = std::move(*control);
  subject->inputs_ = std::move(*inputs);
  subject->state_ = std::move(*state);
  subject->dummy_ = std::move(*dummy);
  subject->view_on_device_ = std::move(*view);
  View sampled{};
  sampled.got = sampled.expected = subject->dummy_.data();
  sampled.element = Element::exact4;
  sampled.count = static_cast<std::int64_t>(subject->dummy_.bytes() / 4);
  const OwnStream stream;
  stream.copy(subject->view_on_device_.data(), &sampled, sizeof sampled, cudaMemcpyHostToDevice);
  const Call first = gpu::revealing(session, batch.sets[batch.drawn().front()], subject->inputs_, subject->state_);
  for (int i = 0; i < first.span_count; i++) {
    stream.copy(first.spans[i].to, first.spans[i].from, first.spans[i].bytes, cudaMemcpyDeviceToDevice);
  }
  if (!stream.settle()) {
    return device_failure("revealing inputs");
  }
  Result<Child> child = zygote.spawn();
  if (!child) {
    return child.failure();
  }
  subject->child_ = std::move(*child);
  constexpr const char* kBeside[] = {"", "wait", "build", "load"};
  const Json request = {{"kind", kind},
                        {"beside", kBeside[static_cast<int>(beside)]},
                        {"source", session.source()},
                        {"library", sandbox::self_directory() + "/libkhost_subject_cuda.so"},
                        {"bytes", {subject->inputs_.bytes(), subject->state_.bytes()}},
                        {"inputs", layouts.inputs.to_json()},
                        {"state", layouts.state.to_json()}};
  // A region of no bytes has no descriptor; the control page's stands in its place and is not looked at.
  const auto fd_of = [&](const Lent& lent) { return lent.bytes() > 0 ? lent.fd() : subject->control_.fd(); };
  const Status sent = subject->child_.tell({{"kind", "baseline_cuda"}, {"baseline", request}},
                                           {subject->control_.fd(), fd_of(subject->inputs_), fd_of(subject->state_)});
  return sent ? Result<std::unique_ptr<GpuBaseline>>(std::move(subject)) : sent.failure();
}

Status GpuBaseline::loaded(double timeout_s) {
  const Result<Json> answer = child_.answer(timeout_s);
  return answer ? ok() : Status(answer.failure());
}

Status GpuBaseline::ready(double timeout_s) {
  const Result<Json> warm = child_.call({{"kind", "warm_up"}}, {}, timeout_s);
  if (!warm) {
    return warm.failure();
  }
  Result<std::unique_ptr<GpuClock>> clock = GpuClock::make(device_, runner_of(&child_, control_.data()));
  if (!clock) {
    return clock.failure();
  }
  clock_ = std::move(*clock);
  clock_->stop();
  return ok();
}

Status GpuBaseline::reveal(const Batch& batch, std::size_t set) {
  return reveal_now(device_, gpu::revealing(*session_, batch.sets[set], inputs_, state_));
}

Window GpuBaseline::direct(const Batch& batch, std::size_t set, double timeout_s) {
  if (!reveal(batch, set)) {
    Window window;
    window.end = Window::End::stuck;
    return window;
  }
  return clock_->direct(timeout_s);
}

Turn GpuBaseline::queued(const Batch& batch, std::size_t set, double timeout_s) {
  Call call = gpu::revealing(*session_, batch.sets[set], inputs_, state_);
  call.outputs = {reinterpret_cast<const View*>(view_on_device_.data()), nullptr, 1};
  call.seed = secret_number();
  return clock_->queued(call, timeout_s);
}

}  // namespace khost::judge::gpu
