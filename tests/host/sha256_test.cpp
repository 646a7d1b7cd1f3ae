#include "host/base/sha256.h"

#include <doctest/doctest.h>

#include <string>

namespace khost::tests {

TEST_CASE("sha256: known texts, and the processor's instructions say what portable code says at any length") {
  // FIPS 180-4, examples.
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  std::string text;
  for (int length = 0; length < 300; length++) {
    REQUIRE(sha256_hex(text) == sha256_hex_portable(text));
    text.push_back(static_cast<char>(length * 37 + 11));
  }
}

}  // namespace khost::tests
