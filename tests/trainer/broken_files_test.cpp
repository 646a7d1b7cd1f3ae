// Files that are cut, wrong or mutated: an error that names file and field, never a crash, never half a checkpoint.
#include <doctest/doctest.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/trainer/gguf_models.h"
#include "tests/trainer/support.h"
#include "trainer/learn/checkpoint.h"
#include "trainer/model/gguf.h"
#include "trainer/model/gguf_model.h"
#include "trainer/model/safetensors.h"
#include "trainer/trainer.h"

using namespace khost::trainer;
using khost::Json;
using khost::Result;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;

namespace {

std::shared_ptr<Trainer> tiny() {
  TrainerSpec spec;
  spec.config = ModelConfig{};
  spec.config->vocabulary = 300;
  spec.config->width = 16;
  spec.config->layers = 1;
  spec.config->heads = spec.config->kv_heads = 2;
  spec.config->head_width = 8;
  spec.config->mlp_width = 24;
  spec.tokenizer = std::make_shared<const Tokenizer>(
      train_tokenizer({"int a = 1; int b = 2; return a + b;"}, {.vocabulary = 270, .specials = {"<|end|>"}}).value());
  return Trainer::open(spec).value();
}

std::string why(const std::string& folder) {
  TrainerSpec spec;
  spec.model = folder;
  const auto opened = Trainer::open(spec);
  return opened ? "" : opened.failure().message;
}

void check_names(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    CAPTURE(message);
    CHECK(message.find(word) != std::string::npos);
  }
}

struct Edit {
  std::string file;
  std::function<void(Json&)> change;
  std::vector<std::string> words;
};

// Mutates `original` in `rounds` ways, with bytes, cuts and copies, and lets `use` read each:
// it must not crash, and what it accepts it must be able to use.
void mutate(const std::string& original, const std::string& path, int rounds, const std::function<void()>& use) {
  std::mt19937_64 random(7);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % std::max<size_t>(n, 1)); };
  for (int round = 0; round < rounds; ++round) {
    std::string text = original;
    for (size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
      // Headers are where readers decide; most edits go there.
      const size_t at = below(below(4) == 0 ? text.size() : std::min<size_t>(text.size(), 600));
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.resize(at);
          break;
        case 2:
          text.erase(at, 1 + below(9));
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
        default:
          text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
          break;
      }
    }
    write_text(path, text);
    use();
  }
}

}  // namespace

TEST_CASE("a broken model folder is refused with its file and field") {
  const TemporaryFolder folder;
  const std::string place = folder / "model";
  REQUIRE(tiny()->save(place, {}));
  const std::vector<Edit> edits = {
      {"config.json", [](Json& j) { j["model_type"] = "mamba"; }, {"config.json", "model_type", "mamba", "qwen3"}},
      {"config.json", [](Json& j) { j.erase("hidden_size"); }, {"config.json", "hidden_size"}},
      {"config.json", [](Json& j) { j["num_hidden_layers"] = "two"; }, {"config.json", "num_hidden_layers"}},
      {"config.json", [](Json& j) { j["hidden_size"] = 32; }, {"model.safetensors", "embed_tokens", "[300,16]"}},
      {"config.json", [](Json& j) { j["num_hidden_layers"] = 2; }, {"model.safetensors", "layers.1", "missing"}},
      {"config.json",
       [](Json& j) {
         j["rope_scaling"] = {{"rope_type", "yarn"}};
       },
       {"config.json", "rope", "yarn"}},
      {"config.json",
       [](Json& j) {
         j["rope_scaling"] = {{"rope_type", "llama3"}};
       },
       {"config.json", "factor"}},
      {"config.json", [](Json& j) { j["hidden_act"] = "gelu"; }, {"config.json", "hidden_act", "gelu"}},
      {"tokenizer.json",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Metaspace"}};
       },
       {"tokenizer.json", "pre_tokenizer", "Metaspace"}},
      {"tokenizer.json",
       [](Json& j) {
         j["normalizer"] = {{"type", "Lowercase"}};
       },
       {"tokenizer.json", "normalizer", "Lowercase"}},
      {"tokenizer.json", [](Json& j) { j["model"]["type"] = "Unigram"; }, {"tokenizer.json", "Unigram", "BPE"}},
      {"tokenizer.json", [](Json& j) { j["model"]["merges"].push_back("zz qq"); }, {"tokenizer.json", "merges", "zz"}},
  };
  for (const Edit& edit : edits) {
    const std::string path = place + "/" + edit.file;
    const std::string before = read_text(path);
    Json json = Json::parse(before);
    edit.change(json);
    REQUIRE(write_json(path, json));
    check_names(why(place), edit.words);
    write_text(path, before);
  }
  CHECK(why(place).empty());
  const std::string weights = place + "/model.safetensors";
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 4);
  check_names(why(place), {"model.safetensors", "lies outside the file"});
  std::filesystem::resize_file(weights, 5);
  check_names(why(place), {"model.safetensors", "too short"});
}

