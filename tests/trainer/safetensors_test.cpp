#include "trainer/model/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace khost::trainer;

namespace {

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("khost-" + std::to_string(getpid()) + name)).string();
}

void write_raw(const std::string& path, const std::string& header, const std::string& data) {
  std::ofstream out(path, std::ios::binary);
  const uint64_t length = header.size();
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << header << data;
}

}  // namespace

TEST_CASE("tensors come back as they were written") {
  const std::string path = temporary(".safetensors");
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {-0.5f};
  REQUIRE(write_safetensors(path, {{"a", {2, 3}, a.data()}, {"b", {1}, b.data()}}, {{"format", "pt"}}));
  const SafeTensors file = SafeTensors::open(path).value();
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.read_floats("a", {2, 3}).value() == a);
  CHECK(file.read_floats("b", {1}).value() == b);
  CHECK(file.read_floats("a", {3, 2}).failure().code == "bad_input");
  CHECK(file.read_floats("c", {1}).failure().message.find("c is missing") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("half precision is widened exactly") {
  const std::string path = temporary("-half.safetensors");
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x3555};
  const uint16_t brains[] = {0x3f80, 0xc000};
  write_raw(
      path,
      R"({"h":{"dtype":"F16","shape":[5],"data_offsets":[0,10]},)"
      R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[10,14]}})",
      std::string(reinterpret_cast<const char*>(halves), 10) + std::string(reinterpret_cast<const char*>(brains), 4));
  const SafeTensors file = SafeTensors::open(path).value();
  CHECK(file.read_floats("h", {5}).value() == std::vector<float>{1, -2, 5.9604645e-8f, 65504, 0.33325195f});
  CHECK(file.read_floats("b", {2}).value() == std::vector<float>{1, -2});
  std::filesystem::remove(path);
}

TEST_CASE("files that lie about themselves are refused") {
  const std::string path = temporary("-bad.safetensors");
  for (const char* header : {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}})",
                             R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
                             R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})",
                             R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                             R"({"a":{"dtype":"X","shape":[2],"data_offsets":[0,8]}})", "{", "[]"}) {
    write_raw(path, header, "12345678");
    CHECK_FALSE(SafeTensors::open(path));
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << std::string(8, '\xff');
  CHECK_FALSE(SafeTensors::open(path));
  std::filesystem::remove(path);
}
