#include "sandbox/subject/narrow.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    // what others see of files that are shown to all: locks, events, and when they are written back
    __NR_flock, __NR_inotify_init1, __NR_sync, __NR_syncfs,
#ifdef __NR_inotify_init
    __NR_inotify_init,
#endif
    // threads of the kernel that work for it, on its core and for nobody's time
    __NR_io_setup,
    // pages of the outputs, which are the judge's
    __NR_fallocate,
    // which pages of files are in memory
    __NR_fadvise64, __NR_readahead, __NR_mincore, __NR_preadv2, __NR_pwritev2, __NR_sync_file_range,
    451,  // cachestat, which older headers do not name
    // on which memory pages are made, which counters of the machine tell to others
    __NR_set_mempolicy, __NR_mbind, __NR_migrate_pages, __NR_move_pages,
    450,  // set_mempolicy_home_node
};

// A call, the place of an argument, and the bits of it, all of them or those of `mask`, with which the call is refused.
struct Command {
  unsigned call, place, value, mask = ~0u;
};
constexpr unsigned kAdviseCollapse = 25, kMemoryMerge = 67, kCoreScheduling = 62;  // newer than some headers
constexpr Command kForbiddenCommands[] = {
    // whose signals a descriptor sends, and which
    {__NR_fcntl, 1, F_SETOWN},
    {__NR_fcntl, 1, F_SETOWN_EX},
    {__NR_fcntl, 1, F_SETSIG},
    {__NR_ioctl, 1, FIOSETOWN},
    {__NR_ioctl, 1, SIOCSPGRP},
    // what others see of files that are shown to all
    {__NR_fcntl, 1, F_GETLK},
    {__NR_fcntl, 1, F_SETLK},
    {__NR_fcntl, 1, F_SETLKW},
    {__NR_fcntl, 1, F_OFD_GETLK},
    {__NR_fcntl, 1, F_OFD_SETLK},
    {__NR_fcntl, 1, F_OFD_SETLKW},
    {__NR_fcntl, 1, F_SETLEASE},
    {__NR_fcntl, 1, F_NOTIFY},
    // pages of the outputs, which are the judge's
    {__NR_madvise, 2, MADV_REMOVE},
    // which pages of files are in memory
    {__NR_madvise, 2, MADV_COLD},
    {__NR_madvise, 2, MADV_PAGEOUT},
    // pages of other sizes, or shared with others, than a baseline has (zygote.py)
    {__NR_madvise, 2, MADV_HUGEPAGE},
    {__NR_madvise, 2, MADV_NOHUGEPAGE},
    {__NR_madvise, 2, kAdviseCollapse},
    {__NR_madvise, 2, MADV_MERGEABLE},
    {__NR_mmap, 3, MAP_HUGETLB, MAP_HUGETLB},
    {__NR_prctl, 0, PR_SET_THP_DISABLE},
    {__NR_prctl, 0, kMemoryMerge},
    // the signal by which the kernel ends a process for want of memory (blame.cpp): such a verdict is tried again
    {__NR_kill, 1, SIGKILL},
    {__NR_tkill, 1, SIGKILL},
    {__NR_tgkill, 2, SIGKILL},
    {__NR_rt_sigqueueinfo, 1, SIGKILL},
    {__NR_rt_tgsigqueueinfo, 2, SIGKILL},
    {__NR_pidfd_send_signal, 1, SIGKILL},
    {__NR_prctl, 0, PR_SET_PDEATHSIG},
#ifdef __NR_setrlimit
    {__NR_setrlimit, 0, RLIMIT_CPU},
    {__NR_setrlimit, 0, RLIMIT_RTTIME},
#endif
    // who may share the subject's core
    {__NR_prctl, 0, kCoreScheduling},
};

// Limits of processor time end in SIGKILL too. They may be read, and not be set: with a new value, whose address is not
// 0 in either half.
std::vector<sock_filter> refuse_processor_limits(unsigned refuse) {
  const auto argument = [](unsigned place, unsigned half) -> sock_filter {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                    static_cast<unsigned>(offsetof(seccomp_data, args) + place * sizeof(__u64) + 4 * half));
  };
  return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_prlimit64, 0, 8),
          argument(1, 0),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_CPU, 1, 0),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_RTTIME, 0, 5),
          argument(2, 0),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
          argument(2, 1),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
          BPF_STMT(BPF_RET | BPF_K, refuse)};
}

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
  for (const auto& [number, place, value, mask] : kForbiddenCommands) {
    program.insert(program.end(),
                   {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4),
                    BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                             static_cast<unsigned>(offsetof(seccomp_data, args) + place * sizeof(__u64))),  // low half
                    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
                    BPF_STMT(BPF_RET | BPF_K, refuse)});
  }
  const std::vector<sock_filter> limits = refuse_processor_limits(refuse);
  program.insert(program.end(), limits.begin(), limits.end());
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

}  // namespace khost::sandbox
