// Question 4: which pieces of the whole jail does a CUDA process need? Built up at once, then taken away one by one.
// usage: q4_jail [flag…] -- program args…      (as root; no user namespace)
//   shm=private|host|none  tmp=private|none  proc=yes|no  seccomp=yes|no  dev=minimal|host  uid=N
//   bind=PATH (read-write)  robind=PATH  limit=yes|no  (open files, processes, file size, memory lock)
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

static std::string root;

static void need(bool ok, const std::string& what) {
  if (ok)
    return;
  printf("  jail: %s: %s\n", what.c_str(), strerror(errno));
  fflush(stdout);
  _exit(4);
}

static void make_dirs(const std::string& path) {
  for (size_t i = path.find('/', root.size() + 1); i != std::string::npos; i = path.find('/', i + 1))
    mkdir(path.substr(0, i).c_str(), 0755);
  mkdir(path.c_str(), 0755);
}

static void bind(const std::string& path, bool writable) {
  struct stat s;
  if (stat(path.c_str(), &s))
    return;
  const std::string target = root + path;
  if (S_ISDIR(s.st_mode)) {
    make_dirs(target);
  } else {
    make_dirs(target.substr(0, target.rfind('/')));
    close(open(target.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  }
  need(!mount(path.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr), "bind " + path);
  if (writable)
    return;
  struct {
    uint64_t set, clear, propagation, userns;
  } attr{MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0};
  need(!syscall(442 /* mount_setattr */, AT_FDCWD, target.c_str(), 0x8000 /* recursive */, &attr, sizeof attr),
       "read-only " + path);
}

static void tmpfs(const std::string& path, const char* options) {
  make_dirs(root + path);
  need(!mount("tmpfs", (root + path).c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options), "tmpfs " + path);
}

static void forbid() {
  const std::vector<sock_filter> head = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      // clone3 cannot be judged by its arguments: say it does not exist, then libc falls back to clone
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  std::vector<sock_filter> code = head;
  for (int nr : {SYS_fork, SYS_vfork, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_bpf,
                 SYS_perf_event_open, SYS_io_uring_setup, SYS_keyctl, SYS_add_key, SYS_userfaultfd, SYS_mount,
                 SYS_umount2, SYS_unshare, SYS_setns, SYS_pivot_root, SYS_open_by_handle_at, SYS_kexec_load}) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{(unsigned short)code.size(), code.data()};
  need(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

int main(int argc, char** argv) {
  std::map<std::string, std::string> flag = {{"shm", "private"}, {"tmp", "private"}, {"proc", "yes"},
                                             {"seccomp", "yes"}, {"dev", "minimal"}, {"uid", "60123"},
                                             {"limit", "yes"}};
  std::vector<std::string> binds, robinds;
  int i = 1;
  for (; i < argc && strcmp(argv[i], "--"); i++) {
    const std::string s = argv[i], key = s.substr(0, s.find('=')), value = s.substr(s.find('=') + 1);
    if (key == "bind")
      binds.push_back(value);
    else if (key == "robind")
      robinds.push_back(value);
    else
      flag[key] = value;
  }
  char** program = argv + i + 1;
  need(!unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS), "unshare");
  const pid_t pid = fork();
  if (pid) {
    int status;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
      printf("  jail: program died of signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  need(!mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
  char name[] = "/tmp/probe-jail-XXXXXX";
  root = mkdtemp(name);
  need(!mount("tmpfs", root.c_str(), "tmpfs", MS_NOSUID, "mode=0755,size=4m"), "root");
  for (const char* p : {"/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"}) {
    char link[256];
    const ssize_t n = readlink(p, link, sizeof link);
    if (n > 0)
      need(!symlink(std::string(link, n).c_str(), (root + p).c_str()), std::string("link ") + p);
    else
      bind(p, false);
  }
  if (flag["tmp"] == "private")
    tmpfs("/tmp", "mode=1777,size=64m");
  for (const auto& p : robinds)
    bind(p, false);
  for (const auto& p : binds)
    bind(p, true);
  std::string self = program[0];
  bind(self, false);
  if (flag["dev"] == "host") {
    bind("/dev", true);
  } else {
    make_dirs(root + "/dev");
    for (const char* d :
         {"/dev/null", "/dev/zero", "/dev/urandom", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"})
      bind(d, true);
    if (flag["shm"] == "private")
      tmpfs("/dev/shm", "mode=1777,size=64m");
    if (flag["shm"] == "host")
      bind("/dev/shm", true);
  }
  if (flag["proc"] == "yes") {
    make_dirs(root + "/proc");
    need(!mount("proc", (root + "/proc").c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr), "proc");
  }
  make_dirs(root + "/old");
  need(!chdir(root.c_str()) && !syscall(SYS_pivot_root, ".", "old"), "pivot_root");
  need(!umount2("/old", MNT_DETACH) && !chdir("/") && !rmdir("/old"), "leave the old root");
  need(!mount("none", "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, nullptr), "read-only root");
  if (flag["limit"] == "yes") {
    const std::map<int, rlim_t> limits = {{RLIMIT_NOFILE, 256},
                                          {RLIMIT_NPROC, 64},
                                          {RLIMIT_FSIZE, 64u << 20},
                                          {RLIMIT_MEMLOCK, 64u << 10},
                                          {RLIMIT_CORE, 0}};
    for (auto [what, value] : limits) {
      const rlimit r{value, value};
      setrlimit(__rlimit_resource(what), &r);
    }
  }
  for (int cap = 0; cap < 64; cap++)
    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
  const int uid = atoi(flag["uid"].c_str());
  need(!setgroups(0, nullptr) && !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid), "uid");
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (flag["seccomp"] == "yes")
    forbid();
  const char* path = getenv("LD_LIBRARY_PATH");
  const char* pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string e1 = std::string("LD_LIBRARY_PATH=") + (path ? path : ""),
                    e2 = std::string("CUDA_MPS_PIPE_DIRECTORY=") + (pipe ? pipe : "");
  const char* environment[] = {"PATH=/usr/bin:/bin", e1.c_str(), e2.c_str(), nullptr};
  execve(program[0], program, const_cast<char**>(environment));
  need(false, "exec");
}
