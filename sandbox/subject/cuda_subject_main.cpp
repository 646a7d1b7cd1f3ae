// khost-subject-cuda: plays a candidate's plan on a GPU, once per process. Jailed, untrusted, like khost-subject; the
// difference is where the memory lies (the judge's, imported) and how a call is acknowledged (cuda_turn.h).
//
//   khost-subject-cuda --control FD --orders FD [--profile FD LIBRARY CUPTI]
//
// What it is to play comes by the socket --orders once its context stands (fd_message.h):
//
//   --plan FD --library FD_OR_PATH --inputs FD BYTES --state FD BYTES --outputs FD BYTES
//
// Exit status: 0 told to leave, 2 misuse, 3 the set-up failed (the control page says why).
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "sandbox/profiler/inject.h"
#include "sandbox/subject/cuda_driver.h"
#include "sandbox/subject/cuda_turn.h"
#include "sandbox/subject/fd_message.h"
#include "sandbox/subject/player.h"

namespace khost::sandbox {
namespace {

using Options = std::map<std::string, std::vector<std::string>>;

// As khost::handles in khost.h.
struct Handles {
  void* cublas = nullptr;
  void* cublas_lt = nullptr;
  void* cudnn = nullptr;
};

constexpr std::size_t kCublasWorkspace = std::size_t{32} << 20;  // what cuBLAS recommends for sm_90

void* device_memory(std::size_t bytes) {
  CUdeviceptr base = 0;
  return (*driver())->allocate(&base, bytes) == CUDA_SUCCESS ? reinterpret_cast<void*>(base) : nullptr;
}

template <class... A>
bool call(void* library, const char* name, A... arguments) {
  auto* function = reinterpret_cast<int (*)(A...)>(dlsym(library, name));
  return function != nullptr && function(arguments...) == 0;
}

// Handles bound to the stream. cuBLAS gets its workspace here: allocating in a call would wait for the device.
Status open_handles(Handles& handles, void* stream) {
  void* cublas = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
  void* lt = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
  if (cublas == nullptr || lt == nullptr) {
    return Failure{"cuBLAS is not installed beside the CUDA toolkit", "host"};
  }
  void* scratch = device_memory(kCublasWorkspace);
  if (scratch == nullptr || !call(cublas, "cublasCreate_v2", &handles.cublas) ||
      !call(cublas, "cublasSetStream_v2", handles.cublas, stream) ||
      !call(cublas, "cublasSetWorkspace_v2", handles.cublas, scratch, kCublasWorkspace) ||
      !call(lt, "cublasLtCreate", &handles.cublas_lt)) {
    return Failure{"cuBLAS could not be set up", "host"};
  }
  if (void* cudnn = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL); cudnn != nullptr) {
    if (!call(cudnn, "cudnnCreate", &handles.cudnn) || !call(cudnn, "cudnnSetStream", handles.cudnn, stream)) {
      return Failure{"cuDNN could not be set up", "host"};
    }
  }
  return ok();
}

Result<Plan> read_plan(int fd) {
  std::string text;
  char buffer[65536];
  off_t offset = 0;
  for (ssize_t n; (n = pread(fd, buffer, sizeof buffer, offset)) > 0; offset += n) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  const Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Result<Plan>(Failure{"the plan is no JSON", "bad_input"}) : Plan::parse(json);
}

class Stage {
 public:
  explicit Stage(void* page) : page_(*static_cast<ControlPage*>(page)), words_(*device_words(page)) {}

