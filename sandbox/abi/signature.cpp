#include "sandbox/abi/signature.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <optional>

namespace khost::sandbox {
namespace {

constexpr std::string_view kPrefix = "khost_signature_";
constexpr std::size_t kMostSymbols = 100000;
constexpr std::size_t kMostArguments = 64;

struct Dtype {
  std::string_view name;
  char type;
  std::size_t bytes;
};
// A letter's own dtype stands before others that come as it: floats of one byte as their bits.
constexpr std::array<Dtype, 13> kDtypes{{{"float32", 'f', 4},
                                         {"float64", 'd', 8},
                                         {"float16", 'e', 2},
                                         {"bfloat16", 'g', 2},
                                         {"bool", '?', 1},
                                         {"int8", 'b', 1},
                                         {"uint8", 'B', 1},
                                         {"int16", 'h', 2},
                                         {"int32", 'i', 4},
                                         {"uint32", 'I', 4},
                                         {"int64", 'l', 8},
                                         {"float8_e4m3fn", 'B', 1},
                                         {"float8_e5m2", 'B', 1}}};

Failure malformed(const std::string& what) {
  return {"the library is not a well-formed ELF file: " + what, "bad_input"};
}

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#endif

// The file as checked reads; nothing in it is aligned or in range until proved.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  std::optional<T> at(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      return std::nullopt;
    }
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  // The text that starts at offset and ends with a zero before `end`.
  std::optional<std::string_view> text(std::uint64_t offset, std::uint64_t end) const {
    end = std::min<std::uint64_t>(end, bytes_.size());
    if (offset >= end) {
      return std::nullopt;
    }
    const std::string_view rest = bytes_.substr(offset, end - offset);
    const std::size_t length = rest.find('\0');
    if (length == std::string_view::npos) {
      return std::nullopt;
    }
    return rest.substr(0, length);
  }

 private:
  std::string_view bytes_;
};

struct Segments {
  std::vector<Elf64_Phdr> loads;
  std::vector<Elf64_Dyn> dynamic;

  std::optional<std::uint64_t> file_offset(std::uint64_t address) const {
    for (const Elf64_Phdr& load : loads) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
        return load.p_offset + (address - load.p_vaddr);
      }
    }
    return std::nullopt;
  }

  std::optional<std::uint64_t> tag(Elf64_Sxword wanted) const {
    for (const Elf64_Dyn& entry : dynamic) {
      if (entry.d_tag == wanted) {
        return entry.d_un.d_val;
      }
    }
    return std::nullopt;
  }
};

// Program headers and the dynamic segment: what the loader itself goes by.
Result<Segments> read_segments(const Reader& file, const Elf64_Ehdr& header) {
  Segments result;
  for (unsigned i = 0; i < header.e_phnum && i < 64; i++) {
    const auto segment = file.at<Elf64_Phdr>(header.e_phoff + std::uint64_t{i} * sizeof(Elf64_Phdr));
    if (!segment) {
      return malformed("program headers beyond the end");
    }
    if (segment->p_type == PT_LOAD) {
      result.loads.push_back(*segment);
    } else if (segment->p_type == PT_DYNAMIC) {
      for (std::uint64_t k = 0; k < 512; k++) {
        const auto entry = file.at<Elf64_Dyn>(segment->p_offset + k * sizeof(Elf64_Dyn));
        if (!entry) {
          return malformed("the dynamic segment is beyond the end");
        }
        if (entry->d_tag == DT_NULL) {
          break;
        }
        result.dynamic.push_back(*entry);
      }
    }
  }
  if (result.dynamic.empty()) {
    return malformed("no dynamic segment");
  }
  return result;
}

// Only a section header says how many dynamic symbols there are; it must describe the table that the loader
// uses.
std::optional<std::uint64_t> count_symbols(const Reader& file, const Elf64_Ehdr& header, std::uint64_t symbols) {
  for (unsigned i = 0; i < header.e_shnum; i++) {
    const auto section = file.at<Elf64_Shdr>(header.e_shoff + std::uint64_t{i} * sizeof(Elf64_Shdr));
    if (section && section->sh_type == SHT_DYNSYM && section->sh_offset == symbols &&
        section->sh_entsize == sizeof(Elf64_Sym)) {
      return section->sh_size / sizeof(Elf64_Sym);
    }
  }
  return std::nullopt;
}

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

bool needed_allowed(std::string_view name, bool cuda) {
  if (starts_with_any(name, {"libc.so.", "libm.so.", "libstdc++.so.", "libgcc_s.so.", "libgomp.so.", "libpthread.so.",
                             "ld-linux-"})) {
    return true;
  }
  return cuda && starts_with_any(name, {"libcudart.so.", "libcublas.so.", "libcublasLt.so.", "libcudnn"});
}

bool contains_word(std::string_view name, std::string_view lower_word) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find(lower_word) != std::string::npos;
}

