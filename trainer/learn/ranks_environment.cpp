// What launchers tell a rank, and how work is cut between ranks; no LibTorch.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trainer/learn/ranks.h"

namespace khost::trainer {
namespace {

// Never freed: what it holds has threads that outlive the statics of libraries.
std::shared_ptr<Ranks>& joined() {
  static std::shared_ptr<Ranks>& ranks = *new std::shared_ptr<Ranks>;
  return ranks;
}

Result<int> number(const std::string& text, const char* name) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 0 || value > 65535) {
    return Failure{std::string(name) + " is '" + text + "', expected a whole number from 0 to 65535", "bad_input"};
  }
  return static_cast<int>(value);
}

// "node[03-07,9],login" -> "node03"; "gpu1" -> "gpu1".
std::string first_host(const std::string& list) {
  const size_t bracket = list.find('[');
  const size_t comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) {
    return list.substr(0, comma);
  }
  const size_t end = list.find_first_of("-,]", bracket + 1);
  const size_t close = list.find(']', bracket);
  const std::string tail = close == std::string::npos ? "" : list.substr(close + 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) + tail.substr(0, tail.find(','));
}

}  // namespace

// Under torchrun's agent (TORCHELASTIC_USE_AGENT_STORE) the agent hosts the store: rank 0 is a client too, and every
// attempt has keys of its own.
Result<RanksOptions> read_ranks(const std::function<std::string(const char*)>& environment) {
  RanksOptions options;
  const bool srun = environment("RANK").empty() && !environment("SLURM_PROCID").empty();
  const char* const rank_name = srun ? "SLURM_PROCID" : "RANK";
  const char* const size_name = srun ? "SLURM_NTASKS" : "WORLD_SIZE";
  if (environment(rank_name).empty() && environment(size_name).empty()) {
    return options;
  }
  for (const auto& [name, place] : {std::pair{rank_name, &options.rank}, std::pair{size_name, &options.size}}) {
    const Result<int> value = number(environment(name), name);
    if (!value) {
      return value.failure();
    }
    *place = *value;
  }
  if (options.size < 1 || options.rank >= options.size) {
    return Failure{std::string(rank_name) + " is " + std::to_string(options.rank) + ", expected below " + size_name +
                       " = " + std::to_string(options.size),
                   "bad_input"};
  }
  const char* const local_name = srun ? "SLURM_LOCALID" : "LOCAL_RANK";
  options.local_rank = options.rank;
  if (const std::string local = environment(local_name); !local.empty()) {
    const Result<int> value = number(local, local_name);
    if (!value) {
      return value.failure();
    }
    options.local_rank = *value;
  }
  if (const std::string address = environment("MASTER_ADDR"); !address.empty()) {
    options.address = address;
  } else if (const std::string nodes = environment("SLURM_JOB_NODELIST"); srun && !nodes.empty()) {
    options.address = first_host(nodes);
  }
  if (const std::string port = environment("MASTER_PORT"); !port.empty()) {
    const Result<int> value = number(port, "MASTER_PORT");
    if (!value) {
      return value.failure();
    }
    options.port = *value;
  }
  if (environment("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    options.host_store = false;
    options.prefix = "/worker/attempt_" + environment("TORCHELASTIC_RESTART_COUNT");
  }
  return options;
}

std::string card_of(const std::string& visible, int cards, int local_rank) {
  std::vector<std::string> names;
  for (size_t at = 0; at < visible.size();) {
    const size_t end = std::min(visible.find(',', at), visible.size());
    names.push_back(visible.substr(at, end - at));
    at = end + 1;
  }
  if (visible.empty()) {
    for (int card = 0; card < cards; ++card) {
      names.push_back(std::to_string(card));
    }
  }
  return names.size() < 2 ? "" : names[static_cast<size_t>(local_rank) % names.size()];
}

void see_own_card(int local_rank) {
  int cards = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename();
    cards += name.starts_with("nvidia") && name.size() > 6 &&
             std::all_of(name.begin() + 6, name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (const std::string card = card_of(visible == nullptr ? "" : visible, cards, local_rank); !card.empty()) {
    setenv("CUDA_VISIBLE_DEVICES", card.c_str(), 1);
  }
}

std::shared_ptr<Ranks> Ranks::current() {
  return joined();
}
void Ranks::set_current(std::shared_ptr<Ranks> ranks) {
  joined() = std::move(ranks);
}

Status sum_parts(Ranks& ranks, std::vector<float>& column) {
  std::vector<double> numbers(column.begin(), column.end());
  if (const Status summed = ranks.sum(numbers); !summed) {
    return summed;
  }
  std::transform(numbers.begin(), numbers.end(), column.begin(), [](double x) { return static_cast<float>(x); });
  return ok();
}

std::vector<std::vector<int64_t>> share_of(const std::vector<std::vector<int64_t>>& passes, int rank, int size) {
  const auto own = static_cast<size_t>(rank);
  const auto step = static_cast<size_t>(size);
  std::vector<std::vector<int64_t>> share;
  for (size_t at = 0; at < passes.size(); ++at) {
    if (at < passes.size() / step * step) {
      if (at % step == own) {
        share.push_back(passes[at]);
      }
      continue;
    }
    std::vector<int64_t> some;  // those of a pass are alike in length
    for (size_t i = own; i < passes[at].size(); i += step) {
      some.push_back(passes[at][i]);
    }
    if (!some.empty()) {
      share.push_back(std::move(some));
    }
  }
  return share;
}

Result<int> free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const place = reinterpret_cast<sockaddr*>(&address);
  const bool found = fd >= 0 && bind(fd, place, length) == 0 && getsockname(fd, place, &length) == 0;
  const int why = errno;
  if (fd >= 0) {
    close(fd);
  }
  return found ? Result<int>(ntohs(address.sin_port)) : Failure{std::string("no free port: ") + strerror(why), "io"};
}

Slice slice_of(int64_t count, int rank, int size) {
  // In whole vectors of 16 bytes of the shortest type: kernels read several elements at once.
  const int64_t each = ((count + size - 1) / size + 7) / 8 * 8;
  const int64_t begin = std::min(count, each * rank);
  return {begin, std::min(count, begin + each) - begin};
}

}  // namespace khost::trainer
