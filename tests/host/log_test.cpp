#include "host/log/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "host/log/progress.h"

using namespace khost;

namespace {

// A terminal that writes into a file, and the folder it lies in.
struct Screen {
  std::string folder;
  std::shared_ptr<Terminal> terminal;
  int fd;
  explicit Screen(bool live, int columns = 80) {
    char name[] = "/tmp/khost-log-XXXXXX";
    folder = mkdtemp(name);
    fd = open((folder + "/screen").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    terminal = std::make_shared<Terminal>(TerminalOptions{fd, live, false, columns});
  }
  ~Screen() {
    terminal.reset();
    close(fd);
    std::filesystem::remove_all(folder);
  }
  std::string read(const std::string& name = "screen") const {
    std::ifstream file(folder + "/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
};

}  // namespace

TEST_CASE("an event becomes one line for people and one JSON line") {
  Screen screen(false);
  Log log(screen.terminal, [] { return 1700000000.25; });
  REQUIRE(log.open(screen.folder));
  log.info("stage_done", {{"stage", "ppo"}, {"reward", 0.5}, {"note", "two words"}});
  log.debug("detail", {{"x", 1}});
  CHECK(screen.read() == "22:13:20 info  stage_done  note=\"two words\" reward=0.5 stage=ppo\n");
  std::istringstream lines(screen.read("log.jsonl"));
  std::string line;
  REQUIRE(std::getline(lines, line));
  CHECK(Json::parse(line) == Json({{"time_s", 1700000000.25},
                                   {"level", "info"},
                                   {"event", "stage_done"},
                                   {"stage", "ppo"},
                                   {"reward", 0.5},
                                   {"note", "two words"}}));
  REQUIRE(std::getline(lines, line));
  CHECK(Json::parse(line)["event"] == "detail");
}

TEST_CASE("levels filter the terminal and unknown ones name the nearest") {
  Screen screen(false);
  Log log(screen.terminal, [] { return 0.0; });
  log.set_level(Level::error);
  log.warn("quiet");
  log.error("loud");
  CHECK(screen.read() == "00:00:00 error loud\n");
  auto level = parse_level("wran");
  REQUIRE_FALSE(static_cast<bool>(level));
  CHECK(level.failure().message == "unknown log level 'wran'; did you mean 'warn'?");
}

TEST_CASE("bytes that are not UTF-8 do not break the log") {
  Screen screen(false);
  Log log(screen.terminal, [] { return 0.0; });
  REQUIRE(log.open(screen.folder));
  log.info("output", {{"text", std::string("a\xff b")}});
  CHECK(Json::parse(screen.read("log.jsonl"))["text"] == "a\xef\xbf\xbd b");
}

TEST_CASE("metrics write an event file once a folder is known") {
  Screen screen(false);
  Log log(screen.terminal, [] { return 1.0; });
  log.metric("ppo/reward", 1, 0);
  REQUIRE(log.open(screen.folder));
  log.metric("ppo/reward", 1, 1);
  size_t files = 0, bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(screen.folder + "/tensorboard")) {
    ++files;
    bytes += entry.file_size();
  }
  CHECK(files == 1);
  CHECK(bytes > 80);
}

TEST_CASE("a folder that cannot be written is a failure") {
  Screen screen(false);
  Log log(screen.terminal);
  CHECK(log.open("/proc/khost-log").failure().code == "io");
}

TEST_CASE("durations read well") {
  CHECK(duration_text(0.42) == "0.4 s");
  CHECK(duration_text(42) == "42 s");
  CHECK(duration_text(185) == "3 min 05 s");
  CHECK(duration_text(7800) == "2 h 10 min");
}

TEST_CASE("without a terminal a bar prints a plain line about every five seconds") {
  Screen screen(false);
  double now = 0;
  auto progress = std::make_shared<Progress>(screen.terminal, [&] { return now; });
  auto bar = progress->begin("ppo", 100);
  for (int i = 0; i < 11; ++i) {
    now += 1;
    bar->add(2, {{"reward", 0.5}});
  }
  CHECK(screen.read() ==
        "ppo: 10/100, 2.00/s, 45 s left, reward 0.5\n"
        "ppo: 20/100, 2.00/s, 40 s left, reward 0.5\n");
  bar->finish("kept 9");
  CHECK(screen.read().ends_with("ppo: 22/100 in 11 s (2.00/s), reward 0.5, kept 9\n"));
  bar->finish();
  CHECK(screen.read().ends_with("kept 9\n"));
}

TEST_CASE("on a terminal bars are redrawn in place, below the lines of the log") {
  Screen screen(true, 60);
  double now = 0;
  auto progress = std::make_shared<Progress>(screen.terminal, [&] { return now; });
  auto bar = progress->begin("collect", 4);
  now = 1;
  bar->add(1);
  std::string seen = screen.read();
  CHECK(seen.ends_with("\r\033[Jcollect [#####...............] 1/4, 1.00/s, 3.0 s left"));
  screen.terminal->line("a log line");
  seen = screen.read();
  CHECK(seen.ends_with("\r\033[Ja log line\ncollect [#####...............] 1/4, 1.00/s, 3.0 s left"));
  bar->finish();
  CHECK(screen.read().ends_with("\r\033[Jcollect: 1/4 in 1.0 s (1.00/s)\n"));
}

TEST_CASE("two bars share the block and redraws are limited to ten a second") {
  Screen screen(true);
  double now = 0;
  auto progress = std::make_shared<Progress>(screen.terminal, [&] { return now; });
  auto first = progress->begin("one", std::nullopt);
  now = 1;
  auto second = progress->begin("two", std::nullopt);
  CHECK(screen.read().ends_with("one 0, 1.0 s so far\ntwo 0"));
  std::string before = screen.read();
  first->add(1);
  CHECK(screen.read() == before);
  now = 2;
  first->add(1);
  CHECK(screen.read().ends_with("\r\033[1A\033[Jone 2, 1.00/s\ntwo 0, 1.0 s so far"));
}
