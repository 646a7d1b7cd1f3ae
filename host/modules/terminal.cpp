// khost.terminal: whether a person reads what is printed, and long texts through a pager.
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "host/host.h"
#include "host/log/plain_text.h"
#include "host/lua/bind.h"
#include "host/lua/task.h"
#include "host/modules/modules.h"
#include "host/modules/workers.h"

namespace khost::modules {
namespace {

bool interactive() {
  return ::isatty(STDOUT_FILENO) != 0;
}

bool colour() {
  const char* refused = std::getenv("NO_COLOR");
  const char* forced = std::getenv("CLICOLOR_FORCE");
  if (forced != nullptr && *forced != '\0' && *forced != '0') {
    return true;
  }
  return interactive() && (refused == nullptr || *refused == '\0');
}

int width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

// Prints the text, through $PAGER (less) when a person reads it. Ctrl-C belongs to the pager meanwhile.
void page(lua::Resume<bool> done, std::string text) {
  submit_blocking([done, text = std::move(text)] {
    const char* chosen = std::getenv("PAGER");
    const std::string pager = chosen != nullptr ? chosen : "less -RFX";
    FILE* out = nullptr;
    struct sigaction ignore {};
    struct sigaction before {};
    struct sigaction pipe_before {};
    if (interactive() && !pager.empty()) {
      ignore.sa_handler = SIG_IGN;
      ::sigaction(SIGINT, &ignore, &before);
      ::sigaction(SIGPIPE, &ignore, &pipe_before);  // a reader may quit before the end
      out = ::popen((pager + " 2>/dev/null || cat").c_str(), "w");
    }
    std::fwrite(text.data(), 1, text.size(), out != nullptr ? out : stdout);
    if (out != nullptr) {
      ::pclose(out);
      ::sigaction(SIGINT, &before, nullptr);
      ::sigaction(SIGPIPE, &pipe_before, nullptr);
    } else {
      std::fflush(stdout);
    }
    done(true);
  });
}

std::string plain(std::string text) {
  return plain_text(text);
}

}  // namespace

void open_terminal(lua_State* L) {
  lua_newtable(L);
  lua::add(L, {lua::def<interactive>("interactive"), lua::def<colour>("colour"), lua::def<width>("width"),
               lua::def<page>("page"), lua::def<plain>("plain")});
}

}  // namespace khost::modules
