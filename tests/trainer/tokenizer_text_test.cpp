// Ids against Hugging Face's `tokenizers` on ten megabytes of source code, CUDA, Unicode and random bytes.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/trainer/support.h"
#include "trainer/learn/checkpoint.h"
#include "trainer/model/normalizer.h"
#include "trainer/model/pre_tokenizer.h"
#include "trainer/model/tokenizer.h"

using namespace khost::trainer;
using khost::Json;
using testing::read_text;
using testing::TemporaryFolder;

namespace {

std::vector<int32_t> read_ids(const std::string& path) {
  const std::string bytes = read_text(path);
  std::vector<int32_t> ids(bytes.size() / 4);
  std::memcpy(ids.data(), bytes.data(), ids.size() * 4);
  return ids;
}

std::vector<std::string> cut(const char* name, const std::string& text) {
  const auto cutter = PreTokenizer::open(named_pre_tokenizer(name).value()).value();
  std::vector<std::string> pieces;
  for (const std::string_view piece : cutter->cut(text)) {
    pieces.emplace_back(piece);
  }
  return pieces;
}

// Where two lists part, in words that lead to the text.
std::string difference(const Tokenizer& tokenizer, const std::vector<int32_t>& ours,
                       const std::vector<int32_t>& theirs) {
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  const auto some = [&](auto from, auto end, auto begin) {
    const auto first = from - std::min<std::ptrdiff_t>(5, from - begin);
    return Json(tokenizer.decode({first, from + std::min<std::ptrdiff_t>(6, end - from)}, Special::parse))
        .dump(-1, ' ', true, Json::error_handler_t::replace);
  };
  return "ours " + some(a, ours.end(), ours.begin()) + " theirs " + some(b, theirs.end(), theirs.begin());
}

}  // namespace

TEST_CASE("the families cut digits, contractions, spaces and line ends each in their way") {
  CHECK(cut("smollm", "x 1234") == std::vector<std::string>{"x", " ", "1", "2", "3", "4"});
  CHECK(cut("llama-bpe", "x 12345") == std::vector<std::string>{"x", " ", "123", "45"});
  CHECK(cut("qwen2", "x 123") == std::vector<std::string>{"x", " ", "1", "2", "3"});
  CHECK(cut("gpt-2", "x 123  y") == std::vector<std::string>{"x", " 123", " ", " y"});
  CHECK(cut("qwen2", "I'LL go;\n\n  now") == std::vector<std::string>{"I", "'LL", " go", ";\n\n", " ", " now"});
  CHECK(cut("gpt-2", "I'LL") == std::vector<std::string>{"I", "'", "LL"});
  // U+180E is no space; U+3000 is.
  CHECK(cut("llama-bpe", "a\u180eb\u3000c") == std::vector<std::string>{"a", "\u180eb", "\u3000c"});
  CHECK_FALSE(named_pre_tokenizer("tekken"));
}

TEST_CASE("NFC composes text and leaves bytes that are no UTF-8 alone") {
  CHECK(compose("plain") == "plain");
  CHECK(compose("e\u0301") == "\u00e9");
  CHECK(compose("\xff e\u0301\xc3") == "\xff \u00e9\xc3");
  CHECK(compose("\u1100\u1161") == "\uac00");
  CHECK(compose("a\u0315\u0300") == "\u00e0\u0315");
}

TEST_CASE("token ids are those of `tokenizers` for each family") {
  const std::string python = testing::python_with("tokenizers");
  if (python.empty()) {
    MESSAGE("skipped: no tokenizers; pip install tokenizers and set KHOST_REFERENCE_PYTHON");
    return;
  }
  const TemporaryFolder folder;
  const char* size = std::getenv("KHOST_TEST_TEXT_BYTES");  // a smaller text for a quick look
  const char* given = std::getenv("KHOST_TEST_TOKENIZER");  // a tokenizer.json more
  const testing::Ran made =
      testing::run(python + " " + KHOST_SOURCE_DIR + "/tests/trainer/tokenizer_golden.py " + folder.path + " " +
                   (size != nullptr ? size : "10485760") + " " + (given != nullptr ? given : "") + " 2>&1");
  REQUIRE_MESSAGE(made.code == 0, made.output);
  const std::string text = read_text(folder / "text");
  const auto lengths = read_json(folder / "lengths.json").value().get<std::vector<size_t>>();
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    if (!entry.is_directory()) {
      continue;
    }
    const std::string name = entry.path().filename();
    CAPTURE(name);
    const auto loaded = Tokenizer::load(entry.path() / "tokenizer.json");
    REQUIRE_MESSAGE(loaded, loaded.failure().message);
    const Tokenizer& tokenizer = loaded.value();
    for (const auto& [kind, special] : {std::pair{"plain", Special::plain}, std::pair{"special", Special::parse}}) {
      INFO(std::string(kind));
      std::vector<int32_t> ours;
      size_t from = 0;
      for (const size_t length : lengths) {
        const std::vector<int32_t> ids = tokenizer.encode(std::string_view(text).substr(from, length), special);
        ours.insert(ours.end(), ids.begin(), ids.end());
        from += length;
      }
      const std::vector<int32_t> theirs = read_ids(entry.path() / (std::string(kind) + ".ids"));
      const bool equal = ours == theirs;
      CHECK_MESSAGE(equal, difference(tokenizer, ours, theirs));
      MESSAGE(name << ", " << std::string(kind) << ": " << ours.size() << " tokens of " << text.size() << " bytes");
    }
  }
}
