// Question 2: which closing form works, what does it cost, and how much can a dishonest subject gain (the slack)?
// Per call: open (barrier, reveal, go) - event A - wait for the acknowledgement - close (barrier, sample) - event B.
// Forms of the wait: "queued" (cuStreamWaitValue32 on shared host memory, everything enqueued beforehand), "poller"
// (a one-warp kernel waits), "host" (the host sees the word and then launches close).
// usage: q2_slack [queued|poller|host] [calls] [together]     together: open's blocks leave at the same moment
#include "turn.h"

using namespace probe;

enum Mode {
  kNull,
  kEmpty,
  kHonest,
  kHonestHost,
  kFrozen,
  kEarly,
  kAhead,
  kAheadEarly,
  kFlood,
  kFloodAhead,
  kPoller,
  kAheadFrozen,
  kSwarm
};
static const char* kNames[] = {"null (host ack)",       "empty kernel",           "honest, device ack",
                               "honest, host ack",      "honest, frozen between", "early ack",
                               "queued ahead",          "ahead + early ack",      "high priority, ack first",
                               "same, queued ahead",    "resident poller",        "ahead, frozen throughout",
                               "swarm of small kernels"};

struct Page {
  // device-visible words, one cache line each
  alignas(64) unsigned go;
  alignas(64) unsigned ack;
  alignas(64) unsigned tick;   // judge: thawed
  alignas(64) unsigned ready;  // subject: saw the tick
  alignas(64) std::atomic<unsigned> command;
  std::atomic<unsigned> done;
  int mode;
  unsigned long long cycles, early_cycles;
  float old;
  cudaIpcMemHandle_t in, out;
  std::atomic<int> stage;
};

static const size_t kCount = size_t(1) << 20;
static unsigned load(const unsigned& w) {
  return __atomic_load_n(&w, __ATOMIC_ACQUIRE);
}
static void store(unsigned& w, unsigned v) {
  __atomic_store_n(&w, v, __ATOMIC_RELEASE);
}

// Each block keeps its SM for `cycles`, then writes its share; block `acker` acknowledges `early` cycles before that.
__global__ void __launch_bounds__(1024)
    work(const float* in, float* out, size_t n, unsigned seq, unsigned long long cycles, int acker,
         unsigned long long early, volatile unsigned* ack, const volatile unsigned* go) {
  if (go) {  // a poller: waits on the device for the reveal; bounded
    const unsigned long long start = device_ns();
    while (*go != seq && device_ns() - start < 30000000) {
    }
  }
  const long long start = clock64();
  if (acker == int(blockIdx.x) && threadIdx.x == 0) {
    while (clock64() - start < (long long)(cycles - early)) {
    }
    *ack = seq;
    __threadfence_system();
  }
  while (clock64() - start < (long long)cycles) {
  }
  for (size_t i = blockIdx.x * size_t(1024) + threadIdx.x; i < n; i += size_t(gridDim.x) * 1024)
    out[i] = __ldcv(in + i) * 2.f + float(seq);
}
// One of many small kernels: leaves at once unless the last input has changed and nobody did the work yet.
__global__ void __launch_bounds__(1024)
    work_if_changed(const float* in, float* out, size_t n, unsigned seq, unsigned long long cycles, float old,
                    unsigned* taken, volatile unsigned* ack) {
  __shared__ int mine;
  if (threadIdx.x == 0)
    mine = __ldcv(in + n - 1) != old && atomicExch(taken + blockIdx.x, seq) != seq;
  __syncthreads();
  if (!mine)
    return;
  const long long start = clock64();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *ack = seq;
    __threadfence_system();
  }
  while (clock64() - start < (long long)cycles) {
  }
  for (size_t i = blockIdx.x * size_t(1024) + threadIdx.x; i < n; i += size_t(gridDim.x) * 1024)
    out[i] = __ldcv(in + i) * 2.f + float(seq);
}
__global__ void nothing() {}
__global__ void wait_word(const volatile unsigned* word, unsigned value, unsigned long long limit_ns) {
  const unsigned long long start = device_ns();
  while (*word != value && device_ns() - start < limit_ns) {
  }
}
__global__ void set_input(float* p, size_t n, unsigned seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = float((unsigned(i) * 747796405u + seed * 2891336453u) >> 20);
}

