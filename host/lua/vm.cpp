#include "host/lua/vm.h"

#include <cstdlib>
#include <ctime>
#include <stdexcept>

#include "host/lua/bind.h"

namespace khost::lua {
namespace {

constexpr int kInstructionsPerLook = 10000;

// What scripts may not have: the C interface, the file system behind our back, wall clocks and unseeded draws.
constexpr const char* kWithheld[] = {"dofile", "loadfile", "load",          "loadstring",
                                     "module", "newproxy", "collectgarbage"};

// Loads modules from files. `khost.x` is native; everything else lies under scripts/ or under the root. Each
// loader keeps its own table of loaded modules, which is what makes a reload a new whole.
constexpr const char* kLoader = R"lua(
local native, read, root, compile = ...
local loaders = {}

local function freeze(name, members)
  return setmetatable({}, {
    __index = members,
    __newindex = function(_, key)
      error(("assignment to %s.%s: native modules are read-only"):format(name, tostring(key)), 2)
    end,
  })
end
loaders.freeze = freeze

local function locate(name)
  local path = name:gsub("%.", "/")
  for _, base in ipairs { root .. "/scripts/", root .. "/" } do
    local file = base .. path .. ".lua"
    local text = read(file)
    if text then return file, text end
  end
  error(("module '%s' not found: neither scripts/%s.lua nor %s.lua under %s"):format(name, path, path, root), 3)
end

-- on_file(path, text) hears of every file that is about to run.
function loaders.new(on_file)
  local loaded, self = {}, {}
  local function run(file, text, ...)
    if on_file then on_file(file, text) end
    local environment = setmetatable({ require = self.require }, {
      __index = _G,
      __newindex = function(_, key)
        error(("assignment to the global '%s': declare it local"):format(tostring(key)), 2)
      end,
    })
    local name = file:sub(1, #root + 1) == root .. "/" and file:sub(#root + 2) or file
    local chunk, message = compile(text, "@" .. name, environment)
    if not chunk then error(message, 0) end
    return chunk(...)
  end
  function self.require(name)
    if type(name) ~= "string" then error("require: the name of a module expected", 2) end
    if name:sub(1, 6) == "khost." then return native(name, self) end
    local value = loaded[name]
    if value == loaders then error(("module '%s' requires itself, directly or through others"):format(name), 2) end
    if value ~= nil then return value end
    local file, text = locate(name)
    loaded[name] = loaders
    local ok, result = pcall(run, file, text, name)
    if not ok then
      loaded[name] = nil
      error(result, 0)
    end
    if result == nil then result = true end
    loaded[name] = result
    return result
  end
  function self.run_file(file, ...)
    local text, message = read(file)
    if not text then error(message, 0) end
    return run(file, text, ...)
  end
  return self
end

-- What scripts share is read-only: an assignment in one script would change all others, across reloads too.
for _, name in ipairs { "string", "table", "math", "coroutine", "bit", "debug" } do
  _G[name] = freeze(name, _G[name])
end

setmetatable(_G, {
  __index = function(_, key) error(("undefined variable '%s'"):format(tostring(key)), 2) end,
  __newindex = function(_, key)
    error(("assignment to the global '%s': declare it local"):format(tostring(key)), 2)
  end,
})
return loaders
)lua";

// What the VM's thread has computed: on a busy machine a script must not be blamed for the time of others.
std::chrono::steady_clock::time_point computed() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(time.tv_sec) +
                                               std::chrono::nanoseconds(time.tv_nsec));
}

int read_text(lua_State* L) {
  const char* path = luaL_checkstring(L, 1);
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) {
    lua_pushnil(L);
    lua_pushfstring(L, "%s: cannot be read", path);
    return 2;
  }
  luaL_Buffer buffer;
  luaL_buffinit(L, &buffer);
  char block[4096];
  size_t n = 0;
  while ((n = std::fread(block, 1, sizeof block, file)) > 0) {
    luaL_addlstring(&buffer, block, n);
  }
  std::fclose(file);
  luaL_pushresult(&buffer);
  return 1;
}

int compile(lua_State* L) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, 1, &size);
  // Text only: bytecode is unchecked and could corrupt the VM.
  if (luaL_loadbufferx(L, text, size, luaL_checkstring(L, 2), "t") != 0) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  lua_pushvalue(L, 3);
  lua_setfenv(L, -2);
  return 1;
}

