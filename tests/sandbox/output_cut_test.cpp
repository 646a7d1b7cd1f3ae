#include "sandbox/jail/output_cut.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace khost::sandbox;

TEST_CASE("output is cut on character boundaries and cleaned of escapes and progress bars") {
  CHECK(clean_output("\x1b[31mred\x1b[0m \x1b]0;title\aok\n") == "red ok\n");
  CHECK(clean_output("10 %\r50 %\r100 %\nnext\r\n") == "100 %\nnext\n");
  CHECK(clean_output(std::string_view("a\0\xff"
                                      "b",
                                      4)) ==
        "a\xef\xbf\xbd\xef\xbf\xbd"
        "b");
  CHECK(clean_output("gr\xc3\xbc\xc3\x9f") == "gr\xc3\xbc\xc3\x9f");
  const std::string text =
      "aaa\xc3\xa4"
      "bbbbbbbb\xc3\xa4"
      "ccc";
  const std::string cut = cut_middle(text, 8);
  CHECK(cut == "aaa\n... [10 bytes left out] ...\nccc");
  CHECK(cut_middle("short", 100) == "short");
}