static void subject(Page* page) {
  CK(cudaFree(0));
  const int sms = attribute(cudaDevAttrMultiProcessorCount);
  int low, high;
  CK(cudaDeviceGetStreamPriorityRange(&low, &high));
  cudaStream_t plain, urgent;
  CK(cudaStreamCreateWithPriority(&plain, cudaStreamNonBlocking, low));
  CK(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, high));
  CK(cudaHostRegister(page, 4096, cudaHostRegisterMapped));
  Page* mapped;
  CK(cudaHostGetDevicePointer((void**)&mapped, page, 0));
  const CUdeviceptr dgo = (CUdeviceptr)&mapped->go, dack = (CUdeviceptr)&mapped->ack;
  page->stage = 1;
  wait_until(20, [&] { return page->stage.load() == 2; });
  float *in, *out;
  CK(cudaIpcOpenMemHandle((void**)&in, page->in, 1));
  CK(cudaIpcOpenMemHandle((void**)&out, page->out, 1));
  unsigned* taken;
  CK(cudaMalloc(&taken, 4096));
  CK(cudaMemset(taken, 0, 4096));
  page->stage = 3;
  unsigned seen = 0, tick = 0;
  for (;;) {  // one round = one command = one call numbered like it
    if (!wait_until(30, [&] { return page->command.load() != seen; }))
      return;
    seen = page->command;
    if (seen == ~0u)
      return;
    const int mode = page->mode;
    const unsigned long long cycles = page->cycles, early = page->early_cycles;
    cudaStream_t s = mode == kFlood || mode == kFloodAhead ? urgent : plain;
    const auto launch = [&](int acker, const unsigned* go) {
      if (mode == kFlood || mode == kFloodAhead)  // four waves that leave no room
        work<<<8 * sms, 1024, 0, s>>>(in, out, kCount, seen, cycles / 4, acker, cycles / 4, &mapped->ack, nullptr);
      else
        work<<<sms, 1024, 0, s>>>(in, out, kCount, seen, cycles, acker, early, &mapped->ack, go);
      CK(cudaGetLastError());
    };
    // what an adversary does before the call is open
    if (mode == kAhead || mode == kAheadEarly || mode == kFloodAhead || mode == kAheadFrozen) {
      CK(cuStreamWaitValue32(s, dgo, seen, CU_STREAM_WAIT_VALUE_EQ));
      const bool honest = mode == kAhead || mode == kAheadFrozen;
      launch(honest ? -1 : 0, nullptr);
      if (honest)
        CK(cuStreamWriteValue32(s, dack, seen, 0));
    }
    if (mode == kPoller)
      launch(0, &mapped->go);
    if (mode == kSwarm)
      for (int i = 0; i < 400; i++)
        work_if_changed<<<sms, 1024, 0, s>>>(in, out, kCount, seen, cycles, page->old, taken, &mapped->ack);
    page->done = seen;
    if (mode == kSwarm)  // keeps them coming until one of them found the input
      wait_until(1, [&] {
        for (int i = 0; i < 20; i++)
          work_if_changed<<<sms, 1024, 0, s>>>(in, out, kCount, seen, cycles, page->old, taken, &mapped->ack);
        if (load(page->tick) != tick)
          store(page->ready, tick = load(page->tick));
        return load(page->go) == seen;
      });
    wait_until(5, [&] {
      if (load(page->tick) != tick)
        store(page->ready, tick = load(page->tick));
      return load(page->go) == seen;
    });
    if (mode == kNull)
      store(page->ack, seen);
    if (mode == kEmpty)
      nothing<<<1, 1, 0, s>>>();
    if (mode == kHonest || mode == kHonestHost || mode == kFrozen)
      launch(-1, nullptr);
    if (mode == kEarly || mode == kFlood)
      launch(0, nullptr);
    if (mode == kEmpty || mode == kHonest || mode == kFrozen)
      CK(cuStreamWriteValue32(s, dack, seen, 0));
    if (mode == kHonestHost) {
      CK(cudaStreamSynchronize(s));
      store(page->ack, seen);
    }
    CK(cudaDeviceSynchronize());
  }
}

