// What the control page (turn.h) holds besides on a GPU. A call is played in one of two forms, which the judge chooses:
//
//   direct  the subject launches, waits for the device and acknowledges by `done`. Checked, not timed.
//   queued  the subject enqueues "wait for device_go", the launches, "write device_ack", and acknowledges by `done`
//           that all of it stands in the queue; then it is stopped, and nothing of it but the device runs.
//
// A set-up has three steps, each acknowledged. kOpened: a context on the device; nothing is known of a task, so such a
// process can stand ready. kPrepared: the plan, the judge's memory, handles; nothing of the candidate runs, so this may
// be done beside another one. kReady, once `go` says so: the candidate is loaded. A candidate in Python begins with the
// second step.
//
// The page is registered with CUDA on both sides. Device words have a cache line each.
#pragma once

#include "sandbox/subject/turn.h"

namespace khost::sandbox {

inline constexpr std::uint32_t kOpened = 0xfffffffdu;    // `done` after the first step
inline constexpr std::uint32_t kPrepared = 0xfffffffeu;  // `done` after the second

enum class Form : std::uint32_t { direct = 0, queued = 1 };

struct DeviceWords {
  alignas(128) std::uint32_t go;    // the judge's device writes the call's number when its inputs stand
  alignas(128) std::uint32_t ack;   // the subject's device writes it behind the last launch
  alignas(128) std::uint32_t form;  // the judge, before `go` of the control page
};

inline constexpr std::size_t kDeviceWordsOffset = 3072;
static_assert(sizeof(ControlPage) <= kDeviceWordsOffset);
static_assert(kDeviceWordsOffset + sizeof(DeviceWords) <= kControlBytes);

inline DeviceWords* device_words(void* page) {
  return reinterpret_cast<DeviceWords*>(static_cast<char*>(page) + kDeviceWordsOffset);
}

}  // namespace khost::sandbox
