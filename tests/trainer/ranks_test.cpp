#include "trainer/learn/ranks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <map>
#include <netinet/in.h>
#include <sys/socket.h>

#include "host/base/json.h"
#include "tests/trainer/support.h"

using namespace khost::trainer;
using khost::Json;

namespace {

std::function<std::string(const char*)> environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? "" : found->second;
  };
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

// Starts tests/trainer/ranks.lua as `size` processes and returns what rank 0 printed last, as JSON.
Json train(const testing::TemporaryFolder& folder, int size, const std::string& mode) {
  std::string command = "cd " + folder.path + " || exit 9\n";
  const std::string port = std::to_string(free_port());
  for (int rank = size - 1; rank >= 0; --rank) {
    command += "RANK=" + std::to_string(rank) + " WORLD_SIZE=" + std::to_string(size) +
               " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " KHOST_ROOT=" KHOST_SOURCE_DIR " " +
               testing::build_folder() + "/khost " KHOST_SOURCE_DIR "/tests/trainer/ranks.lua " + mode + " >rank" +
               std::to_string(rank) + " 2>&1 &\n";
  }
  testing::write_text(folder / "run.sh", command + "wait\n");
  testing::run("sh " + (folder / "run.sh"));
  const std::string output = testing::read_text(folder / "rank0");
  const size_t at = output.rfind("{\"");
  INFO(output);
  REQUIRE(at != std::string::npos);
  return Json::parse(output.substr(at));
}

}  // namespace

TEST_CASE("ranks read what torchrun and srun tell them") {
  CHECK(read_ranks(environment({})).value().size == 1);
  const RanksOptions torchrun =
      read_ranks(environment({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "1234"}}))
          .value();
  CHECK(torchrun.rank == 3);
  CHECK(torchrun.address == "node7");
  CHECK(torchrun.port == 1234);
  CHECK(torchrun.host_store);
  const RanksOptions agent = read_ranks(environment({{"RANK", "0"},
                                                     {"WORLD_SIZE", "2"},
                                                     {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                     {"TORCHELASTIC_RESTART_COUNT", "2"}}))
                                 .value();
  CHECK_FALSE(agent.host_store);
  CHECK(agent.prefix == "/worker/attempt_2");
  const RanksOptions srun = read_ranks(environment({{"SLURM_PROCID", "1"},
                                                    {"SLURM_NTASKS", "8"},
                                                    {"SLURM_JOB_NODELIST", "gpu[03-07,11].cluster,login"}}))
                                .value();
  CHECK(srun.rank == 1);
  CHECK(srun.address == "gpu03.cluster");
  CHECK(read_ranks(environment({{"RANK", "2"}, {"WORLD_SIZE", "2"}})).failure().message.find("RANK is 2") == 0);
  CHECK(read_ranks(environment({{"RANK", "x"}, {"WORLD_SIZE", "2"}})).failure().code == "bad_input");
}

TEST_CASE("slices cover everything once") {
  for (const int size : {1, 2, 3, 7}) {
    int64_t next = 0;
    for (int rank = 0; rank < size; ++rank) {
      const Slice slice = slice_of(10, rank, size);
      CHECK((slice.begin == next || slice.length == 0));
      next += slice.length;
    }
    CHECK(next == 10);
  }
}

TEST_CASE("passes over a batch that all hold are dealt out once, and what is left over by trajectories") {
  const std::vector<std::vector<int64_t>> passes = {{0}, {1, 2}, {3, 4}, {5, 6, 7}, {8, 9, 10}};
  for (const int size : {1, 2, 3, 7}) {
    std::vector<int64_t> seen;
    for (int rank = 0; rank < size; ++rank) {
      for (const std::vector<int64_t>& pass : share_of(passes, rank, size)) {
        CHECK_FALSE(pass.empty());
        seen.insert(seen.end(), pass.begin(), pass.end());
      }
    }
    std::sort(seen.begin(), seen.end());
    CHECK(seen == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  }
  CHECK(share_of(passes, 0, 2) == std::vector<std::vector<int64_t>>{{0}, {3, 4}, {8, 10}});
  CHECK(share_of(passes, 1, 2) == std::vector<std::vector<int64_t>>{{1, 2}, {5, 6, 7}, {9}});
}

TEST_CASE("of the cards of a machine every rank sees one") {
  CHECK(card_of("", 8, 3) == "3");
  CHECK(card_of("", 2, 3) == "1");
  CHECK(card_of("", 1, 3) == "");
  CHECK(card_of("", 0, 0) == "");
  CHECK(card_of("5,GPU-77,2", 8, 1) == "GPU-77");
  CHECK(card_of("6", 8, 1) == "");  // srun gave each rank its own already
}

namespace {

void check_close(const Json& a, const Json& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].get<double>() == doctest::Approx(b[i].get<double>()).epsilon(tolerance));
  }
}

