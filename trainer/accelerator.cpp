#include "trainer/accelerator.h"

#include <dlfcn.h>
#include <unistd.h>

#include <stdexcept>

#include "host/base/executable.h"
#include "host/base/part.h"

namespace khost::trainer {
namespace {

constexpr const char* kLibrary = "libkhost_trainer_cuda.so";

Accelerator* opened = nullptr;

Result<Accelerator*> load() {
  const Result<void*> library =
      load_part({"trainer-cuda", kLibrary,
                 executable_dir() + "/" + kLibrary + " is not there: khost was built without a CUDA toolkit"});
  if (!library) {
    return Failure{"device cuda: " + library.failure().message, "host"};
  }
  using Make = Accelerator* (*)(std::string * why);
  const auto make = reinterpret_cast<Make>(dlsym(*library, "khost_trainer_accelerator"));
  if (make == nullptr) {
    return Failure{std::string("device cuda: ") + kLibrary + " is another version's", "host"};
  }
  std::string why;
  opened = make(&why);
  if (opened == nullptr) {
    return Failure{"device cuda: " + why, "host"};
  }
  return opened;
}

}  // namespace

Result<Accelerator*> open_accelerator() {
  static const Result<Accelerator*> loaded = load();
  return loaded;
}

Accelerator& accelerator() {
  if (opened == nullptr) {
    throw std::logic_error("no accelerator was opened");
  }
  return *opened;
}

void prepare_devices() {
  if (access("/dev/nvidiactl", F_OK) == 0) {
    (void)open_accelerator();
  }
}

}  // namespace khost::trainer
