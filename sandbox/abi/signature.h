// Reads what a built library offers and asks for out of its ELF file, without loading it: the signatures that
// KHOST_EXPORT had the compiler write, the libraries it needs, its undefined symbols. The file is untrusted;
// every offset is checked. Pure functions, any thread.
//
// What is refused: other machines than this one, needed libraries outside the target's list, search paths
// (RPATH), dlopen and its relatives, cuBLAS beyond the GEMM family. Since the library is linked with -z defs,
// no other symbol can come from elsewhere. Constructors (.init_array) are not refused: they run in the
// subject's jail while it loads, before any input exists there, and can do nothing that a launcher could not.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/result.h"

namespace khost::sandbox {

// One argument of a launcher: role r (read), w (written), s (scalar), W (workspace), T (threads), S (stream),
// H (handles); type as in khost.h, '-' where there is none.
struct SignatureArgument {
  char role = 's';
  char type = '-';
};

using Signatures = std::map<std::string, std::string>;  // launcher -> "rfwfslT-"

struct Library {
  Signatures signatures;
  std::vector<std::string> needed;
  std::vector<std::string> undefined;
};

// "rfwf" -> its arguments. bad_input when a letter is unknown or the length odd.
Result<std::vector<SignatureArgument>> parse_signature(std::string_view text);

// bad_input when the bytes are no well-formed shared library of this machine.
Result<Library> read_library(std::string_view elf);

// The signatures of a library that keeps the rules of `target` ("cpu" or "cuda"); code violation when it breaks
// one, bad_input when it exports no launcher.
Result<Signatures> admit_library(std::string_view elf, const std::string& target);

// Bytes of an element of a type letter, 0 for an unknown one.
std::size_t type_bytes(char type);

// "float32" -> 'f'; 0 when kernels cannot take the type.
char type_of_dtype(std::string_view dtype);

}  // namespace khost::sandbox
