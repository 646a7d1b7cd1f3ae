// What a Python that runs a stranger's code may not do to others, beside what its jail refuses. The jail itself cannot
// say so, since the process that forks these must be able to. Installed in the child, for good, before anything of the
// stranger runs; it holds for every thread that is started later.
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stddef.h>
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
  const auto self = static_cast<unsigned>(getpid());
  Program program;
  program.refuse_processes();
  for (const unsigned call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
    program.refuse_to_others(call, self, false);
  }
  program.refuse_to_others(SYS_prlimit64, self, true);
  program.refuse({SYS_tkill, SYS_pidfd_send_signal, SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam,
                  SYS_sched_setattr, SYS_setpriority, SYS_ioprio_set, SYS_migrate_pages, SYS_move_pages,
                  SYS_timer_create, SYS_setitimer, SYS_mq_notify});
#ifdef SYS_alarm
  program.refuse({SYS_alarm});
#endif
  program.refuse_commands(SYS_fcntl, {F_SETOWN, F_SETOWN_EX, F_SETSIG});
  program.refuse_commands(SYS_ioctl, {FIOSETOWN, SIOCSPGRP});
  return program.install();
}
}
