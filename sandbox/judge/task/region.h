// Memory that the judge owns and lends: a sealed memfd and the judge's own mapping. An unsealed one lets whoever holds
// it cut it short and kill the judge with SIGBUS. One owner; the mapping may be used from any thread.
#pragma once

#include <cstddef>
#include <string>

#include "host/base/result.h"
#include "sandbox/jail/fd.h"

namespace khost::judge {

class Region {
 public:
  enum class Others { read, write };  // what holders of the descriptor may do; the judge's mapping always writes

  static Result<Region> make(const std::string& name, std::size_t bytes, Others others);
  // A file as memory of its own, for instance a candidate's library for each process: the file's locks, times and pages
  // would outlive the process, and all processes of the candidate would see them.
  static Result<Region> copy_of(const std::string& path);
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  int fd() const { return fd_.get(); }
  // The mapping stays; nobody can be lent it any more.
  void close_file();
  std::byte* data() const { return base_; }
  std::size_t bytes() const { return bytes_; }

 private:
  sandbox::Fd fd_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace khost::judge
