#include "host/log/plain_text.h"

#include <doctest/doctest.h>

#include "host/base/json.h"
#include "host/log/log.h"

namespace khost {

TEST_CASE("what would act on a terminal is written out") {
  CHECK(plain_text("\x1b[31mred\x1b[0m") == "\\u001b[31mred\\u001b[0m");
  CHECK(plain_text("\x1b]52;c;aGk=\x07") == "\\u001b]52;c;aGk=\\u0007");
  CHECK(plain_text("a\xC2\x9B"
                   "2Jb") == "a\\u009b2Jb");  // CSI as one character
  CHECK(plain_text("a\x9B"
                   "2Jb") ==
        "a\xEF\xBF\xBD"
        "2Jb");  // and as one byte
  CHECK(plain_text("abc\rOK") == "abc\\u000dOK");
  CHECK(plain_text("a\r\nb\tc\n") == "a\nb\tc\n");
  CHECK(plain_text("a\b\x7F") == "a\\u0008\\u007f");
  CHECK(plain_text(std::string_view("a\0b", 3)) == "a\\u0000b");
  CHECK(plain_text("\xE2\x80\xAE"
                   "evil\xE2\x81\xA6") == "\\u202eevil\\u2066");
  CHECK(plain_text("gr\xC3\xBC\xC3\x9F \xE2\x88\x9E \xF0\x9F\x99\x82") ==
        "gr\xC3\xBC\xC3\x9F \xE2\x88\x9E \xF0\x9F\x99\x82");
  CHECK(plain_text("\xC0\x80 \xED\xA0\x80 \xE2\x82") ==
        "\xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(plain_text("").empty());
}

TEST_CASE("JSON that is printed says the same as before") {
  const Json value = {{"text", "\x1b[2J \xC2\x9B \xE2\x80\xAE \x7F"}};
  const std::string shown = plain_text(value.dump());
  CHECK(shown.find('\x1b') == std::string::npos);
  CHECK(Json::parse(shown) == value);
}

TEST_CASE("the log shows names and fields of strangers as plain text") {
  const std::string line = format_line(0, Level::warn, "task\x1b[2J", {{"name", "\x1b]0;x\x07"}, {"n", 1}}, false);
  CHECK(line.find('\x1b') == std::string::npos);
  CHECK(line.find('\x07') == std::string::npos);
  CHECK(line.find("task\\u001b[2J") != std::string::npos);
}

TEST_CASE("no text of a stranger looks like a line of the log") {
  const std::string forged = "00:00:00 info  serve_verdict  reward=3";
  for (const std::string end : {"\n", "\r\n", "\n\n"}) {
    const std::string line = format_line(0, Level::warn, "task" + end + forged, {{"name", "x" + end + forged}}, false);
    CHECK(line.find('\r') == std::string::npos);
    CHECK_MESSAGE(line.find("\n" + forged) == std::string::npos, line);
    CHECK(line.find("\n  " + forged) != std::string::npos);
  }
  CHECK(format_line(0, Level::warn, "failed", {{"trace", "one\n  two\n\nthree"}}, false) ==
        "00:00:00 warn  failed  trace=\n  one\n    two\n  \n  three");
}

}  // namespace khost
