// The smallest CUDA process, used by the probes that ask "does it work there" and "how long until it works again".
//   hello once | hello serve (one kernel per input line) | hello spin SECONDS (a kernel that stays, bounded)
#include <thread>

#include "common.h"

using namespace probe;

__global__ void add(int* p) {
  atomicAdd(p, 1);
}
__global__ void spin(unsigned long long limit_ns) {
  const unsigned long long start = device_ns();
  while (device_ns() - start < limit_ns) {
  }
}

int main(int argc, char** argv) {
  who = "hello";
  const std::string mode = argc > 1 ? argv[1] : "once";
  alarm(mode == "serve" ? 120 : 60);
  const double start = now_us();
  int* p;
  if (auto e = cudaMalloc(&p, 4)) {
    printf("fails: %s (%d) after %.0f ms\n", text(e), int(e), (now_us() - start) / 1e3);
    return 3;
  }
  int* pinned;
  CK(cudaMallocHost(&pinned, 4096));
  std::thread([] { CK(cudaSetDevice(0)); }).join();  // threads must work in a jail that forbids processes
  add<<<1, 1>>>(p);
  if (auto e = cudaDeviceSynchronize()) {
    printf("fails: %s\n", text(e));
    return 3;
  }
  printf("works (%s, uid %d, context %.0f ms)\n", sharing(), getuid(), (now_us() - start) / 1e3);
  fflush(stdout);
  if (mode == "spin") {
    spin<<<attribute(cudaDevAttrMultiProcessorCount) * 2, 1024>>>(strtoull(argv[2], nullptr, 10) * 1000000000ull);
    printf("spinning\n");
    fflush(stdout);
    auto e = cudaDeviceSynchronize();
    printf("spin ended: %s\n", text(e));
  }
  if (mode == "serve")
    for (char line[64]; fgets(line, sizeof line, stdin);) {
      add<<<1, 1>>>(p);
      auto e = cudaGetLastError();
      if (!e)
        e = cudaDeviceSynchronize();
      printf("%s\n", e ? text(e) : "ok");
      fflush(stdout);
    }
}
