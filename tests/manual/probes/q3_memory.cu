// Question 3: does device memory cross as a file descriptor to a process with another uid, in other namespaces, and
// between an MPS client and a process outside MPS? And does memory made without a handle type stay private?
// usage: q3_memory [uid] [ns] [judge-outside] [subject-outside]; "outside" = that side keeps away from MPS.
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include "common.h"

using namespace probe;

static const size_t kBytes = size_t(4) << 20;

static void send_fd(int socket, int fd) {
  char byte = 1, control[CMSG_SPACE(sizeof(int))] = {};
  iovec io{&byte, 1};
  msghdr m{};
  m.msg_iov = &io, m.msg_iovlen = 1, m.msg_control = control, m.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  if (sendmsg(socket, &m, 0) != 1)
    perror("sendmsg");
}

static int receive_fd(int socket) {
  char byte, control[CMSG_SPACE(sizeof(int))] = {};
  iovec io{&byte, 1};
  msghdr m{};
  m.msg_iov = &io, m.msg_iovlen = 1, m.msg_control = control, m.msg_controllen = sizeof control;
  if (recvmsg(socket, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
    return -1;
  int fd;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
  return fd;
}

__global__ void fill(unsigned* p, size_t n, unsigned v) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = v + i;
}
__global__ void differ(const unsigned* p, size_t n, unsigned v, unsigned* bad) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    if (p[i] != unsigned(v + i))
      atomicAdd(bad, 1u);
}
static unsigned mismatches(const unsigned* p, unsigned v) {
  unsigned *bad, host = 0;
  CK(cudaMalloc(&bad, 4));
  CK(cudaMemset(bad, 0, 4));
  differ<<<64, 256>>>(p, kBytes / 4, v, bad);
  CK(cudaMemcpy(&host, bad, 4, cudaMemcpyDeviceToHost));
  CK(cudaFree(bad));
  return host;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, CUmemAccess_flags access, CUresult* result = nullptr) {
  CUdeviceptr p;
  CK(cuMemAddressReserve(&p, kBytes, 0, 0, 0));
  CK(cuMemMap(p, kBytes, 0, handle, 0));
  CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, access};
  const CUresult e = cuMemSetAccess(p, kBytes, &desc, 1);
  if (result)
    *result = e;
  else
    CK(e);
  return p;
}

static void subject(int socket, bool uid, bool ns) {
  if (ns) {
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS))
      perror("unshare");
    const pid_t inner = fork();
    if (inner) {
      reap(inner, 35);
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(30);
    mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (mount("proc", "/proc", "proc", 0, nullptr))
      perror("proc");
  }
  if (uid && (setgroups(0, nullptr) || setgid(65534) || setuid(65534)))
    perror("setuid");
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  CK(cudaFree(0));
  const int fd = receive_fd(socket);
  const double start = now_us();
  CUmemGenericAllocationHandle handle;
  CK(cuMemImportFromShareableHandle(&handle, (void*)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CUresult readonly;
  const CUdeviceptr view = map(handle, CU_MEM_ACCESS_FLAGS_PROT_READ, &readonly);
  const double took = now_us() - start;
  if (readonly != CUDA_SUCCESS)
    printf("  read-only mapping on a device refused: %s\n", text(readonly));
  const CUdeviceptr p = map(handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const unsigned wrong = mismatches((const unsigned*)p, 7);
  fill<<<64, 256>>>((unsigned*)p, kBytes / 4, 99);
  CK(cudaDeviceSynchronize());
  int fd2;
  const CUresult again = cuMemExportToShareableHandle(&fd2, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  printf("  subject (%s, uid %d): import and map %.0f us, %u words wrong, importer may export again: %s\n", sharing(),
         getuid(), took, wrong, again == CUDA_SUCCESS ? "yes" : text(again));
  (void)view;
  char byte = 1;
  if (write(socket, &byte, 1) != 1)
    perror("write");
}

int main(int argc, char** argv) {
  alarm(60);
  bool uid = false, ns = false, judge_out = false, subject_out = false;
  std::string label;
  for (int i = 1; i < argc; i++) {
    const std::string s = argv[i];
    label += " " + s;
    uid |= s == "uid", ns |= s == "ns", judge_out |= s == "judge-outside", subject_out |= s == "subject-outside";
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
    return 1;
  const pid_t child = spawn(45, [&] {
    if (subject_out)
      setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 1);
    close(pair[0]);
    subject(pair[1], uid, ns);
  });
  close(pair[1]);
  timeval limit{25, 0};
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (judge_out)
    setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 1);
  CK(cudaFree(0));
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle secret, open;
  CK(cuMemCreate(&secret, kBytes, &prop, 0));
  int fd = -1;
  const CUresult refused = cuMemExportToShareableHandle(&fd, secret, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity;
  CK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CK(cuMemCreate(&open, kBytes, &prop, 0));
  const CUdeviceptr p = map(open, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  fill<<<64, 256>>>((unsigned*)p, kBytes / 4, 7);
  CK(cudaDeviceSynchronize());
  const double start = now_us();
  CK(cuMemExportToShareableHandle(&fd, open, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  const double exported = now_us() - start;
  send_fd(pair[0], fd);
  close(fd);
  char byte;
  const bool answered = read(pair[0], &byte, 1) == 1;
  printf(
      "Q3 judge %s |%s | %s | granularity %zu KiB, export %.0f us | subject's writes seen: %s | private memory "
      "exports: %s\n",
      sharing(), label.empty() ? " same uid" : label.c_str(), answered ? "crosses" : "DOES NOT CROSS",
      granularity >> 10, exported, answered && mismatches((const unsigned*)p, 99) == 0 ? "yes" : "no",
      refused == CUDA_SUCCESS ? "YES" : "no");
  reap(child, 3);
}
