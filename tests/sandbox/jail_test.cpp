#include "sandbox/jail/jail.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "sandbox/jail/uid_lease.h"
#include "tests/sandbox/jail_kit.h"

using namespace khost;
using namespace khost::sandbox;
using namespace khost::tests;
namespace fs = std::filesystem;

namespace {

bool gone(pid_t pid) {
  for (int i = 0; i < 100; ++i) {
    if (kill(pid, 0) != 0 && errno == ESRCH) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace

TEST_CASE("a jailed program gets its input and its exit code comes back") {
  const Output output = run(shell("read x; echo got $x; echo bad >&2; exit 7"), 20, "word\n");
  CHECK(output.out == "got word\n");
  CHECK(output.err == "bad\n");
  CHECK(output.exit.code == 7);
  CHECK(output.exit.signal == 0);
  CHECK(output.exit.wall_s > 0);
}

TEST_CASE("a signal that ends the program is told from an exit code") {
  const Output killed = run(shell("kill -SEGV $$"));
  CHECK(killed.exit.signal == SIGSEGV);
  CHECK(killed.exit.code == -1);
  const Output imitation = run(shell("exit 139"));
  CHECK(imitation.exit.code == 139);
  CHECK(imitation.exit.signal == 0);
}

TEST_CASE("a program that does not exist is a failure that names it") {
  JailSpec spec = shell("");
  spec.argv = {"/no/such/program"};
  const Result<Output> output = run_in_jail(spec, "", 5, 1000);
  REQUIRE(!output);
  CHECK(contains(output.failure().message, "/no/such/program"));
}

TEST_CASE("secrets and kernel settings of the host are out of reach") {
  check_both(shell("cat /etc/shadow; echo x > /proc/sys/kernel/core_pattern; echo 60 > /proc/sys/vm/swappiness; "
                   "ls /root /home /work /sys; ls /run; echo end"),
             [](const std::string& text) {
               CHECK(contains(text, "/etc/shadow: No such file"));
               CHECK(!contains(text, "root:"));
               for (const std::string setting : {"core_pattern", "swappiness"}) {
                 const bool refused = contains(text, setting + ": Permission denied") ||
                                      contains(text, setting + ": Read-only file system");
                 CHECK(refused);
               }
               CHECK(contains(text, "cannot access '/root'"));
               CHECK(contains(text, "cannot access '/sys'"));
               CHECK(contains(text, "khost-jail-exec\nend\n"));
             });
}

TEST_CASE("the kernel uid is unprivileged and no capability is left") {
  const std::string script =
      "echo uid $(id -u); grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status; "
      "cat /proc/self/uid_map | tr -s ' '";
  const std::string text = out_of(shell(script));
  CHECK(contains(text, "CapPrm:\t0000000000000000"));
  CHECK(contains(text, "CapEff:\t0000000000000000"));
  CHECK(contains(text, "CapBnd:\t0000000000000000"));
  CHECK(contains(text, "NoNewPrivs:\t1"));
  CHECK(contains(text, "Seccomp:\t2"));
  if (geteuid() == 0) {
    CHECK(atoi(text.c_str() + 4) >= static_cast<int>(kFirstUid));
    CHECK(contains(text, "4294967295"));  // the identity map: no user namespace whose inside differs
    const std::string user = out_as_nobody(shell(script));
    CHECK(contains(user, "uid 65534"));
    CHECK(contains(user, "CapEff:\t0000000000000000"));
  }
}

TEST_CASE("there is no network, no vsock and no netlink") {
  check_both(shell("cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' \\n'; echo; "
                   "timeout 2 bash -c 'echo > /dev/tcp/1.1.1.1/53' && echo connected; "
                   "perl -e 'for my $f (16, 17, 38, 40) { socket(my $s, $f, 3, 0) or print \"refused $f: $!\\n\" }'"),
             [](const std::string& text) {
               CHECK(contains(text, "lo\n"));
               CHECK(contains(text, "Network is unreachable"));
               CHECK(!contains(text, "connected"));
               for (const char* family : {"16", "17", "38", "40"}) {
                 CHECK(contains(text, std::string("refused ") + family + ": Address family not supported"));
               }
             });
}

TEST_CASE("processes of the host and of other jails are invisible") {
  Result<Jail> other = Jail::start(shell("sleep 30"));
  REQUIRE(bool(other));
  check_both(shell("ls /proc | grep -c '^[0-9]'; kill -9 " + std::to_string(other->pid()) + "; kill -9 1 || echo no"),
             [](const std::string& text) {
               CHECK(atoi(text.c_str()) <= 6);
               CHECK(contains(text, "No such process"));
             });
  CHECK(!other->poll());
}

TEST_CASE("the file system is read-only except for the sized scratch folders") {
  JailSpec spec = shell(
      "touch /x /usr/x /dev/x /etc/x /run/x; dd if=/dev/zero of=/tmp/big bs=1M count=40; "
      "dd if=/dev/zero of=/dev/shm/big bs=1M count=40; stat -c %s:%a /tmp/big /tmp; echo $TMPDIR");
  spec.limits.tmp_bytes = 8 << 20;
  check_both(spec, [](const std::string& text) {
    for (const char* path : {"/x", "/usr/x", "/dev/x", "/etc/x", "/run/x"}) {
      CHECK(contains(text, std::string("'") + path + "': "));
    }
    CHECK(contains(text, "No space left on device"));
    CHECK(contains(text, "8388608:644"));
    CHECK(contains(text, ":1777"));
  });
}

TEST_CASE("dangerous system calls are refused, ordinary ones are not") {
  check_both(shell("perl -e 'for my $n (101, 310, 321, 298, 425, 323, 272, 308, 165, 304, 250, 319, 29) "
                   "{ $! = 0; syscall($n, 0, 0, 0, 0, 0); print \"$n $!\\n\" }'; unshare -U true || echo no userns; "
                   "python3 -c 'import threading; t = threading.Thread(target=print, args=(\"thread\",)); t.start(); "
                   "t.join()' 2>/dev/null || echo thread; (echo child)"),
             [](const std::string& text) {
               for (const char* number :
                    {"101", "310", "321", "298", "425", "323", "272", "308", "165", "304", "250", "319", "29"}) {
                 CHECK(contains(text, std::string(number) + " Operation not permitted"));
               }
               CHECK(contains(text, "no userns"));
               CHECK(contains(text, "thread"));
               CHECK(contains(text, "child"));
             });
}

TEST_CASE("threads_only refuses every new process") {
  JailSpec spec = shell("(echo child) || echo refused; echo alive");
  spec.threads_only = true;
  const std::string text = out_of(spec);
  CHECK(contains(text, "fork"));
  CHECK(!contains(text, "child\n"));
}

TEST_CASE("a timeout kills the tree and says so") {
  const Output output = run(shell("echo begin; sleep 60 & sleep 60"), 0.5);
  CHECK(output.exit.timed_out);
  CHECK(output.exit.signal == SIGKILL);
  CHECK(output.out == "begin\n");
  CHECK(output.exit.wall_s < 5);
}

TEST_CASE("a grandchild that made itself a daemon dies with the jail") {
  const Output output = run(shell("setsid bash -c 'setsid sleep 987654 & disown' >/dev/null 2>&1; exit 0"));
  CHECK(output.exit.code == 0);
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::string line;
    std::getline(file, line);
    CHECK(!contains(line, "987654"));
  }
}

TEST_CASE("a flood of output is cut in the middle and costs no memory") {
  const Output output = run(shell("echo first; head -c 1000000000 /dev/zero; echo; echo last"), 60, "", 10000);
  CHECK(output.truncated);
  CHECK(output.out.size() < 10200);
  CHECK(output.out.rfind("first\n", 0) == 0);
  CHECK(contains(output.out, "bytes left out"));
  CHECK(output.out.substr(output.out.size() - 6) == "\nlast\n");
}

TEST_CASE("freeze stops every process, thaw lets them go on") {
  JailSpec spec = shell("(while :; do echo x; sleep 0.01; done) & while :; do echo y; sleep 0.01; done");
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  spec.fds = {{ends[1], 1}};
  Result<Jail> jail = Jail::start(spec);
  REQUIRE(bool(jail));
  close(ends[1]);
  const auto count = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    char buffer[65536];
    return read(ends[0], buffer, sizeof buffer);
  };
  CHECK(count() > 0);
  jail->freeze();
  count();
  CHECK(count() == -1);
  jail->thaw();
  CHECK(count() > 0);
  close(ends[0]);
}

TEST_CASE("descriptors arrive under the numbers asked for and no others are open") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);  // inheritable on purpose
  JailSpec spec = shell("echo hello >&7; ls /proc/self/fd | tr '\\n' ' ' >&9");
  int report[2];
  REQUIRE(pipe(report) == 0);
  spec.fds = {{ends[1], 7}, {report[1], 9}};
  Result<Jail> jail = Jail::start(spec);
  REQUIRE(bool(jail));
  close(ends[1]);
  close(report[1]);
  CHECK(jail->wait().code == 0);
  char buffer[256] = {};
  CHECK(read(ends[0], buffer, sizeof buffer) == 6);
  CHECK(std::string(buffer) == "hello\n");
  const ssize_t n = read(report[0], buffer, sizeof buffer - 1);
  buffer[n > 0 ? n : 0] = 0;
  CHECK(std::string(buffer) == "0 1 2 3 7 9 ");  // 3 is the folder that ls reads
  close(ends[0]);
  close(report[0]);
}

