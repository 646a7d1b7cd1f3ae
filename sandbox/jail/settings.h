// The agreement between jail.cpp and khost-jail-exec: descriptor numbers and the settings text.
#pragma once

#include <sys/types.h>

#include <string>

#include "sandbox/jail/jail_spec.h"
#include "sandbox/jail/view.h"

namespace khost::sandbox {

inline constexpr int kSettingsFd = 3;
inline constexpr int kStatusFd = 4;
inline constexpr int kFirstFd = 10;  // the program's descriptors, in the order of JailSpec::fds
inline constexpr int kMostFds = 32;
inline constexpr int kFirstDataFd = 50;    // read and closed by bubblewrap
inline constexpr int kReportFd = 99;       // in the program's setup: pipe to process 1
inline constexpr int kHighestInside = 98;  // of the numbers that a program may ask for

std::string settings_text(const JailSpec& spec, Route route, uid_t uid);

}  // namespace khost::sandbox