  // A context, and the page that the device and the judge look at.
  Status open(const Options& options) {
    if (const auto profile = options.find("--profile"); profile != options.end() && profile->second.size() == 3) {
      const std::vector<std::string>& words = profile->second;
      profiler_.open(std::atoi(words[0].c_str()), words[1].c_str(), words[2].c_str());  // before the device
    }
    if (Status status = use_device(0); !status) {
      return status;
    }
    const Driver& d = **driver();
    if (d.host_register(&page_, kControlBytes, CU_MEMHOSTREGISTER_DEVICEMAP) != CUDA_SUCCESS ||
        d.host_pointer(&page_on_device_, &page_, 0) != CUDA_SUCCESS ||
        d.stream_create(&stream_, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) {
      return Failure{"the control page cannot be shared with the device", "host"};
    }
    return ok();
  }

  // The judge's memory and the plan: nothing of the candidate is loaded.
  Status prepare(const Options& options) {
    for (const auto& [name, base] :
         {std::pair{"--inputs", &Mapped::inputs}, {"--state", &Mapped::state}, {"--outputs", &Mapped::outputs}}) {
      const std::vector<std::string>& words = options.at(name);
      const std::size_t bytes = std::strtoull(words[1].c_str(), nullptr, 10);
      if (bytes == 0) {
        continue;
      }
      Result<SharedMemory> memory = map_memory(bytes, std::atoi(words[0].c_str()));
      if (!memory) {
        return memory.failure();
      }
      mapped_.*base = reinterpret_cast<std::byte*>(memory->base);
    }
    Result<Plan> plan = read_plan(std::atoi(options.at("--plan")[0].c_str()));
    if (!plan) {
      return plan.failure();
    }
    plan_ = std::move(*plan);
    return plan_.wants_handles() ? open_handles(handles_, stream_) : ok();
  }

  Status load(const Options& options) {
    const std::string& where = options.at("--library")[0];
    const bool number = std::all_of(where.begin(), where.end(), [](unsigned char c) { return std::isdigit(c); });
    void* library = dlopen(number ? ("/proc/self/fd/" + where).c_str() : where.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      return Failure{std::string("the library does not load: ") + (why != nullptr ? why : "unknown error"),
                     "bad_input"};
    }
    Player::Options player{library, dlsym, mapped_};
    player.stream = stream_;
    player.handles = &handles_;
    player.allocate = device_memory;
    Result<Player> prepared = Player::prepare(plan_, player);
    if (!prepared) {
      return prepared.failure();
    }
    player_ = std::make_unique<Player>(std::move(*prepared));
    return ok();
  }

  // Plays call after call until told to leave.
  void serve() {
    for (std::uint32_t seq = kReady + 1; wait_go(page_, seq); seq++) {
      const auto form = static_cast<Form>(__atomic_load_n(&words_.form, __ATOMIC_ACQUIRE));
      acknowledge(page_, seq, form == Form::queued ? queue(seq) : profiler_ ? profiled(seq) : play());
    }
  }

 private:
  std::uint32_t failed(CUresult result) {
    set_message(page_, (*driver())->text(result).c_str());
    return static_cast<std::uint32_t>(result);
  }

  std::uint32_t run() {
    const int code = player_->run();
    if (code != 0) {
      set_message(page_, ("'" + player_->failed_symbol() + "' returned " + std::to_string(code)).c_str());
    }
    return static_cast<std::uint32_t>(code);
  }

  std::uint32_t play() {
    if (const std::uint32_t code = run(); code != 0) {
      return code;
    }
    const CUresult result = (*driver())->stream_synchronize(stream_);
    return result == CUDA_SUCCESS ? 0 : failed(result);
  }

  // All streams are over when the records are collected.
  std::uint32_t profiled(std::uint32_t seq) {
    profiler_.begin(seq);
    const std::uint32_t code = play();
    const CUresult result = (*driver())->synchronize();
    profiler_.end();
    return code != 0 ? code : result == CUDA_SUCCESS ? 0 : failed(result);
  }

  std::uint32_t queue(std::uint32_t seq) {
    const Driver& d = **driver();
    const CUdeviceptr words = page_on_device_ + kDeviceWordsOffset;
    CUresult result = d.stream_wait(stream_, words + offsetof(DeviceWords, go), seq, CU_STREAM_WAIT_VALUE_GEQ);
    if (result != CUDA_SUCCESS) {
      return failed(result);
    }
    const std::uint32_t code = run();
    result = d.stream_write(stream_, words + offsetof(DeviceWords, ack), seq, 0);
    return code != 0 ? code : result == CUDA_SUCCESS ? 0 : failed(result);
  }

  ControlPage& page_;
  DeviceWords& words_;
  CUdeviceptr page_on_device_ = 0;
  CUstream stream_ = nullptr;
  Handles handles_;
  Mapped mapped_;
  Plan plan_;
  std::unique_ptr<Player> player_;
  profiler::Injected profiler_;
};

int misuse(const std::string& what) {
  std::fprintf(stderr, "khost-subject-cuda: %s\n", what.c_str());
  return 2;
}

Options options_of(const std::vector<std::string>& words) {
  Options options;
  std::vector<std::string>* last = nullptr;
  for (const std::string& word : words) {
    if (word.rfind("--", 0) == 0) {
      last = &options[word];
    } else if (last != nullptr) {
      last->push_back(word);
    }
  }
  return options;
}

// "" when each option has as many words as it takes, else what is wrong.
std::string lacking(Options& options, const std::map<std::string, std::size_t>& wanted) {
  for (const auto& [name, words] : wanted) {
    if (options[name].size() != words) {
      return name + " takes " + std::to_string(words) + " word(s)";
    }
  }
  return "";
}

// Acknowledges a step of the set-up; false when it failed.
bool over(ControlPage& page, std::uint32_t step, const Status& status) {
  if (!status) {
    set_message(page, status.failure().message.c_str());
  }
  acknowledge(page, step, status ? 0 : 1);
  return static_cast<bool>(status);
}

int run(int argc, char** argv) {
  Options options = options_of({argv + 1, argv + argc});
  if (const std::string what = lacking(options, {{"--control", 1}, {"--orders", 1}}); !what.empty()) {
    return misuse(what);
  }
  void* page =
      mmap(nullptr, kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, std::atoi(options["--control"][0].c_str()), 0);
  if (page == MAP_FAILED) {
    return misuse("the control page cannot be mapped: " + std::string(std::strerror(errno)));
  }
  Stage stage(page);
  auto& control = *static_cast<ControlPage*>(page);
  if (!over(control, kOpened, stage.open(options))) {
    return 3;
  }
  const int orders = std::atoi(options["--orders"][0].c_str());
  const std::vector<std::string> words = receive_words(orders);
  close(orders);  // it is not the candidate's
  if (words.empty()) {
    return 0;
  }
  Options ordered = options_of(words);
  if (const std::string what =
          lacking(ordered, {{"--plan", 1}, {"--library", 1}, {"--inputs", 2}, {"--state", 2}, {"--outputs", 2}});
      !what.empty()) {
    return misuse(what);
  }
  if (!over(control, kPrepared, stage.prepare(ordered))) {
    return 3;
  }
  if (!wait_go(control, kReady)) {
    return 0;
  }
  if (!over(control, kReady, stage.load(ordered))) {
    return 3;
  }
  stage.serve();
  return 0;
}

}  // namespace
}  // namespace khost::sandbox

// Leaves by _exit: destructors of the candidate's library have no business here.
int main(int argc, char** argv) {
  const int code = khost::sandbox::run(argc, argv);
  std::fflush(stderr);
  _exit(code);
}
