// Names of a launcher's arguments, from C++ source text. Where the definition cannot be told, the failure says what to
// write.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "host/base/result.h"

namespace khost::sandbox {

// Names of the arguments of the definition `int symbol(…) {…}`; "" for an argument that has no name. Comments,
// literals, macros, `#if 0`, prototypes, calls, templates and members of classes are no definitions; one with extern
// "C" goes before others, and one in a namespace comes last. A prototype serves where no definition is to be seen (a
// macro may write it).
//
// sources: texts in the order in which they are searched: the kernel file, then headers. count: how many arguments the
// compiled function takes; definitions with another number are other functions. Code bad_input.
Result<std::vector<std::string>> argument_names(const std::vector<std::string>& sources, const std::string& symbol,
                                                std::optional<std::size_t> count = std::nullopt);

}  // namespace khost::sandbox