// native(name): what a C++ module registered under this name, opened once.
int open_native(lua_State* L) {
  const char* name = luaL_checkstring(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.opened");
  lua_getfield(L, -1, name);
  if (!lua_isnil(L, -1)) {
    return 1;
  }
  lua_pop(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.natives");
  lua_getfield(L, -1, name);
  if (lua_isnil(L, -1)) {
    return luaL_error(L, "module '%s' is not part of this build", name);
  }
  lua_call(L, 0, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.loaders");
  lua_getfield(L, -1, "freeze");
  lua_replace(L, -2);
  lua_insert(L, -2);
  lua_pushstring(L, name);
  lua_insert(L, -2);
  lua_call(L, 2, 1);
  lua_pushvalue(L, -1);
  lua_setfield(L, -4, name);
  return 1;
}

void remove_withheld(lua_State* L) {
  for (const char* name : kWithheld) {
    lua_pushnil(L);
    lua_setglobal(L, name);
  }
  for (const char* name : {"io", "os", "package", "require", "jit", "ffi"}) {
    lua_pushnil(L);
    lua_setglobal(L, name);
  }
  lua_getglobal(L, "math");
  for (const char* name : {"random", "randomseed"}) {
    lua_pushnil(L);
    lua_setfield(L, -2, name);
  }
  lua_pop(L, 1);
  // Tracebacks stay; what could reach into other functions goes.
  lua_getglobal(L, "debug");
  lua_getfield(L, -1, "traceback");
  lua_newtable(L);
  lua_insert(L, -2);
  lua_setfield(L, -2, "traceback");
  lua_setglobal(L, "debug");
  lua_pop(L, 1);
}

}  // namespace

void* Vm::allocate(void* self, void* block, size_t old_size, size_t new_size) {
  auto* vm = static_cast<Vm*>(self);
  if (new_size == 0) {
    std::free(block);
    vm->used_bytes_ -= old_size;
    return nullptr;
  }
  const size_t before = block == nullptr ? 0 : old_size;
  // After a refusal some room is left, so that a script which caught the error reaches the collection in on_count.
  const size_t limit = vm->options_.memory_bytes + (vm->refused_ ? vm->options_.memory_bytes / 8 : 0);
  if (vm->limited_ && new_size > before && vm->used_bytes_ + (new_size - before) > limit) {
    vm->refused_ = true;
    return nullptr;
  }
  void* result = std::realloc(block, new_size);
  if (result != nullptr) {
    vm->used_bytes_ += new_size - before;
  }
  return result;
}

void Vm::on_count(lua_State* L, lua_Debug*) {
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.vm");
  auto* vm = static_cast<Vm*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  if (vm->refused_) {
    // LuaJIT does not collect when memory runs out. A script that caught the error gets back what it let go.
    vm->refused_ = false;
    lua_gc(L, LUA_GCCOLLECT, 0);
  }
  if (vm->limited_ && computed() > vm->deadline_) {
    // The handler of the error gets a second's worth of its own. A script that catches it and goes on is stopped
    // at every instruction the third time, whatever it catches.
    vm->deadline_ = computed() + std::chrono::seconds(1);
    if (++vm->overruns_ >= 3) {
      vm->deadline_ = {};
      lua_sethook(L, &Vm::on_count, LUA_MASKCOUNT, 1);
    }
    luaL_where(L, 0);  // level 0 is the script: a hook has no frame of its own
    lua_pushliteral(L, "ran too long without waiting: does it loop for ever?");
    lua_concat(L, 2);
    lua_error(L);
  }
}

Vm::Vm(VmOptions options) : options_(std::move(options)) {
  state_ = lua_newstate(&Vm::allocate, this);
  if (state_ == nullptr) {
    throw std::runtime_error("no memory for a Lua state");
  }
  lua_State* L = state_;
  luaL_openlibs(L);
  // Count hooks never fire in compiled loops, and orchestration does not need the compiler.
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  lua_sethook(L, &Vm::on_count, LUA_MASKCOUNT, kInstructionsPerLook);
  lua_pushlightuserdata(L, this);
  lua_setfield(L, LUA_REGISTRYINDEX, "khost.vm");
  lua_pushthread(L);
  lua_setfield(L, LUA_REGISTRYINDEX, "khost.main");
  for (const char* table : {"khost.natives", "khost.opened"}) {
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, table);
  }
  remove_withheld(L);
  if (luaL_loadbuffer(L, kLoader, std::char_traits<char>::length(kLoader), "=loader") != 0) {
    throw std::runtime_error(lua_tostring(L, -1));
  }
  lua_pushcfunction(L, open_native);
  lua_pushcfunction(L, read_text);
  lua_pushstring(L, options_.root.c_str());
  lua_pushcfunction(L, compile);
  if (lua_pcall(L, 4, 1, 0) != 0) {
    throw std::runtime_error(lua_tostring(L, -1));
  }
  lua_setfield(L, LUA_REGISTRYINDEX, "khost.loaders");
}

Vm::~Vm() {
  lua_close(state_);
}

void Vm::preload(const char* name, lua_CFunction open) {
  lua_getfield(state_, LUA_REGISTRYINDEX, "khost.natives");
  lua_pushcfunction(state_, open);
  lua_setfield(state_, -2, name);
  lua_pop(state_, 1);
}

void Vm::begin_run(double budget_s) {
  const std::chrono::duration<double> budget(budget_s > 0 ? budget_s : options_.longest_run_s);
  deadline_ = computed() + std::chrono::duration_cast<std::chrono::nanoseconds>(budget);
  limited_ = true;
}

void Vm::end_run() {
  limited_ = false;
  if (refused_) {
    refused_ = false;
    lua_gc(state_, LUA_GCCOLLECT, 0);
  }
  if (overruns_ >= 3) {
    lua_sethook(state_, &Vm::on_count, LUA_MASKCOUNT, kInstructionsPerLook);
  }
  overruns_ = 0;
}

}  // namespace khost::lua
