// The device lease: a reader-writer lock between processes over the cores (or the GPU) that timing needs alone.
// Timing a block takes it exclusively; generation and training steps take it shared, one short piece of work at a time.
// Held through flock(2), so that a process killed while holding it releases it.
// A lease object belongs to one thread at a time.
#pragma once

#include <string>

#include "host/base/result.h"

namespace khost {

class Lease {
 public:
  enum class Mode { shared, exclusive };

  class [[nodiscard]] Guard {
   public:
    Guard(Guard&& other) noexcept;
    Guard& operator=(Guard&&) = delete;
    ~Guard();

   private:
    friend class Lease;
    explicit Guard(int device) : device_(device) {}
    int device_;
  };

  // `path` names two lock files: `path` itself and `path`.gate. Fails with io when they cannot be opened.
  static Result<Lease> open(const std::string& path);
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&&) = delete;
  ~Lease();

  // Blocks until the lease is held. A waiting writer stops new readers: everybody passes the gate first, and
  // the writer keeps the gate while it waits for the readers inside to leave.
  Guard acquire(Mode mode);

 private:
  Lease(int gate, int device) : gate_(gate), device_(device) {}
  int gate_;
  int device_;
};

}  // namespace khost
