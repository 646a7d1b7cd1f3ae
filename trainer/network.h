// One set of weights that generation reads and training writes. Readers are rollouts in flight and passes that score;
// a writer waits for them and holds back new ones, so that a request keeps the weights it began with.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "trainer/model/weights.h"

namespace khost::trainer {

class WeightGate {
 public:
  // False while somebody writes or waits to write.
  bool try_read();
  void read();  // waits
  void end_read();

  // Runs `write` alone.
  template <class F>
  void write(F write) {
    begin_write();
    write();
    end_write();
  }

 private:
  void begin_write();
  void end_write();

  std::mutex mutex_;
  std::condition_variable changed_;
  int readers_ = 0;
  int writers_ = 0;  // waiting or at work
  bool writing_ = false;
};

class ReadWeights {
 public:
  explicit ReadWeights(WeightGate& gate) : gate_(gate) { gate_.read(); }
  ReadWeights(const ReadWeights&) = delete;
  ReadWeights& operator=(const ReadWeights&) = delete;
  ~ReadWeights() { gate_.end_read(); }

 private:
  WeightGate& gate_;
};

struct Network {
  Weights weights;
  WeightGate gate;
  uint64_t version = 0;  // grows with every change of the weights; read under the gate
};

}  // namespace khost::trainer