bool symbol_refused(std::string_view name) {
  // They open libraries, or find those that lie in the process: torch, beside a plan of the rules "mixed".
  for (const std::string_view refused :
       {"dlopen", "dlmopen", "dlsym", "dlvsym", "__libc_dlopen_mode", "__libc_dlsym", "dl_iterate_phdr", "dladdr",
        "dladdr1", "dlinfo", "_r_debug", "_dl_find_object"}) {
    if (name == refused) {
      return true;
    }
  }
  if (!starts_with_any(name, {"cublas"})) {
    return false;
  }
  for (const std::string_view word : {"gemm", "matmul", "layout", "set", "getstatus", "version", "preference"}) {
    if (contains_word(name, word)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::size_t type_bytes(char type) {
  if (type == 'L') {
    return 8;
  }
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& d) { return d.type == type; });
  return found == kDtypes.end() ? 0 : found->bytes;
}

char type_of_dtype(std::string_view dtype) {
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& d) { return d.name == dtype; });
  return found == kDtypes.end() ? '\0' : found->type;
}

Result<std::vector<SignatureArgument>> parse_signature(std::string_view text) {
  if (text.size() % 2 != 0 || text.size() / 2 > kMostArguments) {
    return Failure{"a signature has two letters an argument and at most 64 arguments", "bad_input"};
  }
  std::vector<SignatureArgument> result;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const SignatureArgument argument{text[i], text[i + 1]};
    const bool typed = std::string_view("rws").find(argument.role) != std::string_view::npos;
    const bool untyped = std::string_view("WTSH").find(argument.role) != std::string_view::npos;
    if (!(typed && type_bytes(argument.type) > 0) && !(untyped && argument.type == '-')) {
      return Failure{"unknown argument '" + std::string(text.substr(i, 2)) + "' in a signature", "bad_input"};
    }
    result.push_back(argument);
  }
  return result;
}

Result<Library> read_library(std::string_view elf) {
  const Reader file(elf);
  const auto header = file.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_type != ET_DYN || header->e_machine != kMachine) {
    return malformed("no 64-bit shared object of this machine");
  }
  Result<Segments> segments = read_segments(file, *header);
  if (!segments) {
    return segments.failure();
  }
  const auto symtab = segments->tag(DT_SYMTAB);
  const auto strtab = segments->tag(DT_STRTAB);
  const auto symbols = symtab ? segments->file_offset(*symtab) : std::nullopt;
  const auto strings = strtab ? segments->file_offset(*strtab) : std::nullopt;
  if (!symbols || !strings) {
    return malformed("no dynamic symbols");
  }
  const auto count = count_symbols(file, *header, *symbols);
  if (!count || *count > kMostSymbols) {
    return malformed("the number of dynamic symbols is unknown or too large");
  }
  const std::uint64_t strings_end = *strings + std::min<std::uint64_t>(segments->tag(DT_STRSZ).value_or(0), elf.size());

  Library library;
  for (const Elf64_Dyn& entry : segments->dynamic) {
    if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) {
      return Failure{"the library sets a search path", "violation"};
    }
    if (entry.d_tag == DT_NEEDED) {
      const auto name = file.text(*strings + std::min<std::uint64_t>(entry.d_un.d_val, elf.size()), strings_end);
      if (!name) {
        return malformed("a needed library without a name");
      }
      library.needed.emplace_back(*name);
    }
  }
  for (std::uint64_t i = 1; i < *count; i++) {
    const auto symbol = file.at<Elf64_Sym>(*symbols + i * sizeof(Elf64_Sym));
    const auto name = symbol ? file.text(*strings + symbol->st_name, strings_end) : std::nullopt;
    if (!name) {
      return malformed("a symbol without a name");
    }
    if (symbol->st_shndx == SHN_UNDEF) {
      library.undefined.emplace_back(*name);
      continue;
    }
    if (name->substr(0, kPrefix.size()) != kPrefix || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT) {
      continue;
    }
    const auto place = segments->file_offset(symbol->st_value);
    const auto text =
        place ? file.text(*place, *place + std::min<std::uint64_t>(symbol->st_size, elf.size())) : std::nullopt;
    if (!text || !parse_signature(*text)) {
      return malformed("the signature of '" + std::string(name->substr(kPrefix.size(), 80)) + "' is damaged");
    }
    library.signatures.emplace(name->substr(kPrefix.size()), *text);
  }
  return library;
}

Result<Signatures> admit_library(std::string_view elf, const std::string& target) {
  Result<Library> library = read_library(elf);
  if (!library) {
    return library.failure();
  }
  for (const std::string& name : library->needed) {
    if (!needed_allowed(name, target == "cuda")) {
      return Failure{"the library needs " + name + ", which kernels for target " + target + " may not use",
                     "violation"};
    }
  }
  for (const std::string& name : library->undefined) {
    if (symbol_refused(name)) {
      return Failure{"the library uses " + name + ", which kernels may not call", "violation"};
    }
  }
  if (library->signatures.empty()) {
    return Failure{"no launcher is exported: write KHOST_EXPORT(name) below an extern \"C\" int name(…)", "bad_input"};
  }
  for (const auto& [name, text] : library->signatures) {
    if (target == "cpu" && (text.find('S') != std::string::npos || text.find('H') != std::string::npos)) {
      return Failure{"launcher '" + name + "' takes a stream or handles, which the CPU has not", "bad_input"};
    }
  }
  return std::move(library->signatures);
}

}  // namespace khost::sandbox
