// How a jailed process that plays calls takes the profiler in: it loads libkhost_profiler.so beside itself and tells it
// where a call begins and ends. Without open(), and when that fails, the other functions do nothing. One thread.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>

#include "sandbox/profiler/page.h"

namespace khost::profiler {

class Injected {
 public:
  // `fd`: the page. Says in the page what went wrong; without a page there is nobody to tell.
  void open(int fd, const char* library, const char* cupti) {
    void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
      return;
    }
    void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const auto open_it = loaded != nullptr
                             ? reinterpret_cast<int (*)(void*, const char*)>(dlsym(loaded, "khost_profile_open"))
                             : nullptr;
    begin_ =
        open_it != nullptr ? reinterpret_cast<void (*)(std::uint32_t)>(dlsym(loaded, "khost_profile_begin")) : nullptr;
    end_ = open_it != nullptr ? reinterpret_cast<void (*)()>(dlsym(loaded, "khost_profile_end")) : nullptr;
    if (begin_ == nullptr || end_ == nullptr) {
      auto& header = *static_cast<PageHeader*>(page);
      const char* why = dlerror();
      std::snprintf(header.message, sizeof header.message, "the profiler does not load: %s",
                    why != nullptr ? why : library);
      header.magic = kMagic;
      header.failed = 1;
      begin_ = nullptr;
    } else {
      open_it(page, cupti);
    }
  }
  explicit operator bool() const { return begin_ != nullptr; }
  void begin(std::uint32_t call) const { begin_(call); }
  void end() const { end_(); }

 private:
  void (*begin_)(std::uint32_t) = nullptr;
  void (*end_)() = nullptr;
};

}  // namespace khost::profiler
