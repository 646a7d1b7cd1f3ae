// Work begun for who will need it later, in a thread of its own. What fails there is met again by who needs it, who
// says so.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace khost::judge {

inline void aside(std::function<void()> work) {
  std::thread([work = std::move(work)] {
    try {
      work();
    } catch (const std::exception&) {
    }
  }).detach();
}

}  // namespace khost::judge
