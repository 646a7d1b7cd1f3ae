// The legal word that somebody probably meant: every "unknown X" message names one.
#pragma once

#include <string>
#include <vector>

namespace khost {

// Insertions, deletions, replacements and swaps of neighbours that lead from a to b.
size_t edit_distance(const std::string& a, const std::string& b);

// The legal word nearest to `word`; empty when there are none. Dotted names are also compared by their last part,
// so that `steps` finds `ppo.steps`. The first of several equally near ones in `legal` wins.
std::string nearest(const std::string& word, const std::vector<std::string>& legal);

}  // namespace khost
