#include "sandbox/judge/cuda/python_candidate.h"

#include <fcntl.h>
#include <string.h>

#include <algorithm>

#include "host/base/json_text.h"
#include "sandbox/abi/plan.h"
#include "sandbox/judge/cuda/views.h"
#include "sandbox/judge/evaluation/blame.h"

namespace khost::judge::gpu {

using sandbox::Manifest;
using sandbox::TensorLeaf;

namespace {

constexpr std::size_t kReportBytes = std::size_t{1} << 18;
constexpr std::size_t kLeastArena = std::size_t{512} << 20;
constexpr double kCopyTimeout_s = 10;
// Statuses of candidate_turns.py; the last is the judge's own.
constexpr std::uint32_t kRefused = 2;
constexpr std::uint32_t kOtherOutputs = 0x10000;

// Outputs twice (those of a call and of the one before), what the constructor makes beside the state, and room to work
// in.
std::size_t arena_bytes(const Session* session) {
  if (session == nullptr) {
    return 0;
  }
  const Layouts& layouts = session->layouts();
  return kLeastArena + 3 * layouts.outputs.region_bytes + 2 * layouts.state.region_bytes + layouts.inputs.region_bytes;
}

struct Bytes {
  std::size_t from = 0, count = 0;
};

// Of the region, from a tensor's first to its last element.
Bytes bytes_of(const Manifest& manifest, const TensorLeaf& leaf) {
  const std::size_t element = sandbox::dtype_bytes(leaf.dtype);
  std::int64_t last = leaf.offset;
  for (std::size_t i = 0; i < leaf.size.size(); i++) {
    if (leaf.size[i] == 0) {
      return {};
    }
    last += (leaf.size[i] - 1) * leaf.stride[i];
  }
  return {manifest.storages[leaf.storage].offset + static_cast<std::size_t>(leaf.offset) * element,
          static_cast<std::size_t>(last - leaf.offset + 1) * element};
}

}  // namespace

PythonCandidate::~PythonCandidate() {
  clock_.reset();
  child_ = Child();  // before the memory that it has mapped
}

Result<std::unique_ptr<PythonCandidate>> PythonCandidate::start(Device& device, const Session* session, Zygote& home,
                                                                const PythonProgram& program,
                                                                const Profiling* profiling) {
  std::unique_ptr<PythonCandidate> subject(new PythonCandidate(device));
  subject->session_ = session;
  Result<Lent> inputs = Lent::make(session != nullptr ? session->layouts().inputs.region_bytes : 0);
  Result<Lent> state = Lent::make(session != nullptr ? session->layouts().state.region_bytes : 0);
  Result<Lent> arena = Lent::make(arena_bytes(session));
  for (const auto* lent : {&inputs, &state, &arena}) {
    if (!*lent) {
      return lent->failure();
    }
  }
  Result<Region> control = Region::make("control", sandbox::kControlBytes, Region::Others::write);
  Result<Region> report = Region::make("report", kReportBytes, Region::Others::write);
  if (!control || !report) {
    return control ? report.failure() : control.failure();
  }
  subject->inputs_ = std::move(*inputs);
  subject->state_ = std::move(*state);
  subject->outputs_ = std::move(*arena);
  subject->control_ = std::move(*control);
  subject->report_ = std::move(*report);

  Json keys = Json::array();
  const int nothing = subject->control_.fd();  // stands where there is no memory, and is not looked at
  const auto fd_of = [&](const Lent& lent) { return lent.bytes() > 0 ? lent.fd() : nothing; };
  std::vector<int> fds = {subject->control_.fd(), subject->report_.fd(), fd_of(subject->inputs_),
                          fd_of(subject->state_), fd_of(subject->outputs_)};
  for (const auto& [key, path] : program.libraries) {
    sandbox::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
      return sandbox::system_failure("open " + path);
    }
    keys.push_back(key);
    fds.push_back(file.get());
    subject->libraries_.push_back(std::move(file));
  }
  Json request = {{"library", sandbox::self_directory() + "/libkhost_subject_cuda.so"},
                  {"bytes", {subject->inputs_.bytes(), subject->state_.bytes(), subject->outputs_.bytes()}},
                  {"empty", session == nullptr},
                  {"source", program.source},
                  {"init", program.init},
                  {"rules", program.rules},
                  {"most_operators", program.most_operators},
                  {"audits", program.audits},
                  {"keys", keys}};
  if (session != nullptr) {
    request["inputs"] = session->layouts().inputs.to_json();
    request["state"] = session->layouts().state.to_json();
  }
  if (profiling != nullptr) {
    request["profile"] = {{"library", profiling->library}, {"cupti", profiling->loaded}};
    fds.push_back(profiling->page_fd);
  }
  Result<Child> child = home.spawn();
  if (!child) {
    return child.failure();
  }
  subject->child_ = std::move(*child);
  Child* held = &subject->child_;
  if (Status told = held->tell({{"kind", "candidate_cuda"}, {"candidate", request}}, fds); !told) {
    return told.failure();
  }
  Result<std::unique_ptr<GpuClock>> clock = GpuClock::make(device, runner_of(held, subject->control_.data()));
  if (!clock) {
    return clock.failure();
  }
  subject->clock_ = std::move(*clock);
  return subject;
}

Status PythonCandidate::expect(const Batch&, const Tolerances& tolerances) {
  const std::size_t outputs = session_->layouts().outputs.tensors.size();
  Result<Memory> there = Memory::make(std::max<std::size_t>(outputs, 1) * sizeof(View));
  Result<Memory> differences = Memory::make(outputs * sizeof(Difference) + 64);
  if (!there || !differences) {
    return there ? differences.failure() : there.failure();
  }
  views_on_device_ = std::move(*there);
  differences_ = std::move(*differences);
  return lay_out_tolerances(tolerances);
}