void check_two_like_one(const std::string& device) {
  const testing::TemporaryFolder folder;
  const Json one = train(folder, 1, "train " + device);
  const Json two = train(folder, 2, "train " + device);
  check_close(two["norms"], one["norms"], 1e-4);
  check_close(two["losses"], one["losses"], 1e-3);
  check_close(two["logprobs"], one["logprobs"], 1e-4);
  CHECK(two["size"] == 2);
  // The checkpoint that two ranks wrote goes on alone.
  const Json alone = train(folder, 1, "resume " + device);
  check_close(alone["norms"], two["more"], 1e-4);
}

// Ranks that hold the same batches say what one process says, metrics included.
void check_whole(const std::string& device, int size, double tolerance) {
  const testing::TemporaryFolder folder;
  const Json one = train(folder, 1, "whole " + device);
  const Json many = train(folder, size, "whole " + device);
  CHECK(testing::read_text(folder / "told") == "as rank 0 says");
  check_close(many["logprobs"], one["logprobs"], tolerance);
  for (auto entry = one.begin(); entry != one.end(); ++entry) {
    if (entry->is_number()) {
      INFO(entry.key());
      CHECK(many[entry.key()].get<double>() == doctest::Approx(entry->get<double>()).epsilon(tolerance));
    }
  }
}

void check_death(const std::string& device) {
  const testing::TemporaryFolder folder;
  const Json whole = train(folder, 1, "train " + device);
  std::filesystem::remove_all(folder / "actor");
  std::filesystem::remove_all(folder / "critic");
  const Json left = train(folder, 2, "die " + device);
  CHECK(left["code"] == "gone");
  CHECK(left["message"].get<std::string>().find("rank 0 of 2: sum: another rank is gone") == 0);
  // What both had saved before goes on as if nobody had died.
  const Json again = train(folder, 2, "resume " + device);
  CHECK(again["norms"][0].get<double>() == doctest::Approx(whole["norms"][1].get<double>()).epsilon(1e-4));
  CHECK(again["norms"][1].get<double>() == doctest::Approx(whole["norms"][2].get<double>()).epsilon(1e-4));
}

bool has_two_cards() {
  const bool has = std::filesystem::exists("/dev/nvidia0") && std::filesystem::exists("/dev/nvidia1");
  if (!has) {
    MESSAGE("skipped: this machine has no two cards");
  }
  return has;
}

}  // namespace

TEST_CASE("two processes reproduce one process's updates, and resume from each other's checkpoints") {
  check_two_like_one("cpu");
}

TEST_CASE("processes that hold the same batches share the passes over them and say what one process says") {
  check_whole("cpu", 2, 1e-4);
  check_whole("cpu", 3, 1e-4);
}

TEST_CASE("a rank that dies ends the others with a message that says so, and what was saved goes on") {
  check_death("cpu");
}

TEST_CASE("cuda: two processes with a card each reproduce one process's updates") {
  if (has_two_cards()) {
    check_two_like_one("cuda");
  }
}

TEST_CASE("cuda: two processes with a card each share the passes over batches that both hold") {
  if (has_two_cards()) {
    check_whole("cuda", 2, 1e-3);
  }
}

TEST_CASE("cuda: a rank that dies ends the others, whose cards would wait for it, and what was saved goes on") {
  if (has_two_cards()) {
    check_death("cuda");
  }
}
