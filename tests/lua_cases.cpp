#include "tests/lua_cases.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <vector>

#include "host/host.h"

namespace khost::tests {
namespace {

struct LuaCase {
  std::string name;  // "sched: map keeps the order"
  std::string file;  // "tests/lua/sched_test.lua"
  std::string module;
  std::string function;
};

bool skipped = false;
std::deque<LuaCase> cases;  // doctest keeps pointers into it
size_t current_case = 0;
constexpr const char* kFolder = "tests/lua/";

HostOptions test_options() {
  HostOptions options;
  options.root = KHOST_SOURCE_DIR;
  return options;
}

// Leaves the loaded harness on the stack.
void push_harness(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.loaders");
  lua_getfield(L, -1, "new");
  lua_call(L, 0, 1);
  lua_getfield(L, -1, "require");
  lua_pushliteral(L, "tests.lua.harness");
  if (lua_pcall(L, 1, 1, 0) != 0) {
    throw std::runtime_error(lua_tostring(L, -1));
  }
}

void find_cases() {
  std::vector<std::string> modules;
  for (const auto& entry : std::filesystem::directory_iterator(KHOST_SOURCE_DIR "/tests/lua")) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() == ".lua" && stem.ends_with("_test")) {
      modules.push_back(stem);
    }
  }
  std::sort(modules.begin(), modules.end());
  Host host(test_options());
  lua_State* L = host.vm().state();
  push_harness(L);
  for (const std::string& module : modules) {
    lua_getfield(L, -1, "names");
    lua_pushstring(L, ("tests.lua." + module).c_str());
    const std::string subject = module.substr(0, module.size() - 5);
    const std::string file = kFolder + module + ".lua";
    if (lua_pcall(L, 1, 1, 0) != 0) {
      // A spec that does not load is a case that fails, not one that is missing.
      cases.push_back({"lua " + subject + ": loads (" + lua_tostring(L, -1) + ")", file, "tests.lua." + module, ""});
    } else {
      for (const auto& name : lua::Codec<std::vector<std::string>>::get(L, lua_gettop(L))) {
        std::string title = name;
        std::replace(title.begin(), title.end(), '_', ' ');
        cases.push_back({"lua " + subject + ": " + title, file, "tests.lua." + module, name});
      }
    }
    lua_pop(L, 1);
  }
}

// What a spec that ended with `code` raised, by its harness. It was printed where it happened too, far above.
std::string raised_by(lua_State* L, int harness, int code) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, harness);
  lua_getfield(L, -1, "failure");
  lua_call(L, 0, 1);
  const std::string raised =
      lua_isstring(L, -1) ? lua_tostring(L, -1) : "the spec ended with code " + std::to_string(code);
  lua_pop(L, 2);
  return raised;
}

// Each case gets a host of its own: nothing leaks from one into the next.
void run_case(const LuaCase& lua_case) {
  if (lua_case.name.find("is not part of this build") != std::string::npos) {
    skip(lua_case.name);
    return;
  }
  Host host(test_options());
  lua_State* L = host.vm().state();
  push_harness(L);
  lua_pushvalue(L, -1);
  const int harness = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_getfield(L, -1, "prepare");
  lua_pushstring(L, lua_case.module.c_str());
  lua_pushstring(L, lua_case.function.c_str());
  if (lua_pcall(L, 2, 1, 0) != 0) {
    FAIL(lua_tostring(L, -1));
  }
  if (const int code = host.run_function(lua_case.name); code != 0) {
    FAIL_CHECK(raised_by(L, harness, code));
  }
  CHECK(host.tasks().alive() == 0);
}

void run_current() {
  run_case(cases.at(current_case));
}

}  // namespace

void register_lua_cases() {
  find_cases();
  for (size_t i = 0; i < cases.size(); i++) {
    // A doctest case is a function without data: the line, which is ours to choose, says which one it is.
    doctest::detail::TestCase test(run_current, cases[i].file.c_str(), static_cast<unsigned>(i),
                                   doctest::detail::TestSuite());
    doctest::detail::regTest(test * cases[i].name.c_str());
  }
}

void begin_case(const doctest::TestCaseData& data) {
  if (std::string(data.m_file.c_str()).starts_with(kFolder)) {
    current_case = data.m_line;
  }
}

void skip(const std::string& reason) {
  skipped = true;
  std::printf("skipped: %s\n", reason.c_str());
}

bool take_skip() {
  return std::exchange(skipped, false);
}

}  // namespace khost::tests
