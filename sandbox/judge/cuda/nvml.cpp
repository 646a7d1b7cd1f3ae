#include "sandbox/judge/cuda/nvml.h"

#include <dlfcn.h>

namespace khost::judge::gpu {
namespace {

// From nvml.h, which a machine with the driver need not have.
using Handle = void*;
constexpr unsigned kClockSm = 1;
constexpr unsigned kClockMemory = 2;
constexpr unsigned kTemperatureGpu = 0;

struct Nvml {
  int (*by_bus)(const char*, Handle*) = nullptr;
  int (*clock)(Handle, unsigned, unsigned*) = nullptr;
  int (*temperature)(Handle, unsigned, unsigned*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*reasons)(Handle, unsigned long long*) = nullptr;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return;
    }
    const auto find = [&](auto& slot, const char* name) {
      slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
    };
    int (*init)() = nullptr;
    find(init, "nvmlInit_v2");
    if (init == nullptr || init() != 0) {
      return;
    }
    find(by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
    find(clock, "nvmlDeviceGetClockInfo");
    find(temperature, "nvmlDeviceGetTemperature");
    find(power, "nvmlDeviceGetPowerUsage");
    find(reasons, "nvmlDeviceGetCurrentClocksEventReasons");
  }
};

}  // namespace

Json nvml_state(const std::string& bus_id) {
  static const Nvml nvml;
  Json result = Json::object();
  Handle gpu = nullptr;
  if (nvml.by_bus == nullptr || nvml.by_bus(bus_id.c_str(), &gpu) != 0) {
    return result;
  }
  unsigned value = 0;
  if (nvml.clock != nullptr && nvml.clock(gpu, kClockSm, &value) == 0) {
    result["sm_mhz"] = value;
  }
  if (nvml.clock != nullptr && nvml.clock(gpu, kClockMemory, &value) == 0) {
    result["memory_mhz"] = value;
  }
  if (nvml.temperature != nullptr && nvml.temperature(gpu, kTemperatureGpu, &value) == 0) {
    result["celsius"] = value;
  }
  if (nvml.power != nullptr && nvml.power(gpu, &value) == 0) {
    result["milliwatts"] = value;
  }
  unsigned long long bits = 0;
  if (nvml.reasons != nullptr && nvml.reasons(gpu, &bits) == 0) {
    result["clock_event_reasons"] = bits;
  }
  return result;
}

}  // namespace khost::judge::gpu
