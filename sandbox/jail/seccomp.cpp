#include "sandbox/jail/seccomp.h"

#include <errno.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <initializer_list>

namespace khost::sandbox {
namespace {

// What no compiler, interpreter, shell or GPU program needs, and what widens the way into the kernel.
constexpr const char* kDenied[] = {
    // other processes' memory and descriptors
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
    // programs and queues inside the kernel
    "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd",
    // keys
    "add_key", "request_key", "keyctl",
    // mounts and namespaces
    "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "unshare", "setns", "open_by_handle_at", "name_to_handle_at", "fanotify_init", "quotactl",
    "quotactl_fd",
    // the machine
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff",
    "acct", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "iopl",
    "ioperm", "syslog", "vhangup", "lookup_dcookie", "nfsservctl",
    // memory that outlives its process and counts for nobody
    "shmget", "shmat", "msgget", "msgsnd", "semget", "mq_open", "memfd_secret"};

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ALLOW)) {}
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  ~Filter() {
    if (context_ != nullptr) {
      seccomp_release(context_);
    }
  }

  void deny(const char* name, int error, std::initializer_list<scmp_arg_cmp> conditions = {}) {
    const int number = seccomp_syscall_resolve_name(name);
    if (context_ == nullptr || number == __NR_SCMP_ERROR) {
      return;  // a call that this libseccomp does not know is newer than the kernels it was made for
    }
    const int rc = seccomp_rule_add_array(context_, SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), number,
                                          static_cast<unsigned>(conditions.size()), conditions.begin());
    if (rc != 0 && failure_.empty()) {
      failure_ = std::string("seccomp rule for ") + name + ": " + strerror(-rc);
    }
  }

  std::string load() {
    if (context_ == nullptr) {
      return "seccomp_init failed";
    }
    if (failure_.empty()) {
      const int rc = seccomp_load(context_);
      if (rc != 0) {
        failure_ = std::string("seccomp_load: ") + strerror(-rc);
      }
    }
    return failure_;
  }

 private:
  scmp_filter_ctx context_;
  std::string failure_;
};

scmp_arg_cmp bits_set(unsigned argument, unsigned long long bits) {
  return SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, bits, bits);
}

void deny_clone(Filter& filter, bool threads_only) {
  // The flags of clone3 lie in memory, where a filter cannot look; libraries fall back to clone.
  filter.deny("clone3", ENOSYS);
  for (const unsigned long long flag :
       {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP}) {
    filter.deny("clone", EPERM, {bits_set(0, flag)});
  }
  if (threads_only) {
    filter.deny("clone", EPERM, {SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)});
    filter.deny("fork", EPERM);
    filter.deny("vfork", EPERM);
  }
}

// Only unix and (unconnected) IP sockets: vsock reaches the hypervisor from any network namespace, netlink, packet
// and AF_ALG sockets reach kernel code that nothing here needs.
void deny_sockets(Filter& filter) {
  for (const char* name : {"socket", "socketpair"}) {
    filter.deny(name, EAFNOSUPPORT, {SCMP_CMP64(0, SCMP_CMP_GT, AF_INET6)});
    for (const int family : {AF_UNSPEC, 3, 4, 5, 6, 7, 8, 9}) {  // everything between AF_INET and AF_INET6
      filter.deny(name, EAFNOSUPPORT, {SCMP_CMP64(0, SCMP_CMP_EQ, static_cast<scmp_datum_t>(family))});
    }
  }
}

}  // namespace

std::string apply_filter(const FilterOptions& options) {
  Filter filter;
  for (const char* name : kDenied) {
    filter.deny(name, EPERM);
  }
  if (!options.allow_memfd) {
    filter.deny("memfd_create", EPERM);
  }
  filter.deny("ioctl", EPERM, {SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, 0xffffffffu, TIOCSTI)});
  filter.deny("ioctl", EPERM, {SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, 0xffffffffu, TIOCLINUX)});
  deny_clone(filter, options.threads_only);
  deny_sockets(filter);
  return filter.load();
}

}  // namespace khost::sandbox
