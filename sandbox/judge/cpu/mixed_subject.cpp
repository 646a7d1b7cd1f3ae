// A subject that plays a plan with torch operators: a child of a zygote whose children are confined.

#include "sandbox/judge/cpu/subject.h"

namespace khost::judge {

Result<std::unique_ptr<Subject>> Subject::start_mixed(const Session& session, const sandbox::Plan& plan,
                                                      const MixedSubject& mixed) {
  std::unique_ptr<Subject> subject(new Subject);
  subject->plan_ = plan;
  const Layouts& layouts = session.layouts();
  Result<Region> control = Region::make("control", sandbox::kControlBytes, Region::Others::write);
  Result<Region> inputs = Region::make("inputs", layouts.inputs.region_bytes, Region::Others::read);
  Result<Region> state = Region::make("state", layouts.state.region_bytes, Region::Others::read);
  Result<Region> outputs = Region::make("outputs", plan.outputs.region_bytes, Region::Others::write);
  for (const auto* region : {&control, &inputs, &state, &outputs}) {
    if (!*region) {
      return region->failure();
    }
  }
  subject->control_ = std::move(*control);
  subject->inputs_ = std::move(*inputs);
  subject->state_ = std::move(*state);
  subject->outputs_ = std::move(*outputs);
  std::vector<int> fds = {subject->control_.fd(), subject->inputs_.fd(), subject->state_.fd(), subject->outputs_.fd(),
                          mixed.own.fd()};
  if (!mixed.library.empty()) {
    Result<Region> copied = Region::copy_of(mixed.library);
    if (!copied) {
      return copied.failure();
    }
    subject->library_ = std::move(*copied);
    fds.push_back(subject->library_.fd());
  }
  Result<Child> child = mixed.zygote.spawn();
  if (!child) {
    return child.failure();
  }
  subject->child_ = std::move(*child);
  Child* held = &subject->child_;
  pin(held->pid(), subject_core(), subject_cores(mixed.threads));
  const Json request = {{"plan", plan.to_json()},
                        {"signatures", mixed.signatures},
                        {"library", !mixed.library.empty()},
                        {"lends", mixed.lends},
                        {"threads", mixed.threads},
                        {"page", sandbox::self_directory() + "/libkhost_subject_python.so"}};
  if (Status told = held->tell({{"kind", "mixed_subject"}, {"subject", request}}, fds); !told) {
    return told.failure();
  }
  subject->clock_ = std::make_unique<Clock>(
      Player{held->pid(), reinterpret_cast<sandbox::ControlPage*>(subject->control_.data()), [held] { held->freeze(); },
             [held] { held->thaw(); }, [held] { return held->ended(); }, subject_core(), subject_cores(mixed.threads)});
  return subject;
}

}  // namespace khost::judge