int main(int argc, char** argv) {
  alarm(150);
  const std::string form = argc > 1 ? argv[1] : "queued";
  const int calls = argc > 2 ? atoi(argv[2]) : 40;
  const bool together = argc > 3;
  const std::string label = form + (together ? "+together" : "");
  Page* page = shared<Page>();
  const pid_t child = spawn(145, [&] { subject(page); });
  CK(cudaFree(0));
  const int sms = attribute(cudaDevAttrMultiProcessorCount);
  int supported = 0;
  cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0);
  float *hidden, *in, *out;
  const size_t bytes = kCount * 4;
  CK(cudaMalloc(&hidden, bytes));
  CK(cudaMalloc(&in, bytes));
  CK(cudaMalloc(&out, bytes));
  TurnState *states, *host;
  CK(cudaMalloc(&states, 4096));
  CK(cudaMallocHost(&host, 4096));
  CK(cudaHostRegister(page, 4096, cudaHostRegisterMapped));
  Page* mapped;
  CK(cudaHostGetDevicePointer((void**)&mapped, page, 0));
  cudaStream_t stream;
  CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t o, a, b;
  CK(cudaEventCreate(&o));
  CK(cudaEventCreate(&a));
  CK(cudaEventCreate(&b));
  if (!wait_until(20, [&] { return page->stage.load() == 1; }))
    return printf("subject silent\n"), 1;
  CK(cudaIpcGetMemHandle(&page->in, in));
  CK(cudaIpcGetMemHandle(&page->out, out));
  page->stage = 2;
  if (!wait_until(20, [&] { return page->stage.load() == 3; }))
    return printf("subject silent\n"), 1;

  unsigned seq = 0;
  double empty = 0;
  const auto measure = [&](int mode, double us, double early_us, double mhz, double honest) {
    std::vector<double> windows, thaws, opens, revealed;
    int wrong = 0, busy = 0, late = 0;
    for (int i = 0; i < calls + 3; i++) {
      seq++;
      set_input<<<sms, 1024, 0, stream>>>(hidden, kCount, seq);
      CK(cudaMemsetAsync(states, 0, 2 * sizeof *states, stream));
      CK(cudaStreamSynchronize(stream));
      page->mode = mode;
      CK(cudaMemcpy(&page->old, in + kCount - 1, 4, cudaMemcpyDeviceToHost));
      page->cycles = us * mhz, page->early_cycles = std::min(early_us, us) * mhz;
      page->command = seq;
      if (!wait_until(3, [&] { return page->done.load() == seq; })) {
        printf("  subject stopped answering\n");
        break;
      }
      if (mode == kFrozen || mode == kAheadFrozen) {
        kill(child, SIGSTOP);
        usleep(1000);
      } else {
        usleep(50);  // lets what was queued ahead reach the device
      }
      const double thaw = now_us();
      store(page->tick, seq);
      if (mode == kFrozen)
        kill(child, SIGCONT);
      if (mode != kAheadFrozen)
        wait_until(1, [&] { return load(page->ready) == seq; });
      thaws.push_back(now_us() - thaw);
      TurnArguments open{}, close{};
      open.state = states, open.limit_ns = 2000000;
      open.hidden = (const uint4*)hidden, open.visible = (uint4*)in, open.reveal16 = bytes / 16;
      open.go = &mapped->go, open.sequence = seq;
      open.leave_together = together;
      close.state = states + 1, close.limit_ns = 50000000;
      close.in = hidden, close.out = out, close.count = kCount, close.sequence = seq;
      close.samples = mode == kNull || mode == kEmpty ? 0 : 16384, close.seed = rand();
      const double asked = now_us();
      CK(cudaEventRecord(o, stream));
      turn<<<2 * sms, 1024, 0, stream>>>(open);
      CK(cudaEventRecord(a, stream));
      if (form == "queued")
        CK(cuStreamWaitValue32(stream, (CUdeviceptr)&mapped->ack, seq, CU_STREAM_WAIT_VALUE_EQ));
      if (form == "poller")
        wait_word<<<1, 1, 0, stream>>>(&mapped->ack, seq, 100000000);
      double seen = 0;
      const auto reveal = [&] {
        wait_until(.02, [&] { return load(page->go) == seq; });
        seen = now_us() - asked;
      };
      if (form == "host")
        reveal();
      if (form == "host" && !wait_until(.2, [&] { return load(page->ack) == seq; }))
        late++;
      turn<<<2 * sms, 1024, 0, stream>>>(close);
      CK(cudaEventRecord(b, stream));
      if (form != "host")
        reveal();
      if (!wait_until(.3, [&] { return cudaEventQuery(b) == cudaSuccess; })) {
        late++;
        store(page->go, seq);  // a busy open writes no go: release both sides by hand
        store(page->ack, seq);
        CK(cudaStreamSynchronize(stream));
      }
      CK(cudaMemcpyAsync(host, states, 2 * sizeof *states, cudaMemcpyDeviceToHost, stream));
      CK(cudaStreamSynchronize(stream));
      store(page->go, seq);
      if (mode == kAheadFrozen)
        kill(child, SIGCONT);
      float ms, open_ms;
      CK(cudaEventElapsedTime(&ms, a, b));
      CK(cudaEventElapsedTime(&open_ms, o, a));
      if (late > 3)
        break;
      if (i < 3)
        continue;
      busy += host[0].busy != 0, wrong += host[1].bad != 0 || host[1].busy;
      windows.push_back(ms * 1e3), opens.push_back(open_ms * 1e3), revealed.push_back(seen);
    }
    const double median = quantile(windows, .5);
    char gain[64] = "";
    if (honest > 0)
      snprintf(gain, sizeof gain, " | gain %+.1f us", honest - median);
    char early[32] = "";
    if (early_us > 0)
      snprintf(early, sizeof early, " by %.0f us", early_us);
    printf(
        "Q2 %s %s | %6.0f us | %-24s%-10s | window %7.1f (%.1f to %.1f) us, less empty %7.1f%s | open %.1f (%.1f "
        "to %.1f), host sees go after %.1f (%.1f to %.1f) | wrong %d/%d busy %d late %d%s\n",
        sharing(), label.c_str(), us, kNames[mode], early, median, quantile(windows, .1), quantile(windows, .9),
        median - empty, gain, quantile(opens, .5), quantile(opens, .1), quantile(opens, .9), quantile(revealed, .5),
        quantile(revealed, .1), quantile(revealed, .9), wrong, calls, busy, late,
        mode == kFrozen ? (" thaw " + std::to_string(int(quantile(thaws, .5))) + " us").c_str() : "");
    fflush(stdout);
    return median;
  };
  printf("Q2 %s %s | stream memory operations supported: %d\n", sharing(), label.c_str(), supported);
  measure(kNull, 0, 0, 1, 0);
  empty = measure(kEmpty, 0, 0, 1, 0);
  for (double us : {20., 100., 500., 1000., 2000., 3000.}) {
    // the clock rate in this very state, and the kernel's own time by events in the judge's context
    std::vector<double> alone;
    double mhz = 1755;
    for (int round = 0; round < 2; round++) {
      alone.clear();
      for (int i = 0; i < 30; i++) {
        CK(cudaEventRecord(a, stream));
        work<<<sms, 1024, 0, stream>>>(in, out, kCount, 1, us * mhz, -1, 0, nullptr, nullptr);
        CK(cudaEventRecord(b, stream));
        CK(cudaStreamSynchronize(stream));
        float ms;
        CK(cudaEventElapsedTime(&ms, a, b));
        alone.push_back(ms * 1e3);
      }
      if (!round)
        mhz *= us / (quantile(alone, .5) - 4);
    }
    printf("Q2 %s %s | %6.0f us | own events in the judge's context %.1f us\n", sharing(), label.c_str(), us,
           quantile(alone, .5));
    const double honest = measure(kHonest, us, 0, mhz, 0);
    for (int mode : {kHonestHost, kFrozen, kAhead, kAheadFrozen, kFlood, kFloodAhead, kSwarm, kPoller})
      measure(mode, us, 0, mhz, honest);
    for (double early : {2., 5., 10.}) {
      if (early > us)
        continue;
      measure(kEarly, us, early, mhz, honest);
      measure(kAheadEarly, us, early, mhz, honest);
    }
  }
  page->command = ~0u;
  reap(child, 5);
}
