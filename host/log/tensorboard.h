// TensorBoard event files, written by hand: a record is length, masked CRC of the length, an Event message in the
// protocol-buffer wire format, masked CRC of it (tensorflow/core/lib/io/record_writer.cc and util/event.proto).
// Only what scalars need. One thread at a time; Log guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "host/base/result.h"

namespace khost {

// CRC-32C (Castagnoli), and the rotated form that record files use so that a CRC of data with a CRC stays sound.
uint32_t crc32c(const std::string& data);
uint32_t masked_crc32c(const std::string& data);

class EventWriter {
 public:
  // Makes the folder and in it a new file events.out.tfevents.<seconds>.<host>.<process>.<n>.
  static Result<std::unique_ptr<EventWriter>> create(const std::string& folder, double time_s);
  EventWriter(const EventWriter&) = delete;
  ~EventWriter();

  // Written at once: a killed run keeps every point.
  void scalar(const std::string& name, double value, int64_t step, double time_s);
  const std::string& path() const { return path_; }

 private:
  EventWriter(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void record(const std::string& event);

  std::string path_;
  int file_;
};

}  // namespace khost
