// Learns merges from text: repeatedly joins the most frequent pair of neighbours, counting each distinct piece once.
#include <map>
#include <set>

#include "trainer/model/pre_tokenizer.h"
#include "trainer/model/tokenizer.h"

namespace khost::trainer {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct Word {
  std::vector<int32_t> symbols;
  int64_t count;
};

struct PairCounts {
  std::map<Pair, int64_t> counts;
  std::map<Pair, std::set<size_t>> where;  // words that hold, or held, the pair

  void add(const Word& word, size_t index, int64_t sign) {
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const Pair pair = {word.symbols[i], word.symbols[i + 1]};
      counts[pair] += sign * word.count;
      if (sign > 0) {
        where[pair].insert(index);
      }
    }
  }

  // Ties go to the lower ids, which a map visits first. Null when no pair repeats.
  const std::pair<const Pair, int64_t>* best() const {
    const std::pair<const Pair, int64_t>* top = nullptr;
    for (const auto& entry : counts) {
      if (entry.second > 1 && (top == nullptr || entry.second > top->second)) {
        top = &entry;
      }
    }
    return top;
  }
};

void join(Word& word, Pair pair, int32_t result) {
  std::vector<int32_t> joined;
  for (size_t i = 0; i < word.symbols.size(); ++i) {
    if (i + 1 < word.symbols.size() && word.symbols[i] == pair.first && word.symbols[i + 1] == pair.second) {
      joined.push_back(result);
      ++i;
    } else {
      joined.push_back(word.symbols[i]);
    }
  }
  word.symbols = std::move(joined);
}

}  // namespace

Result<Tokenizer> train_tokenizer(const std::vector<std::string>& texts, const TokenizerTraining& options) {
  std::vector<std::string> pieces;
  std::vector<SpecialToken> specials;
  for (const std::string& text : options.specials) {
    specials.push_back({text, static_cast<int32_t>(pieces.size())});
    pieces.push_back(text);
  }
  const int32_t first_byte = static_cast<int32_t>(pieces.size());
  for (int byte = 0; byte < 256; ++byte) {
    pieces.emplace_back(1, static_cast<char>(byte));
  }
  if (options.vocabulary < static_cast<int32_t>(pieces.size())) {
    return Failure{"train_tokenizer: vocab must be at least " + std::to_string(pieces.size()), "bad_input"};
  }
  const Result<std::shared_ptr<const PreTokenizer>> cutter = PreTokenizer::open(default_pre_tokenizer());
  std::map<std::string, int64_t, std::less<>> tally;
  for (const std::string& text : texts) {
    for (const std::string_view piece : cutter.value()->cut(text)) {
      const auto found = tally.find(piece);
      if (found != tally.end()) {
        ++found->second;
      } else {
        tally.emplace(piece, 1);
      }
    }
  }
  std::vector<Word> words;
  PairCounts pairs;
  for (const auto& [text, count] : tally) {
    Word word{{}, count};
    for (const char byte : text) {
      word.symbols.push_back(first_byte + static_cast<unsigned char>(byte));
    }
    pairs.add(word, words.size(), 1);
    words.push_back(std::move(word));
  }
  std::vector<Pair> merges;
  std::set<std::string> known(pieces.begin(), pieces.end());
  while (static_cast<int32_t>(pieces.size()) < options.vocabulary) {
    const auto* best = pairs.best();
    if (best == nullptr) {
      break;
    }
    const Pair pair = best->first;
    const std::string joined = pieces[static_cast<size_t>(pair.first)] + pieces[static_cast<size_t>(pair.second)];
    if (!known.insert(joined).second) {  // two ways to one text: keep the first
      pairs.counts.erase(pair);
      continue;
    }
    const int32_t result = static_cast<int32_t>(pieces.size());
    pieces.push_back(joined);
    merges.push_back(pair);
    const std::set<size_t> touched = pairs.where[pair];
    for (const size_t index : touched) {
      pairs.add(words[index], index, -1);
      join(words[index], pair, result);
      pairs.add(words[index], index, 1);
    }
    pairs.counts.erase(pair);
    pairs.where.erase(pair);
  }
  return Tokenizer::build(std::move(pieces), std::move(merges), std::move(specials), default_pre_tokenizer(), false);
}

}  // namespace khost::trainer
