#include "host/log/tensorboard.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

using namespace khost;

namespace {

template <class T>
T take(const std::string& data, size_t* at) {
  REQUIRE(*at + sizeof(T) <= data.size());
  T value;
  memcpy(&value, data.data() + *at, sizeof value);
  *at += sizeof value;
  return value;
}

uint64_t take_varint(const std::string& data, size_t* at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    auto byte = take<unsigned char>(data, at);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
}

// A message as (field number, raw value) pairs, decoded by the wire format alone.
std::vector<std::pair<int, std::string>> decode(const std::string& message) {
  std::vector<std::pair<int, std::string>> fields;
  size_t at = 0;
  while (at < message.size()) {
    uint64_t key = take_varint(message, &at);
    size_t length = 0;
    switch (key & 7) {
      case 0: {
        uint64_t value = take_varint(message, &at);
        fields.emplace_back(key >> 3, std::string(reinterpret_cast<char*>(&value), sizeof value));
        continue;
      }
      case 1:
        length = 8;
        break;
      case 2:
        length = take_varint(message, &at);
        break;
      case 5:
        length = 4;
        break;
      default:
        FAIL("unknown wire type");
    }
    REQUIRE(at + length <= message.size());
    fields.emplace_back(key >> 3, message.substr(at, length));
    at += length;
  }
  return fields;
}

std::vector<std::string> read_records(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  std::string data = text.str();
  std::vector<std::string> records;
  size_t at = 0;
  while (at < data.size()) {
    std::string length_bytes = data.substr(at, 8);
    auto length = take<uint64_t>(data, &at);
    CHECK(take<uint32_t>(data, &at) == masked_crc32c(length_bytes));
    records.push_back(data.substr(at, length));
    at += length;
    CHECK(take<uint32_t>(data, &at) == masked_crc32c(records.back()));
  }
  return records;
}

template <class T>
T number(const std::string& raw) {
  size_t at = 0;
  return take<T>(raw, &at);
}

}  // namespace

TEST_CASE("crc32c agrees with the vectors of RFC 3720") {
  CHECK(crc32c("123456789") == 0xe3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  // The mask: rotate right by 15, add a constant.
  CHECK(masked_crc32c("123456789") == ((0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u));
}

TEST_CASE("an event file decodes to its version and its scalars") {
  char folder[] = "/tmp/khost-events-XXXXXX";
  REQUIRE(mkdtemp(folder));
  auto writer = EventWriter::create(std::string(folder) + "/tensorboard", 1700000000.5);
  REQUIRE(writer);
  (*writer)->scalar("ppo/reward", 0.25, 3, 1700000001.25);
  (*writer)->scalar("ppo/reward", -1, 300, 1700000002);
  auto records = read_records((*writer)->path());
  REQUIRE(records.size() == 3);
  auto version = decode(records[0]);
  CHECK(version[0].first == 1);
  CHECK(number<double>(version[0].second) == 1700000000.5);
  CHECK(version[1] == std::pair<int, std::string>{3, "brain.Event:2"});
  auto event = decode(records[2]);
  REQUIRE(event.size() == 3);
  CHECK(number<double>(event[0].second) == 1700000002);
  CHECK(event[1].first == 2);
  CHECK(number<uint64_t>(event[1].second) == 300);
  CHECK(event[2].first == 5);
  auto value = decode(decode(event[2].second)[0].second);
  CHECK(value[0] == std::pair<int, std::string>{1, "ppo/reward"});
  CHECK(value[1].first == 2);
  CHECK(number<float>(value[1].second) == -1.0f);
  std::filesystem::remove_all(folder);
}
