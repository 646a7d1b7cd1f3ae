#include "sandbox/subject/narrow.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace khost::sandbox {
namespace {

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "khost-subject knows x86-64 and arm64"
#endif

// Those of the 32 bit and x32 tables are refused as a whole.
constexpr unsigned kForbidden[] = {
    __NR_sched_setaffinity, __NR_sched_setscheduler, __NR_sched_setparam, __NR_sched_setattr, __NR_setpriority,
    __NR_ioprio_set, __NR_timer_create, __NR_setitimer, __NR_mq_notify,
#ifdef __NR_alarm
    __NR_alarm,
#endif
    __NR_setsid,  // a session's terminal sends SIGCONT when it goes
    // which pages of files are in memory
    __NR_fadvise64, __NR_readahead, __NR_mincore, __NR_preadv2, __NR_pwritev2, __NR_sync_file_range,
    451,  // cachestat, which older headers do not name
};

// A call and the second argument with which it is refused: whose signals a descriptor sends, and which.
constexpr std::pair<unsigned, unsigned> kForbiddenCommands[] = {{__NR_fcntl, F_SETOWN},
                                                                {__NR_fcntl, F_SETOWN_EX},
                                                                {__NR_fcntl, F_SETSIG},
                                                                {__NR_ioctl, FIOSETOWN},
                                                                {__NR_ioctl, SIOCSPGRP}};

}  // namespace

bool narrow() {
  const unsigned refuse = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, refuse),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, refuse),
  };
  for (const unsigned number : kForbidden) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, refuse));
  }
  for (const auto& [number, command] : kForbiddenCommands) {
    program.insert(program.end(),
                   {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
                    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + sizeof(__u64)),  // the low half
                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, command, 0, 1), BPF_STMT(BPF_RET | BPF_K, refuse)});
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

}  // namespace khost::sandbox
