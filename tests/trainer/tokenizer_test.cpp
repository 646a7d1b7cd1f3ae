#include "trainer/model/tokenizer.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <unistd.h>

using namespace khost::trainer;

namespace {

const std::vector<std::string> kTexts = {
    "extern \"C\" int relu(const float* x, float* out, int64_t n) { for (int64_t i = 0; i < n; ++i) { out[i] = x[i]; } "
    "}",
    "for (int64_t i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] : 0; return 0;",
    "We're here: the caf\xc3\xa9 isn't open, 12345 times.  multiple   spaces\n\n"};

Tokenizer trained() {
  return train_tokenizer(kTexts, {.vocabulary = 320, .specials = {"<|im_start|>", "<|im_end|>"}}).value();
}

}  // namespace

TEST_CASE("any bytes survive encode and decode") {
  const Tokenizer tokenizer = trained();
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t i = random() % 60; i > 0; --i) {
      text += static_cast<char>(round % 2 == 0 ? random() % 256 : 32 + random() % 95);
    }
    for (const Special special : {Special::plain, Special::parse}) {
      CHECK(tokenizer.decode(tokenizer.encode(text, special), Special::parse) == text);
    }
  }
  for (const std::string& text : kTexts) {
    const std::vector<int32_t> tokens = tokenizer.encode(text, Special::plain);
    CHECK(tokens.size() < text.size());
    CHECK(tokenizer.decode(tokens, Special::plain) == text);
  }
}

TEST_CASE("a very long piece takes no quadratic time") {
  const std::string text(1 << 20, 'a');
  const Tokenizer tokenizer =
      train_tokenizer({"aaaa aaaa aaaa aaaaaaaa aaaaaaaa"}, {.vocabulary = 262, .specials = {}}).value();
  CHECK(tokenizer.decode(tokenizer.encode(text, Special::plain), Special::plain) == text);
}

TEST_CASE("text from tools cannot forge a turn") {
  const Tokenizer tokenizer = trained();
  const std::string text = "a<|im_end|>b";
  const int32_t end = tokenizer.special_id("<|im_end|>");
  CHECK(end == 1);
  const std::vector<int32_t> plain = tokenizer.encode(text, Special::plain);
  CHECK(std::count(plain.begin(), plain.end(), end) == 0);
  const std::vector<int32_t> parsed = tokenizer.encode(text, Special::parse);
  CHECK(std::count(parsed.begin(), parsed.end(), end) == 1);
  CHECK(tokenizer.decode(parsed, Special::plain) == "ab");
  CHECK(tokenizer.decode(parsed, Special::parse) == text);
}

TEST_CASE("digits stand alone and merges stay within words") {
  const Tokenizer tokenizer = trained();
  const std::vector<int32_t> digits = tokenizer.encode("12345", Special::plain);
  CHECK(digits.size() == 5);
}

TEST_CASE("a tokenizer file gives the same tokenizer back") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("khost-tokenizer-" + std::to_string(getpid()))).string();
  const Tokenizer tokenizer = trained();
  REQUIRE(tokenizer.save(path));
  const Tokenizer loaded = Tokenizer::load(path).value();
  std::filesystem::remove(path);
  CHECK(loaded.size() == tokenizer.size());
  CHECK(loaded.to_json() == tokenizer.to_json());
  for (const std::string& text : kTexts) {
    CHECK(loaded.encode(text + "<|im_end|>", Special::parse) == tokenizer.encode(text + "<|im_end|>", Special::parse));
  }
}

TEST_CASE("what a tokenizer file asks beyond byte-level BPE is refused by name") {
  khost::Json json = trained().to_json();
  json["normalizer"] = {{"type", "Lowercase"}};
  CHECK(Tokenizer::from_json(json).failure().message.find("Lowercase") != std::string::npos);
  json = trained().to_json();
  json["pre_tokenizer"] = {{"type", "Metaspace"}};
  CHECK(Tokenizer::from_json(json).failure().message.find("Metaspace") != std::string::npos);
}

TEST_CASE("a byte that the vocabulary lacks is left out and its neighbours meet") {
  khost::Json json = trained().to_json();
  json["model"]["vocab"].erase(bytes_to_printable("\x04"));
  const Tokenizer tokenizer = Tokenizer::from_json(json).value();
  CHECK(tokenizer.encode("int\x04"
                         "64_t",
                         Special::plain) == tokenizer.encode("int64_t", Special::plain));
  CHECK(tokenizer.encode("\x04", Special::plain).empty());
}

TEST_CASE("every byte has its printable stand-in") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  std::string back;
  REQUIRE(printable_to_bytes(bytes_to_printable(all), back));
  CHECK(back == all);
  CHECK(bytes_to_printable(" \n") == "\xc4\xa0\xc4\x8a");
  CHECK_FALSE(printable_to_bytes("\xe2\x82\xac", back));
}
