// The turn protocol for Python subjects, through ctypes: the page is an mmap of the control memfd. ctypes
// releases the interpreter lock during the call, so a waiting subject holds nothing.
#include "sandbox/subject/turn.h"

using khost::sandbox::ControlPage;

extern "C" {

// 1: run call `seq` now. 0: leave.
__attribute__((visibility("default"))) int khost_wait_go(void* page, std::uint32_t seq) {
  return khost::sandbox::wait_go(*static_cast<ControlPage*>(page), seq) ? 1 : 0;
}

// `seq` 1 says that the set-up is over, 2, 3, … that this call is. `status` 0 means that it succeeded.
__attribute__((visibility("default"))) void khost_ack(void* page, std::uint32_t seq, std::uint32_t status) {
  khost::sandbox::acknowledge(*static_cast<ControlPage*>(page), seq, status);
}

__attribute__((visibility("default"))) void khost_message(void* page, const char* text) {
  khost::sandbox::set_message(*static_cast<ControlPage*>(page), text);
}
}
