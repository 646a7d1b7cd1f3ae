// Text of strangers (build logs, what a candidate prints, names of files and tasks) as a terminal may show it.
#pragma once

#include <string>
#include <string_view>

namespace khost {

// The text with everything that would act on a terminal or on the order of what is read written as "\u001b": control
// characters but line ends and tabs, C1 controls, and marks of direction. Bytes that are no UTF-8 become U+FFFD. The
// form is that of JSON, so that JSON stays what it was. Pure; any thread.
std::string plain_text(std::string_view text);

}  // namespace khost
