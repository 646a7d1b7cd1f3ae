#include "host/log/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "host/log/terminal.h"

namespace khost {

namespace {

std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ (value & 1 ? 0x82f63b78u : 0u);
    }
    table[i] = value;
  }
  return table;
}

// x86 and arm64 are little-endian, as the format is.
template <class T>
std::string raw(T value) {
  std::string out(sizeof value, '\0');
  memcpy(out.data(), &value, sizeof value);
  return out;
}

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>((value & 0x7f) | 0x80);
  }
  return out + static_cast<char>(value);
}

// A field's key is its number and how its value is encoded.
enum Wire { kVarint = 0, kDouble = 1, kBytes = 2, kFloat = 5 };
std::string key(int field, Wire wire) {
  return varint(static_cast<uint64_t>(field) << 3 | wire);
}
std::string bytes(int field, const std::string& value) {
  return key(field, kBytes) + varint(value.size()) + value;
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5. Summary: value = 1. Value: tag = 1, simple_value = 2.
std::string event(double time_s, int64_t step) {
  return key(1, kDouble) + raw(time_s) + key(2, kVarint) + varint(static_cast<uint64_t>(step));
}

}  // namespace

uint32_t crc32c(const std::string& data) {
  static const auto table = make_crc_table();
  uint32_t crc = 0xffffffffu;
  for (unsigned char byte : data) {
    crc = (crc >> 8) ^ table[(crc ^ byte) & 0xff];
  }
  return ~crc;
}

uint32_t masked_crc32c(const std::string& data) {
  uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

Result<std::unique_ptr<EventWriter>> EventWriter::create(const std::string& folder, double time_s) {
  static std::atomic<int> count = 0;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  // TensorBoard reads files in the order of their names: the time comes first.
  std::string path = folder + "/events.out.tfevents." + std::to_string(static_cast<int64_t>(time_s)) + "." + host +
                     "." + std::to_string(getpid()) + "." + std::to_string(count++);
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) {
    return Failure{"cannot open '" + path + "': " + strerror(errno), "io"};
  }
  std::unique_ptr<EventWriter> writer(new EventWriter(path, file));
  writer->record(key(1, kDouble) + raw(time_s) + bytes(3, "brain.Event:2"));
  return writer;
}

EventWriter::~EventWriter() {
  close(file_);
}

void EventWriter::scalar(const std::string& name, double value, int64_t step, double time_s) {
  std::string point = bytes(1, name) + key(2, kFloat) + raw(static_cast<float>(value));
  record(event(time_s, step) + bytes(5, bytes(1, point)));
}

void EventWriter::record(const std::string& data) {
  std::string length = raw(static_cast<uint64_t>(data.size()));
  write_all(file_, length + raw(masked_crc32c(length)) + data + raw(masked_crc32c(data)));
}

}  // namespace khost
