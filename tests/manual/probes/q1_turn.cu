// Question 1: does the turn kernel's barrier notice another process on the device?
// A subject is idle, or keeps one warp, or a full grid, resident; the judge runs 60 turns against each and counts
// barriers that did not pass in time, with the time by events and by the host's clock.
#include "turn.h"

using namespace probe;

struct Page {
  std::atomic<unsigned> command, done;
  unsigned stop, here;
};

static void subject(Page* page) {
  cudaStream_t stream;
  CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CK(cudaHostRegister(page, 4096, cudaHostRegisterMapped));
  Page* mapped;
  CK(cudaHostGetDevicePointer((void**)&mapped, page, 0));
  const int sms = attribute(cudaDevAttrMultiProcessorCount);
  for (unsigned last = 0;; last = page->command) {
    page->done = last;
    if (!wait_until(60, [&] { return page->command.load() != last; }))
      return;
    const unsigned kind = page->command.load() % 10;
    *(volatile unsigned*)&page->stop = 1;
    CK(cudaStreamSynchronize(stream));
    if (kind == 9)
      return;
    *(volatile unsigned*)&page->stop = 0;
    *(volatile unsigned*)&page->here = 0;
    if (kind == 1)
      resident<<<1, 32, 0, stream>>>(&mapped->stop, &mapped->here, 6000000000ull);
    if (kind == 2)
      resident<<<2 * sms, 1024, 0, stream>>>(&mapped->stop, &mapped->here, 6000000000ull);
    CK(cudaGetLastError());
    if (kind)
      wait_until(3, [&] { return *(volatile unsigned*)&page->here != 0; });
  }
}

int main() {
  alarm(100);
  Page* page = shared<Page>();
  const pid_t child = spawn(90, [&] { subject(page); });
  CK(cudaFree(0));
  const int sms = attribute(cudaDevAttrMultiProcessorCount);
  TurnState *state, *host;
  uint4 *hidden, *visible, *scrub, *sink;
  const size_t bytes = size_t(64) << 20;
  const size_t turns = 1024;  // a fresh zeroed state for each turn: a memset might itself wait for an SM
  CK(cudaMalloc(&state, turns * sizeof *state));
  CK(cudaMemset(state, 0, turns * sizeof *state));
  CK(cudaMallocHost(&host, turns * sizeof *state));
  CK(cudaMalloc(&hidden, bytes));
  CK(cudaMalloc(&visible, bytes));
  CK(cudaMalloc(&scrub, 2 * bytes));
  CK(cudaMalloc(&sink, 4096));
  cudaStream_t stream;
  CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t a, b;
  CK(cudaEventCreate(&a));
  CK(cudaEventCreate(&b));
  unsigned command = 0;
  size_t used = 0;
  const char* names[] = {"idle", "one warp", "full grid"};
  for (int kind : {0, 1, 2, 0})
    for (int big : {0, 1}) {
      const double limit_ms = 2;
      page->command = command = (command / 10 + 1) * 10 + kind;
      if (!wait_until(10, [&] { return page->done.load() == command; }))
        printf("  subject silent\n");
      std::vector<double> events, walls;
      int busy = 0, stuck = 0, ran = 0;
      for (; ran < 60 && !stuck; ran++) {
        TurnArguments t{};
        t.state = state + used++;
        t.limit_ns = limit_ms * 1e6;
        if (big) {
          t.hidden = hidden, t.visible = visible, t.reveal16 = bytes / 16;
          t.scrub = scrub, t.scrub16 = 2 * bytes / 16, t.sink = sink;
        }
        const double start = now_us();
        CK(cudaEventRecord(a, stream));
        turn<<<2 * sms, 1024, 0, stream>>>(t);
        CK(cudaEventRecord(b, stream));
        if (!wait_until(.1, [&] { return cudaEventQuery(b) == cudaSuccess; })) {
          stuck = 1;  // not even started: nothing inside the kernel can bound this wait
          *(volatile unsigned*)&page->stop = 1;
          CK(cudaStreamSynchronize(stream));
        }
        walls.push_back(now_us() - start);
        float ms;
        CK(cudaEventElapsedTime(&ms, a, b));
        events.push_back(ms * 1e3);
        CK(cudaMemcpyAsync(host, t.state, sizeof *state, cudaMemcpyDeviceToHost, stream));
        CK(cudaStreamSynchronize(stream));
        busy += host->busy != 0;
      }
      const unsigned finish = *(volatile unsigned*)&page->here;
      printf(
          "Q1 %s | subject %-9s%s | turn %-12s | barrier failed %2d/%d, not started in 100 ms %d | events %7.1f (%.1f "
          "to %.1f) us | wall %7.1f "
          "(%.1f to %.1f) us\n",
          sharing(), names[kind], kind && !finish ? " (never resident)" : "", big ? "64 MB+scrub" : "barrier only",
          busy, ran, stuck, quantile(events, .5), quantile(events, .1), quantile(events, .9), quantile(walls, .5),
          quantile(walls, .1), quantile(walls, .9));
      fflush(stdout);
    }
  page->command = (command / 10 + 1) * 10 + 9;
  reap(child, 5);
}
