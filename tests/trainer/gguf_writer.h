// Writes small GGUF files for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace khost::trainer::testing {

class GgufWriter {
 public:
  void text(const std::string& key, const std::string& value) {
    begin(key, 8);
    put_text(metadata_, value);
  }
  void number(const std::string& key, uint32_t value) {
    begin(key, 4);
    put(metadata_, value);
  }
  void flag(const std::string& key, bool value) {
    begin(key, 7);
    metadata_ += value ? '\1' : '\0';
  }
  void real(const std::string& key, float value) {
    begin(key, 6);
    put(metadata_, value);
  }
  void texts(const std::string& key, const std::vector<std::string>& values) {
    begin(key, 9);
    put(metadata_, uint32_t{8});
    put(metadata_, uint64_t{values.size()});
    for (const std::string& value : values) {
      put_text(metadata_, value);
    }
  }
  void numbers(const std::string& key, const std::vector<int32_t>& values) {
    begin(key, 9);
    put(metadata_, uint32_t{5});
    put(metadata_, uint64_t{values.size()});
    for (const int32_t value : values) {
      put(metadata_, value);
    }
  }
  // `dimensions` in the file's order: the row's length first.
  void tensor(const std::string& name, const std::vector<uint64_t>& dimensions, uint32_t type,
              const std::string& data) {
    put_text(infos_, name);
    put(infos_, static_cast<uint32_t>(dimensions.size()));
    for (const uint64_t size : dimensions) {
      put(infos_, size);
    }
    put(infos_, type);
    put(infos_, uint64_t{data_.size()});
    data_ += data;
    data_.resize((data_.size() + 31) / 32 * 32);
    ++tensors_;
  }

  std::string bytes() const {
    std::string all = "GGUF";
    put(all, uint32_t{3});
    put(all, tensors_);
    put(all, keys_);
    all += metadata_ + infos_;
    all.resize((all.size() + 31) / 32 * 32);
    return all + data_;
  }

 private:
  void begin(const std::string& key, uint32_t type) {
    put_text(metadata_, key);
    put(metadata_, type);
    ++keys_;
  }
  template <class T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void put_text(std::string& out, const std::string& text) {
    put(out, uint64_t{text.size()});
    out += text;
  }

  std::string metadata_, infos_, data_;
  uint64_t keys_ = 0, tensors_ = 0;
};

}  // namespace khost::trainer::testing
