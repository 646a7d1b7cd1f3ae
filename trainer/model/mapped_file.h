// A whole file as read-only memory. Move-only; views into it live as long as the object.
#pragma once

#include <string>
#include <string_view>

#include "host/base/result.h"

namespace khost::trainer {

class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::string_view bytes() const { return {static_cast<const char*>(map_), length_}; }

 private:
  void* map_ = nullptr;
  size_t length_ = 0;
};

}  // namespace khost::trainer
