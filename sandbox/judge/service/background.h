// Runs warm-up work on a detached thread. Its errors are dropped: the caller that needs the result meets the same error
// and reports it.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace khost::judge {

inline void run_in_background(std::function<void()> work) {
  std::thread([work = std::move(work)] {
    try {
      work();
    } catch (const std::exception&) {
    }
  }).detach();
}

}  // namespace khost::judge
