// Question 0: does a program built on Debian 12, with LuaJIT, Boost and libstdc++ linked in, start elsewhere?
// It needs only glibc: an event loop with a timer and a thread pool, a Lua script that is compiled to machine code,
// a child process.   g++ -std=c++20 -O2 … -static-libstdc++ -static-libgcc -l:libluajit-5.1.a
#include <gnu/libc-version.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <cstdio>
#include <filesystem>
extern "C" {
#include <luajit-2.1/lauxlib.h>
#include <luajit-2.1/lualib.h>
}

int main() {
  boost::asio::io_context io;
  boost::asio::thread_pool pool(4);
  boost::asio::steady_timer timer(io, std::chrono::milliseconds(20));
  bool rang = false;
  timer.async_wait([&](auto e) { rang = !e; });
  int sum = 0;
  boost::asio::post(pool, [&] { boost::asio::post(io, [&] { sum += 42; }); });
  io.run();
  pool.join();
  io.restart();
  io.poll();
  lua_State* lua = luaL_newstate();
  luaL_openlibs(lua);
  const char* script =
      "local n = 0; for i = 1, 1e7 do n = n + i % 3 end; local on = jit.status(); return n, on, jit.version, jit.arch";
  if (luaL_dostring(lua, script))
    return printf("Q0 lua fails: %s\n", lua_tostring(lua, -1)), 1;
  const pid_t pid = fork();
  if (!pid)
    _exit(7);
  int status;
  waitpid(pid, &status, 0);
  printf("Q0 starts: glibc %s, timer %s, pool %d, child %d, lua %.0f jit %d %s %s, cwd %s\n", gnu_get_libc_version(),
         rang ? "rang" : "silent", sum, WEXITSTATUS(status), lua_tonumber(lua, -4), lua_toboolean(lua, -3),
         lua_tostring(lua, -2), lua_tostring(lua, -1), std::filesystem::current_path().c_str());
}