Status PythonCandidate::look_at(const Batch& batch, std::size_t set) {
  const Layouts& layouts = session_->layouts();
  const std::byte* expected = batch.sets[set].device.data + layouts.inputs.region_bytes + layouts.state.region_bytes;
  views_ = views_of(returned_, outputs_.data(), layouts.outputs, expected, tolerances_.of(batch.sets[set]));
  for (const View& view : views_) {
    if (view.dimensions > kMostDimensions) {
      return Failure{"an output has strides in more than 8 dimensions", "bad_task"};
    }
  }
  most_loose_ = gpu::most_loose(views_);
  cudaMemcpyAsync(views_on_device_.data(), views_.data(), views_.size() * sizeof(View), cudaMemcpyHostToDevice,
                  device_.stream());
  return device_.settle(kCopyTimeout_s) ? ok()
                                        : Status(Failure{"laying out outputs: the GPU did not answer", "device"});
}

Call PythonCandidate::call_of(const Batch& batch, std::size_t set) const {
  Call call = revealing(batch, set);
  call.outputs = {reinterpret_cast<const View*>(views_on_device_.data()), tolerances_of(batch.sets[set]),
                  static_cast<int>(views_.size())};
  call.seed = secret_number();
  return call;
}

void PythonCandidate::take_report(Window& window) {
  known_ = false;
  std::uint32_t size = 0;
  memcpy(&size, report_.data(), sizeof size);
  // Copied once, so that a writer that escaped the stop could not change it between two reads.
  const std::string text(reinterpret_cast<const char*>(report_.data()) + sizeof size,
                         std::min<std::size_t>(size, report_.bytes() - sizeof size));
  const auto reject = [&](const std::string& why) {
    window.status = kOtherOutputs;
    window.message = why;
  };
  const Result<Json> json = parse_json(text);
  Result<Manifest> manifest =
      json ? Manifest::parse(*json) : Result<Manifest>(Failure{"forward's value is not described", "shape"});
  if (!manifest) {
    return reject(manifest.failure().message);
  }
  if (Status same = sandbox::match_outputs(*manifest, session_->layouts().outputs); !same) {
    return reject(same.failure().message);
  }
  if (manifest->region_bytes > outputs_.bytes()) {
    return reject("an output lies outside of the judge's memory");
  }
  // Storages of their own each, so that no two outputs are one piece of memory.
  std::vector<Bytes> pieces;
  for (const TensorLeaf& leaf : manifest->tensors) {
    pieces.push_back(bytes_of(*manifest, leaf));
  }
  std::sort(pieces.begin(), pieces.end(), [](const Bytes& a, const Bytes& b) { return a.from < b.from; });
  for (std::size_t i = 1; i < pieces.size(); i++) {
    if (pieces[i].count > 0 && pieces[i - 1].from + pieces[i - 1].count > pieces[i].from) {
      return reject("two outputs share memory");
    }
  }
  returned_ = std::move(*manifest);
  known_ = true;
}

// Nothing of the call has run where it waits for its opening; what was written ahead is gone.
Status PythonCandidate::poison_returned() {
  for (const TensorLeaf& leaf : returned_.tensors) {
    const Bytes piece = bytes_of(returned_, leaf);
    const std::uint64_t seed = secret_number();
    std::byte* const first = outputs_.data() + piece.from;
    std::byte* const aligned = outputs_.data() + (piece.from + 7) / 8 * 8;
    const std::size_t skipped = static_cast<std::size_t>(aligned - first);
    if (piece.count > skipped) {
      poison(device_.stream(), device_.multiprocessors(), aligned, piece.count - skipped, seed, (seed & 1) != 0);
    }
    if (piece.count < 64) {
      cudaMemsetAsync(first, static_cast<int>(seed & 0xff) | 2, piece.count, device_.stream());
    }
    if (leaf.dtype == "bool") {
      spoil_booleans(device_.stream(), device_.multiprocessors(), first, piece.count);
    }
  }
  return device_.settle(kCopyTimeout_s) ? ok()
                                        : Status(Failure{"overwriting outputs: the GPU did not answer", "device"});
}

Window PythonCandidate::direct(const Batch& batch, std::size_t set, double timeout_s) {
  met_.push_back(set);
  Window window;
  if ((known_ && !poison_returned()) || !reveal(batch, set)) {
    window.end = Window::End::stuck;
    return window;
  }
  window = clock_->direct(timeout_s);
  if (window.end == Window::End::done && window.status == 0) {
    take_report(window);
  }
  return window;
}

Turn PythonCandidate::queued(const Batch& batch, std::size_t set, double timeout_s) {
  met_.push_back(set);
  return clock_->queued(revealing(batch, set), timeout_s, [&](Window& window, Call& call) {
    take_report(window);
    if (window.status != 0) {
      return;
    }
    if (!poison_returned() || !look_at(batch, set)) {
      window.end = Window::End::stuck;
      window.status = kOtherOutputs;
      window.message = "the GPU did not answer";
      return;
    }
    call = call_of(batch, set);
  });
}

Finding PythonCandidate::blame(const Window& window) const {
  if (window.status == kRefused) {
    return blame_python(window.message);
  }
  return window.status == kOtherOutputs ? Finding{Outcome::wrong, Reason::shape, window.message}
                                        : Candidate::blame(window);
}

}  // namespace khost::judge::gpu