TEST_CASE("what is nested deeply, numbered beyond the range of ids, or no file at all is refused by its name") {
  const TemporaryFolder folder;
  const std::string place = folder / "model";
  REQUIRE(tiny()->save(place, {}));
  constexpr int kLevels = 100000;  // more than a stack takes
  std::string deep, end;
  for (int i = 0; i < kLevels; i++) {
    deep += R"({"type":"Sequence","pretokenizers":[)";
    end += "]}";
  }
  deep += "null" + end;
  const std::string path = place + "/tokenizer.json";
  const std::string before = read_text(path);
  Json json = Json::parse(before);
  json["pre_tokenizer"] = "HERE";
  std::string text = json.dump();
  text.replace(text.find("\"HERE\""), 6, deep);
  write_text(path, text);
  check_names(why(place), {"tokenizer.json", "nested deeper than 200"});
  for (const Json& id : {Json(int64_t{1} << 33), Json(-1), Json(1.5), Json("1")}) {
    json = Json::parse(before);
    json["added_tokens"][0]["id"] = id;
    write_text(path, json.dump());
    check_names(why(place), {"tokenizer.json", "token id", "no whole number"});
  }
  write_text(path, before);
  const std::string header = "{\"a\":" + std::string(kLevels, '[') + std::string(kLevels, ']') + "}";
  const uint64_t length = header.size();
  write_text(folder / "deep.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header);
  check_names(SafeTensors::open(folder / "deep.safetensors").failure().message, {"deep.safetensors", "nested deeper"});
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  check_names(SafeTensors::open(folder / "pipe").failure().message, {"pipe", "no regular file"});
  check_names(Gguf::open(folder.path).failure().message, {"no regular file"});
}

TEST_CASE("a shard that is missing or lacks its tensor is named") {
  const TemporaryFolder folder;
  const std::string place = folder / "model";
  REQUIRE(tiny()->save(place, {}));
  const SafeTensors whole = SafeTensors::open(place + "/model.safetensors").value();
  Json map = Json::object();
  for (const auto& [name, tensor] : whole.tensors()) {
    map[name] = "model-1.safetensors";
  }
  std::filesystem::rename(place + "/model.safetensors", place + "/model-1.safetensors");
  const std::string index = place + "/model.safetensors.index.json";
  REQUIRE(write_json(index, {{"weight_map", map}}));
  CHECK(why(place).empty());
  map["model.norm.weight"] = "model-2.safetensors";
  REQUIRE(write_json(index, {{"weight_map", map}}));
  check_names(why(place), {"model-2.safetensors"});
  map["model.norm.weight"] = "../model-2.safetensors";
  REQUIRE(write_json(index, {{"weight_map", map}}));
  check_names(why(place), {"index.json", "model.norm.weight"});
  map.erase("model.norm.weight");
  REQUIRE(write_json(index, {{"weight_map", map}}));
  check_names(why(place), {"index.json", "model.norm.weight", "missing"});
}

TEST_CASE("a full disk leaves the old checkpoint whole and nothing beside it") {
  const TemporaryFolder folder;
  const std::string place = folder / "checkpoint";
  const auto model = tiny();
  REQUIRE(model->save(place, {{"step", 1}}));
  // A limit on the size of files stands for a full disk: writes fail half-way in the same manner.
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t most : {rlim_t{100}, rlim_t{4096}, std::filesystem::file_size(place + "/model.safetensors") + 10}) {
    const rlimit small = {most, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    const khost::Status saved = model->save(place, {{"step", 2}});
    setrlimit(RLIMIT_FSIZE, &before);
    REQUIRE_FALSE(saved);
    CHECK(saved.failure().code == "io");
    check_names(saved.failure().message, {"write", place + ".new-", "File too large"});
    CHECK(verify_checkpoint(place));
    CHECK(model->load(place).value().at("step") == 1);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
  }
  std::signal(SIGXFSZ, handler);
}

TEST_CASE("mutated safetensors files never crash the reader") {
  const TemporaryFolder folder;
  const std::vector<float> values(24, 0.5f);
  const std::string path = folder / "x.safetensors";
  REQUIRE(
      write_safetensors(path, {{"a", {2, 3}, values.data()}, {"b.weight", {4, 4}, values.data()}}, {{"format", "pt"}}));
  int accepted = 0;
  mutate(read_text(path), path, 3000, [&] {
    const Result<SafeTensors> file = SafeTensors::open(path);
    if (!file) {
      CHECK(file.failure().message.find(path) != std::string::npos);
      return;
    }
    ++accepted;
    for (const auto& [name, tensor] : file.value().tensors()) {
      if (const auto read = file.value().read_floats(name, tensor.shape)) {
        CHECK(read.value().size() * 2 <= std::max<size_t>(tensor.bytes.size(), 1));
      }
    }
  });
  MESSAGE(accepted << " of 3000 mutated files were still readable");
}

TEST_CASE("mutated GGUF files never crash the reader") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  testing::GgufWriter writer;
  writer.text("general.architecture", "llama");
  writer.number("llama.block_count", 1);
  writer.texts("tokenizer.ggml.tokens", {"a", "b", "c"});
  writer.tensor("t0", {32, 2}, 3, std::string(40, '\x11'));
  writer.tensor("t1", {4}, 0, std::string(16, '\x3f'));
  writer.tensor("t2", {256, 1}, 12, std::string(144, '\x21'));
  writer.tensor("t3", {256, 1}, 14, std::string(210, '\x21'));
  int accepted = 0;
  mutate(writer.bytes(), path, 3000, [&] {
    const Result<Gguf> file = Gguf::open(path);
    if (!file) {
      CHECK(file.failure().message.find(path) != std::string::npos);
      return;
    }
    ++accepted;
    for (const auto& [name, tensor] : file.value().tensors()) {
      std::vector<float> out(tensor.bytes.empty() ? 0 : static_cast<size_t>(tensor.elements()));
      (void)dequantize(tensor, out);
    }
  });
  MESSAGE(accepted << " of 3000 mutated files were still readable");
}

