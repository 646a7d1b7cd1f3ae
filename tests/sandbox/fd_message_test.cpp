#include "sandbox/subject/fd_message.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox/jail/fd.h"

using namespace khost::sandbox;

namespace {

struct Ends {
  Ends() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    ours = Fd(ends[0]);
    theirs = Fd(ends[1]);
  }
  Fd ours, theirs;
};

}  // namespace

TEST_CASE("words arrive as they were sent, and numbered ones as descriptors of the same files") {
  Ends ends;
  const Fd first(memfd_create("first", MFD_CLOEXEC)), second(memfd_create("second", MFD_CLOEXEC));
  REQUIRE(write(first.get(), "one", 3) == 3);
  REQUIRE(write(second.get(), "second", 6) == 6);
  REQUIRE(send_words(ends.ours.get(), {"--a", "@1", "", "--b", "@0", "12"}, {first.get(), second.get()}));
  const std::vector<std::string> words = receive_words(ends.theirs.get());
  REQUIRE(words.size() == 6);
  CHECK(words[0] == "--a");
  CHECK(words[2] == "");
  CHECK(words[3] == "--b");
  CHECK(words[5] == "12");
  const Fd b(std::atoi(words[4].c_str())), a(std::atoi(words[1].c_str()));
  CHECK(lseek(a.get(), 0, SEEK_END) == 6);
  CHECK(lseek(b.get(), 0, SEEK_END) == 3);
}

TEST_CASE("a message that is refused leaves no descriptor open") {
  Ends ends;
  const Fd file(memfd_create("file", MFD_CLOEXEC));
  const int next = dup(file.get());  // the lowest free number
  close(next);
  for (const char* word : {"@1", "@", "@x", "@0x", "@99999999999999999999"}) {
    CAPTURE(word);
    REQUIRE(send_words(ends.ours.get(), {word}, {file.get()}));
    CHECK(receive_words(ends.theirs.get()).empty());
    const Fd again(dup(file.get()));
    CHECK(again.get() == next);
  }
}

TEST_CASE("a closed socket, and a number without its descriptor, are no message") {
  {
    Ends ends;
    REQUIRE(send_words(ends.ours.get(), {"@0"}, {}));
    CHECK(receive_words(ends.theirs.get()).empty());
  }
  Ends ends;
  ends.ours.reset();
  CHECK(receive_words(ends.theirs.get()).empty());
}

TEST_CASE("more descriptors or words than fit are not sent") {
  Ends ends;
  CHECK_FALSE(send_words(ends.ours.get(), {"x"}, std::vector<int>(kMostSentFds + 1, 0)));
  CHECK_FALSE(send_words(ends.ours.get(), {std::string(kMostWords, 'x')}, {}));
  REQUIRE(send_words(ends.ours.get(), {std::string(kMostWords - 1, 'x')}, {}));
  const std::vector<std::string> words = receive_words(ends.theirs.get());
  REQUIRE(words.size() == 1);
  CHECK(words[0].size() == kMostWords - 1);
}
