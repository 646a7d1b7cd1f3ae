// What the tests of the direct ABI share: a cache folder that lasts for the test program, and the kernels of
// tests/data/kernels.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "sandbox/build/build.h"

namespace khost::sandbox::test {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Files of a folder as the judge takes them: kernels/** and model_new.py.
inline std::map<std::string, std::string> candidate_files(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      // Not relative(), which resolves links.
      files[entry.path().lexically_relative(folder).string()] = read_text(entry.path());
    }
  }
  return files;
}

struct CacheFolder {
  std::string path = (std::filesystem::temp_directory_path() / "khost-test-XXXXXX").string();
  CacheFolder() {
    setenv("KHOST_ROOT", KHOST_SOURCE_DIR, 0);
    if (mkdtemp(path.data()) == nullptr) {
      throw std::runtime_error("mkdtemp " + path);
    }
  }
  ~CacheFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
};

inline const std::string& shared_cache() {
  static const CacheFolder folder;
  return folder.path;
}

inline Result<Built> build_source(const std::string& source) {
  return build({.files = {{"kernels/k.cpp", source}}, .cache_dir = shared_cache()});
}

}  // namespace khost::sandbox::test
