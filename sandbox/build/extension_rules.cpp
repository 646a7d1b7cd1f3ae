#include "sandbox/build/extension_rules.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <regex>
#include <set>
#include <sstream>

#include "sandbox/abi/signature.h"

namespace khost::sandbox {
namespace {

// Creating and moving (candidate_policy.py has the same list for what is dispatched).
const std::set<std::string> kOperators = {"empty",
                                          "empty_like",
                                          "empty_strided",
                                          "new_empty",
                                          "new_empty_strided",
                                          "zeros",
                                          "zeros_like",
                                          "new_zeros",
                                          "ones",
                                          "ones_like",
                                          "new_ones",
                                          "full",
                                          "full_like",
                                          "new_full",
                                          "scalar_tensor",
                                          "arange",
                                          "zero_",
                                          "fill_",
                                          "copy_",
                                          "clone",
                                          "_to_copy",
                                          "to_dtype",
                                          "to_device",
                                          "to_dtype_layout",
                                          "to_other",
                                          "contiguous",
                                          "detach",
                                          "alias",
                                          "_unsafe_view",
                                          "set_",
                                          "resize_",
                                          "record_stream",
                                          "_local_scalar_dense",
                                          "item",
                                          "view",
                                          "view_as",
                                          "reshape",
                                          "reshape_as",
                                          "expand",
                                          "expand_as",
                                          "permute",
                                          "transpose",
                                          "t",
                                          "squeeze",
                                          "unsqueeze",
                                          "select",
                                          "slice",
                                          "narrow",
                                          "flatten",
                                          "unflatten",
                                          "as_strided",
                                          "size",
                                          "stride",
                                          "numel",
                                          "is_pinned",
                                          "pin_memory",
                                          "chunk",
                                          "split",
                                          "unbind",
                                          "movedim",
                                          "swapaxes",
                                          "type_as",
                                          "is_floating_point",
                                          "is_complex",
                                          "is_nonzero",
                                          "from_blob",
                                          "data",
                                          "requires_grad_",
                                          "output_nr",
                                          "_version",
                                          "is_leaf",
                                          "set_data",
                                          "_backward",
                                          "retain_grad",
                                          "rename_",
                                          "rename",
                                          "cpu",
                                          "cuda",
                                          "from_file"};

bool starts_with_any(const std::string& text, std::initializer_list<const char*> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](const char* one) { return text.rfind(one, 0) == 0; });
}

}  // namespace

bool plain(const std::string& text, const char* more) {
  return !text.empty() && text.size() < 200 && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) || std::string(more).find(static_cast<char>(c)) != std::string::npos;
  });
}

std::vector<std::string> harmless_flags(const std::vector<std::string>& flags, bool cuda) {
  std::vector<std::string> result;
  for (const std::string& flag : flags) {
    const bool known =
        starts_with_any(flag, {"-O", "-std=", "-D", "-U", "-f", "-g", "-W"}) ||
        (cuda && starts_with_any(flag, {"--use_fast_math", "-use_fast_math", "--expt-", "-expt-", "--fmad=", "-fmad=",
                                        "--ftz=", "-ftz=", "--prec-", "-prec-", "--extended-lambda",
                                        "--maxrregcount=", "-maxrregcount=", "-lineinfo", "--extra-device-"}));
    if (known && plain(flag, "-_=+.,") && !starts_with_any(flag, {"-fplugin", "-fdump", "-W", "-g", "-fprofile"})) {
      result.push_back(flag);
    }
  }
  return result;
}

std::vector<std::string> harmless_libraries(const std::vector<std::string>& flags) {
  std::vector<std::string> result;
  for (const std::string& flag : flags) {
    if (flag == "-lcublas" || flag == "-lcublasLt" || flag == "-lcudnn" || flag == "-lcuda") {
      result.push_back(flag);
    }
  }
  return result;
}

bool own_mistakes(const std::string& words, const std::function<bool(const std::string&)>& in_headers) {
  static const std::regex kError(R"re((^|[ :])(fatal )?error( #\d+)?: (.*))re");
  static const std::regex kUnknown(
      R"re(^identifier "(\w+)" is undefined|^[^\w]+(\w+)[^\w]+was not declared in this scope)re");
  static const std::regex kSemicolon(R"re(^expected (a )?["'‘]+;)re");
  std::istringstream lines(words);
  std::smatch found;
  bool any = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 2000 || !std::regex_search(line, found, kError)) {
      continue;
    }
    const std::string what = found[4];
    if (std::regex_search(what, found, kUnknown)) {
      if (in_headers(found[1].matched ? found[1].str() : found[2].str())) {
        return false;
      }
    } else if (!std::regex_search(what, kSemicolon)) {
      return false;
    }
    any = true;
  }
  return any;
}

std::string operator_of(const std::string& symbol) {
  static const std::string kBefore = "_ZN2at4_ops";
  if (symbol.rfind(kBefore, 0) != 0) {
    return "";
  }
  std::size_t at = kBefore.size(), length = 0;
  while (at < symbol.size() && std::isdigit(static_cast<unsigned char>(symbol[at])) && length < 1000) {
    length = 10 * length + static_cast<std::size_t>(symbol[at++] - '0');
  }
  std::string name = symbol.substr(std::min(at, symbol.size()), length);
  // An overload follows the name: add_Tensor, to_dtype. What the list knows whole is left whole.
  while (kOperators.count(name) == 0 && name.rfind('_') != std::string::npos && name.rfind('_') > 0) {
    const std::string shorter = name.substr(0, name.rfind('_'));
    if (shorter.find_first_not_of('_') == std::string::npos) {
      break;
    }
    name = shorter;
  }
  return kOperators.count(name) > 0 ? name : symbol.substr(std::min(at, symbol.size()), length);
}

Status admit_extension(const std::string& bytes) {
  Result<Library> library = read_library(bytes);
  if (!library) {
    return library.failure();
  }
  for (const std::string& symbol : library->undefined) {
    const std::string name = operator_of(symbol);
    if (!name.empty() && kOperators.count(name) == 0) {
      return Failure{"the extension calls torch's operator " + name +
                         "; it may create and view tensors, and its own kernels "
                         "compute",
                     "violation"};
    }
  }
  return ok();
}

}  // namespace khost::sandbox
