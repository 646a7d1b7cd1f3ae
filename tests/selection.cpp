#include "tests/selection.h"

#include <algorithm>
#include <set>
#include <sstream>

// Defined where doctest is implemented (tests/main.cpp); its headers declare it there alone.
namespace doctest::detail {
std::set<TestCase>& getRegisteredTests();
}

namespace khost::tests {
namespace {

// The path from "tests/" on, however the compiler was given it.
std::string from_root(const std::string& file) {
  const size_t at = file.rfind("tests/");
  return at == std::string::npos ? file : file.substr(at);
}

std::vector<std::string> split(const std::string& text, char between) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, between);) {
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

bool has_label(const std::string& file, const std::string& label) {
  const std::vector<std::string> folders = split(from_root(file), '/');
  if (folders.size() < 3) {
    return false;
  }
  const std::vector<std::string> words = split(folders.back().substr(0, folders.back().find("_test.")), '_');
  return folders[1] == label || std::find(words.begin(), words.end(), label) != words.end();
}

bool stands_in(const std::string& file, const std::string& place) {
  std::string wanted = from_root(place);
  while (wanted.ends_with('/')) {
    wanted.pop_back();
  }
  const std::string own = from_root(file);
  return own == wanted || own.starts_with(wanted + "/");
}

void keep_chosen(const std::vector<std::string>& words) {
  std::vector<std::string> places;
  std::vector<std::string> labels;
  for (const std::string& word : words) {
    (word.find('/') == std::string::npos ? labels : places).push_back(word);
  }
  keep_tests([&](const doctest::detail::TestCase& test) {
    const std::string file = test.m_file.c_str();
    const auto is_place = [&](const std::string& place) { return stands_in(file, place); };
    const auto is_label = [&](const std::string& label) { return has_label(file, label); };
    return (places.empty() || std::any_of(places.begin(), places.end(), is_place)) &&
           (labels.empty() || std::any_of(labels.begin(), labels.end(), is_label));
  });
}

void keep_tests(const std::function<bool(const doctest::detail::TestCase&)>& kept) {
  std::erase_if(doctest::detail::getRegisteredTests(),
                [&](const doctest::detail::TestCase& test) { return !kept(test); });
}

}  // namespace khost::tests
