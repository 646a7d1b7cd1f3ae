#include "host/config/config.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "host/config/nearest.h"
#include "host/config/toml.h"

using namespace khost;
namespace fs = std::filesystem;

namespace {

// A folder of TOML files that goes away with the test.
struct Files {
  fs::path folder;
  Files() {
    char name[] = "/tmp/khost-config-XXXXXX";
    folder = mkdtemp(name);
  }
  ~Files() { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
};

std::string message(const Result<Config>& result) {
  REQUIRE_FALSE(static_cast<bool>(result));
  CHECK(result.failure().code == "bad_input");
  return result.failure().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("edit distance counts a swap of neighbours once") {
  CHECK(edit_distance("steps", "steps") == 0);
  CHECK(edit_distance("stpes", "steps") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest legal name is found by its last part too") {
  CHECK(nearest("stpes", {"ppo.lr", "ppo.steps", "rft.epochs"}) == "ppo.steps");
  CHECK(nearest("ppo.epoch", {"ppo.lr", "ppo.steps", "rft.epochs"}) == "rft.epochs");
  CHECK(nearest("x", {}).empty());
}

TEST_CASE("a preset lies over the machine's defaults and --set over both, each with its origin") {
  Files files;
  ConfigRequest request;
  request.machine = files.write("khost.toml", "[machine]\nthreads = 0\nruns = \"runs\"\n");
  request.preset = files.write("smoke.toml", "seed = 1\n[ppo]\nsteps = 6\nlr = 3e-4\n[machine]\nthreads = 2\n");
  request.overrides = {"ppo.steps=8", "machine.runs=/tmp/runs", "ppo.lr=1"};
  auto config = load_config(request);
  REQUIRE(config);
  CHECK(config->value["ppo"]["steps"] == 8);
  CHECK(config->value["ppo"]["lr"].is_number_float());
  CHECK(config->value["machine"]["threads"] == 2);
  CHECK(config->value["machine"]["runs"] == "/tmp/runs");
  CHECK(config->origins["machine.threads"].line == 6);
  CHECK(contains(show_config(*config), "--set ppo.steps=8"));
  CHECK(contains(show_config(*config), "smoke.toml:1"));
}

TEST_CASE("an unknown key of --set names the nearest legal key") {
  Files files;
  ConfigRequest request;
  request.preset = files.write("smoke.toml", "[ppo]\nsteps = 6\n");
  request.overrides = {"ppo.stpes=8"};
  std::string text = message(load_config(request));
  CHECK(contains(text, "--set ppo.stpes=8: unknown key 'ppo.stpes'"));
  CHECK(contains(text, "did you mean 'ppo.steps'"));
}

TEST_CASE("a preset may not add keys to the machine's tables") {
  Files files;
  ConfigRequest request;
  request.machine = files.write("khost.toml", "[machine]\nthreads = 0\n");
  request.preset = files.write("smoke.toml", "[ppo]\nsteps = 6\n\n[machine]\nthread = 2\n");
  std::string text = message(load_config(request));
  CHECK(contains(text, "smoke.toml:5: unknown key 'machine.thread'; did you mean 'machine.threads'?"));
}

TEST_CASE("a preset that extends another may only change its keys") {
  Files files;
  files.write("smoke.toml", "[ppo]\nsteps = 6\nlr = 0.1\n");
  ConfigRequest request;
  request.preset = files.write("short.toml", "extends = \"smoke\"\n[ppo]\nsteps = 2\n");
  auto config = load_config(request);
  REQUIRE(config);
  CHECK(config->value == Json({{"ppo", {{"steps", 2}, {"lr", 0.1}}}}));
  request.preset = files.write("wrong.toml", "extends = \"smoke\"\n[ppo]\nstep = 2\n");
  CHECK(contains(message(load_config(request)), "wrong.toml:3: unknown key 'ppo.step'"));
  request.preset = files.write("lost.toml", "extends = \"smook\"\n");
  CHECK(contains(message(load_config(request)), "unknown preset 'smook'; did you mean 'smoke'?"));
  request.preset = files.write("circle.toml", "extends = \"circle\"\n");
  CHECK(contains(message(load_config(request)), "circle"));
}

TEST_CASE("a value of another type is refused where it stands") {
  Files files;
  ConfigRequest request;
  request.preset = files.write("smoke.toml", "name = \"x\"\n[ppo]\nsteps = 6\nsizes = [1, 2]\n");
  request.overrides = {"ppo.steps=many"};
  CHECK(contains(message(load_config(request)), "'ppo.steps' must be a whole number, got text \"many\""));
  request.overrides = {"ppo.steps=1.5"};
  CHECK(contains(message(load_config(request)), "must be a whole number, got a number 1.5"));
  request.overrides = {"ppo=3"};
  CHECK(contains(message(load_config(request)), "must be a table"));
  request.overrides = {"name=7", "ppo.sizes=[3]", "ppo={steps=2}"};
  auto config = load_config(request);
  REQUIRE(config);
  CHECK(config->value["name"] == "7");
  CHECK(config->value["ppo"]["sizes"] == Json({3}));
  CHECK(config->value["ppo"]["steps"] == 2);
  request.overrides = {"no_equals_sign"};
  CHECK(contains(message(load_config(request)), "must have the form a.b=value"));
}

TEST_CASE("a schema gives defaults, limits and the legal keys") {
  Files files;
  auto schema = parse_schema(Json::parse(R"({
    "seed": {"kind": "integer", "default": 1, "min": 0},
    "model": {"kind": "text"},
    "reward_on": {"kind": "choice", "choices": ["final", "best"], "default": "final"},
    "ppo": {"kind": "group", "fields": {"lr": {"kind": "number", "default": 0.5, "max": 1}}}})"));
  REQUIRE(schema);
  ConfigRequest request;
  request.schema = schema.value();
  CHECK(contains(message(load_config(request)), "'model' is not set"));
  request.overrides = {"model=tiny", "ppo.lr=1"};
  auto config = load_config(request);
  REQUIRE(config);
  CHECK(config->value["reward_on"] == "final");
  CHECK(config->value["ppo"]["lr"] == 1);
  request.overrides = {"model=tiny", "ppo.lr=2"};
  CHECK(contains(message(load_config(request)), "'ppo.lr' must be at most 1, got 2"));
  request.overrides = {"model=tiny", "reward_on=last"};
  CHECK(contains(message(load_config(request)), "must be one of final, best"));
  request.overrides = {"modle=tiny"};
  CHECK(contains(message(load_config(request)), "did you mean 'model'"));
  request.overrides = {};
  request.preset = files.write("p.toml", "model = \"a\"\n[ppo]\nrate = 1\n");
  CHECK(contains(message(load_config(request)), "p.toml:3: unknown key 'ppo.rate'"));
}

TEST_CASE("a schema that contradicts itself is refused") {
  CHECK_FALSE(static_cast<bool>(parse_schema(Json::parse(R"({"a": {"kind": "integer", "default": "x"}})"))));
  CHECK_FALSE(static_cast<bool>(parse_schema(Json::parse(R"({"a": {"kind": "choice"}})"))));
  CHECK_FALSE(static_cast<bool>(parse_schema(Json::parse(R"({"a": {"kind": "integer", "mim": 1}})"))));
}

TEST_CASE("a syntax error and a missing file are failures with their place") {
  Files files;
  ConfigRequest request;
  request.preset = files.write("broken.toml", "a = 1\nb = = 2\n");
  CHECK(contains(message(load_config(request)), "broken.toml:2:"));
  request.preset = (files.folder / "none.toml").string();
  CHECK(contains(message(load_config(request)), "none.toml"));
}

TEST_CASE("malformed headers and letters that toml++ does not expect are failures with their place") {
  for (const char* text : {"a = 1\n[}", "a = 1\n[=", "a = 1\n\xc2\xb5 = 3", "a = 1\nb = \xc2\xb5"}) {
    const auto parsed = parse_toml(text, "t.toml");
    REQUIRE_FALSE(parsed);
    CHECK_MESSAGE(parsed.failure().message.find("t.toml:2: ") == 0, parsed.failure().message);
  }
}

TEST_CASE("the difference of two configurations lists changed, missing and new values") {
  Json diff = diff_config(Json::parse(R"({"a": 1, "b": {"c": 2, "d": 3}})"),
                          Json::parse(R"({"a": 1, "b": {"c": 5}, "e": true})"));
  CHECK(diff == Json::parse(R"([{"name": "b.c", "from": 2, "to": 5}, {"name": "b.d", "from": 3, "to": null},
                                {"name": "e", "from": null, "to": true}])"));
}

TEST_CASE("text behind --set that is no TOML value is taken as it stands") {
  CHECK(parse_toml_value("3") == 3);
  CHECK(parse_toml_value("[1, 2]") == Json({1, 2}));
  CHECK(parse_toml_value("runs/today") == "runs/today");
  CHECK(parse_toml_value("1\nw = 2") == "1\nw = 2");
}
