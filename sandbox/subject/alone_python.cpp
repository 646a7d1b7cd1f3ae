// What a Python that runs a stranger's code may not do to others, beside what its jail refuses. The jail itself cannot
// say so, since the process that forks these must be able to. Installed in the child, for good, before anything of the
// stranger runs; it holds for every thread that is started later.
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>
#include <vector>

namespace {

constexpr unsigned kRefuse = static_cast<unsigned>(SECCOMP_RET_ERRNO | EPERM);

// A jail refuses clone3 and other architectures' calls by itself. Where a value of 32 bits is meant, the kernel reads
// the low half of an argument, which comes first on both architectures that khost knows.
class Program {
 public:
  Program() { load_number(); }

  void refuse(std::initializer_list<unsigned> calls) {
    for (const unsigned call : calls) {
      add({BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, kRefuse)});
    }
  }
  void refuse_processes() {
#ifdef SYS_fork
    refuse({SYS_fork, SYS_vfork});
#endif
    add({BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4), argument(0),
         BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0), BPF_STMT(BPF_RET | BPF_K, kRefuse)});
    load_number();
  }
  // The call, unless its first argument is the number of this process or, with `zero`, 0.
  void refuse_to_others(unsigned call, unsigned pid, bool zero) {
    add({BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5), argument(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, pid, 2, 0),
         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, zero ? 0 : pid, 1, 0), BPF_STMT(BPF_RET | BPF_K, kRefuse)});
    load_number();
  }
  void refuse_commands(unsigned call, std::initializer_list<unsigned> commands) {
    for (const unsigned command : commands) {
      add({BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4), argument(1),
           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, command, 0, 1), BPF_STMT(BPF_RET | BPF_K, kRefuse)});
      load_number();
    }
  }

  // 0, or an error of errno.
  int install() {
    add({BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)});
    const sock_fprog filter{static_cast<unsigned short>(code_.size()), code_.data()};
    const bool done =
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
    return done ? 0 : errno;
  }

 private:
  void add(std::initializer_list<sock_filter> some) {
    code_.insert(code_.end(), some);
  }
  void load_number() {
    add({BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))});
  }
  static sock_filter argument(unsigned place) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * place));
  }
  std::vector<sock_filter> code_;
};

// Calls of kernels that headers may be older than.
constexpr unsigned kFchmodat2 = 452, kSetxattrat = 463, kRemovexattrat = 466, kFileSetattr = 469;

// What one process of a jail could do to another one of its uid.
void refuse_others(Program& program) {
  const auto self = static_cast<unsigned>(getpid());
  for (const unsigned call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
    program.refuse_to_others(call, self, false);
  }
  program.refuse_to_others(SYS_prlimit64, self, true);
  program.refuse({SYS_tkill, SYS_pidfd_send_signal, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
                  SYS_setpriority, SYS_ioprio_set, SYS_migrate_pages, SYS_move_pages, SYS_timer_create, SYS_mq_notify});
  // Rights and owners of files that others of this uid go by: Landlock does not ask for these.
  program.refuse({SYS_fchmod, SYS_fchmodat, kFchmodat2, SYS_fchown, SYS_fchownat, SYS_setxattr, SYS_lsetxattr,
                  SYS_fsetxattr, kSetxattrat, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, kRemovexattrat,
                  kFileSetattr});
#ifdef SYS_chmod
  program.refuse({SYS_chmod, SYS_chown, SYS_lchown});
#endif
  program.refuse_commands(SYS_fcntl, {F_SETOWN, F_SETOWN_EX, F_SETSIG});
  program.refuse_commands(SYS_ioctl, {FIOSETOWN, SIOCSPGRP, static_cast<unsigned>(FS_IOC_SETFLAGS),
                                      static_cast<unsigned>(FS_IOC_FSSETXATTR)});
}

// Landlock of a kernel that headers may be older than.
constexpr unsigned kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr uint64_t kTruncate = 1ull << 14;

int allow_below(int rules, const char* path, uint64_t access) {
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
  if (rule.parent_fd < 0) {
    return errno;
  }
  const int error = syscall(kAddRule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0 ? 0 : errno;
  close(rule.parent_fd);
  return error;
}

// Files are made, changed and removed below `folder` alone; /dev/null takes what is written to it. 0 also where the
// kernel knows no Landlock that allows files to be moved between folders.
int write_only_below(const char* folder) {
  const long version = syscall(kCreateRuleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 2) {
    return 0;
  }
  const uint64_t on_files = LANDLOCK_ACCESS_FS_WRITE_FILE | (version > 2 ? kTruncate : 0);
  const uint64_t all = on_files | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                       LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                       LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                       LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = all;
  const int rules = static_cast<int>(syscall(kCreateRuleset, &attributes, sizeof attributes.handled_access_fs, 0));
  if (rules < 0) {
    return errno;
  }
  int error = allow_below(rules, folder, all);
  error = error != 0 ? error : allow_below(rules, "/dev/null", on_files);
  if (error == 0 && syscall(kRestrictSelf, rules, 0) != 0) {
    error = errno;
  }
  close(rules);
  return error;
}

}  // namespace

extern "C" {

// Threads, but no process: then one signal stops all of it. 0, or an error of errno.
__attribute__((visibility("default"))) int khost_threads_only() {
  Program program;
  program.refuse_processes();
  return program.install();
}

// The same for a process whose jail holds others of its uid: it sends no signal to them and changes nothing of theirs.
// It orders no signal that would come later either (timers, descriptors with an owner), since one of those could
// continue it while it is to stand. 0, or an error of errno.
__attribute__((visibility("default"))) int khost_confine() {
  Program program;
  program.refuse_processes();
  refuse_others(program);
  program.refuse({SYS_sched_setaffinity, SYS_setitimer, SYS_setsid});
#ifdef SYS_alarm
  program.refuse({SYS_alarm});
#endif
  return program.install();
}

// For one that may start processes, since it compiles: none of them sends a signal to anybody but this one, and they
// write to files below `folder` alone, so that they change nothing that others of this jail go by. On a kernel without
// Landlock they write wherever the jail lets them. 0, or an error of errno.
__attribute__((visibility("default"))) int khost_confine_compiler(const char* folder) {
  Program program;
  refuse_others(program);
  program.refuse_to_others(SYS_sched_setaffinity, static_cast<unsigned>(getpid()), true);
  const int error = program.install();
  return error != 0 ? error : write_only_below(folder);
}
}