TEST_CASE("a writable bind belongs to the jail, a read-only one and its parents do not") {
  char folder[] = "/tmp/khost-bind-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const fs::path root = folder;
  fs::create_directories(root / "closed/prefix");
  fs::create_directory(root / "out");
  std::ofstream(root / "closed/secret") << "secret";
  std::ofstream(root / "closed/prefix/lib") << "library";
  chmod((root / "closed").c_str(), 0700);
  JailSpec spec = shell("cat " + std::string(folder) + "/closed/prefix/lib; echo result > /out/file; ls " + folder +
                        "/closed; touch " + folder + "/closed/prefix/x");
  spec.readable_prefixes = {(root / "closed/prefix").string()};
  spec.binds = {{(root / "out").string(), "/out", true}};
  const std::string text = out_of(spec);
  CHECK(contains(text, "library"));
  CHECK(contains(text, "prefix\n"));
  CHECK(!contains(text, "secret"));
  CHECK(contains(text, "Read-only file system"));
  std::ifstream file(root / "out/file");
  std::string line;
  std::getline(file, line);
  CHECK(line == "result");
  fs::remove_all(root);
}

TEST_CASE("jails die with the process that started them, also after kill -9") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t host = fork();
  if (host == 0) {
    // from a thread that ends at once: the jail must not die with the thread
    Result<Jail>* jail = nullptr;
    std::thread([&] { jail = new Result<Jail>(Jail::start(shell("sleep 100 & sleep 100"))); }).join();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const pid_t pid = *jail && !(*jail)->poll() ? (*jail)->pid() : 0;
    [[maybe_unused]] const ssize_t n = write(ends[1], &pid, sizeof pid);
    pause();
    _exit(0);
  }
  pid_t inside = 0;
  REQUIRE(read(ends[0], &inside, sizeof inside) == sizeof inside);
  REQUIRE(inside > 0);
  kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  CHECK(gone(inside));
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("concurrent jails never share a uid" * doctest::skip(geteuid() != 0)) {
  std::vector<Jail> jails;
  std::set<uid_t> uids;
  for (int i = 0; i < 8; ++i) {
    Result<Jail> jail = Jail::start(shell("sleep 20"));
    REQUIRE(bool(jail));
    uids.insert(jail->uid());
    jails.push_back(std::move(*jail));
  }
  CHECK(uids.size() == 8);
}
