#include "host/base/sha256.h"

#include <doctest/doctest.h>

#include <string>

namespace khost::tests {

TEST_CASE("sha256: known texts, and every length up to five blocks") {
  // FIPS 180-4, examples.
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // The same by Python's hashlib.
  std::string text;
  std::string digests;
  for (int length = 0; length < 300; length++) {
    digests += sha256_hex(text);
    text.push_back(static_cast<char>(length * 37 + 11));
  }
  CHECK(sha256_hex(digests) == "4fb4b8bc884e86d87e9b45ea3dc321efb2c00a7ca086193f18e7d436e772f63f");
}

}  // namespace khost::tests