TEST_CASE("mutated GGUF models become a folder that opens, or a failure by name and no folder") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  int accepted = 0;
  mutate(testing::small_model().bytes(), path, 300, [&] {
    std::filesystem::remove_all(folder / "model");
    const khost::Status made = convert_gguf(path, folder / "model");
    CHECK(std::filesystem::exists(folder / "model") == static_cast<bool>(made));
    if (!made) {
      CHECK(made.failure().message.find(path) != std::string::npos);
      return;
    }
    ++accepted;
    CHECK(why(folder / "model") == "");
  });
  MESSAGE(accepted << " of 300 mutated models were still converted");
}

TEST_CASE("counts and sizes of a GGUF file that overflow or lie are refused before memory is taken") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  const auto message = [&](const std::string& bytes) {
    write_text(path, bytes);
    const Result<Gguf> file = Gguf::open(path);
    return file ? std::string() : file.failure().message;
  };
  const auto with_number = [](std::string bytes, size_t at, uint64_t number) {
    std::memcpy(bytes.data() + at, &number, 8);
    return bytes;
  };
  testing::GgufWriter writer;
  writer.tensor("t", {32, 2}, 8, std::string(68, '\x11'));
  const std::string good = writer.bytes();
  CHECK(message(good) == "");
  // Header: magic, version, tensors (8), keys (16); the tensor: its name (24), dimensions (33), sizes (37, 45), type
  // (53), offset (57).
  check_names(message(with_number(good, 8, uint64_t{1} << 60)), {path, "tensors"});
  check_names(message(with_number(good, 16, uint64_t{1} << 60)), {path, "keys"});
  check_names(message(with_number(good, 24, ~uint64_t{0})), {path, "name of"});
  check_names(message(with_number(good, 37, uint64_t{1} << 63)), {path, "tensor t", "dimension"});
  check_names(message(with_number(with_number(good, 37, uint64_t{1} << 33), 45, uint64_t{1} << 33)),
              {path, "tensor t", "2^40 elements"});
  check_names(message(with_number(good, 37, 33)), {path, "tensor t", "33 elements", "Q8_0"});
  check_names(message(with_number(good, 45, 4)), {path, "tensor t", "outside the file: 136 bytes"});
  check_names(message(with_number(good, 57, ~uint64_t{31})), {path, "tensor t", "outside the file"});
  check_names(message(with_number(good, 57, 1)), {path, "tensor t", "not aligned"});
  check_names(message(good.substr(0, good.size() - 60)), {path, "tensor t", "fetch it again"});
  check_names(message(good.substr(0, 40)), {path, "ends in the middle of its header"});
  check_names(message("GGML" + good.substr(4)), {path, "no GGUF file"});
  check_names(message(with_number(good, 4, 0x0100000003000000)), {path, "GGUF version", "llama.cpp"});
  testing::GgufWriter list;
  list.texts("x", {});
  // Behind the key: its name (24), type (33), the elements' type (37), their count (41).
  check_names(message(with_number(list.bytes(), 41, uint64_t{1} << 62)), {path, "key x", "array of"});
}

TEST_CASE("mutated tokenizer files never crash the reader, and what loads encodes") {
  const TemporaryFolder folder;
  const std::string path = folder / "tokenizer.json";
  REQUIRE(tiny()->tokenizer()->save(path));
  int accepted = 0;
  // Edits all over the file: its header is small.
  std::string text = read_text(path);
  mutate(Json::parse(text).dump(), path, 400, [&] {
    const Result<Tokenizer> loaded = Tokenizer::load(path);
    if (!loaded) {
      CHECK(loaded.failure().message.find(path) != std::string::npos);
      return;
    }
    ++accepted;
    const auto tokens = loaded.value().encode("int a = 1; <|end|>\xff\xc3\xa9", Special::parse);
    (void)loaded.value().decode(tokens, Special::parse);
  });
  MESSAGE(accepted << " of 400 mutated files were still readable");
}
