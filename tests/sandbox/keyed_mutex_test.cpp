#include "sandbox/judge/service/keyed_mutex.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

using khost::judge::KeyedMutex;

TEST_CASE("a keyed mutex: one at a time for a key, other keys go on") {
  KeyedMutex mutex;
  std::atomic<int> inside{0}, most{0}, done{0};
  std::vector<std::thread> threads;
  {
    const KeyedMutex::Lock other(mutex, "another");
    for (int i = 0; i < 8; i++) {
      threads.emplace_back([&] {
        const KeyedMutex::Lock lock(mutex, "one");
        const int now = ++inside;
        most = std::max(most.load(), now);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        inside--;
        done++;
      });
    }
    for (std::thread& thread : threads) {
      thread.join();  // while "another" is held
    }
  }
  CHECK(done == 8);
  CHECK(most == 1);

  std::atomic<bool> passed{false};
  std::thread waits;
  {
    const KeyedMutex::Lock held(mutex, "one");
    waits = std::thread([&] {
      const KeyedMutex::Lock lock(mutex, "one");
      passed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(passed);
  }
  waits.join();
  CHECK(passed);
}
