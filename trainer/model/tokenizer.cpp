#include "trainer/model/tokenizer.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "trainer/model/pre_tokenizer.h"

namespace khost::trainer {
namespace {

uint64_t pair_key(int32_t a, int32_t b) {
  return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
}

// One symbol of a piece being merged, in a list linked by index.
struct Symbol {
  int32_t id;
  int previous, next;
  bool alive;
};

struct Candidate {
  int32_t rank;
  int left;
  int32_t result, left_id, right_id;
  // Lowest rank first, then leftmost: the order of the reference implementation.
  bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

}  // namespace

Result<Tokenizer> Tokenizer::build(std::vector<std::string> pieces, std::vector<std::pair<int32_t, int32_t>> merges,
                                   std::vector<SpecialToken> specials, Json pre_tokenizer, bool ignore_merges,
                                   Normalization normalization) {
  Tokenizer t;
  Result<std::shared_ptr<const PreTokenizer>> cutter = PreTokenizer::open(pre_tokenizer);
  if (!cutter) {
    return cutter.failure();
  }
  t.pre_tokenizer_ = *cutter;
  t.pre_tokenizer_json_ = std::move(pre_tokenizer);
  t.ignore_merges_ = ignore_merges;
  t.normalization_ = normalization;
  t.pieces_ = std::move(pieces);
  t.is_special_.assign(t.pieces_.size(), false);
  t.is_control_.assign(t.pieces_.size(), false);
  for (const SpecialToken& special : specials) {
    t.is_special_[static_cast<size_t>(special.id)] = true;
    t.is_control_[static_cast<size_t>(special.id)] = special.control;
  }
  for (size_t id = 0; id < t.pieces_.size(); ++id) {
    if (!t.is_special_[id] && !t.pieces_[id].empty()) {
      t.ids_.emplace(t.pieces_[id], static_cast<int32_t>(id));
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = t.ids_.find(std::string(1, static_cast<char>(byte)));
    t.byte_ids_[byte] = found == t.ids_.end() ? -1 : found->second;
  }
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [a, b] = merges[rank];
    const std::string joined = t.pieces_[static_cast<size_t>(a)] + t.pieces_[static_cast<size_t>(b)];
    const auto result = t.ids_.find(joined);
    if (result == t.ids_.end()) {
      return Failure{"tokenizer: merge " + std::to_string(rank) + " makes no token of the vocabulary", "bad_input"};
    }
    t.merges_.emplace(pair_key(a, b), Merge{static_cast<int32_t>(rank), result->second});
  }
  t.merge_list_ = std::move(merges);
  t.specials_ = std::move(specials);
  std::stable_sort(t.specials_.begin(), t.specials_.end(),
                   [](const SpecialToken& a, const SpecialToken& b) { return a.text.size() > b.text.size(); });
  return t;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, Special special) const {
  std::vector<int32_t> out;
  if (special == Special::plain) {
    encode_plain(text, out);
    return out;
  }
  size_t plain_from = 0;
  for (size_t at = 0; at < text.size();) {
    const auto hit = std::find_if(specials_.begin(), specials_.end(), [&](const SpecialToken& token) {
      return text.substr(at, token.text.size()) == token.text;
    });
    if (hit == specials_.end()) {
      ++at;
      continue;
    }
    encode_plain(text.substr(plain_from, at - plain_from), out);
    out.push_back(hit->id);
    at += hit->text.size();
    plain_from = at;
  }
  encode_plain(text.substr(plain_from), out);
  return out;
}

void Tokenizer::encode_plain(std::string_view given, std::vector<int32_t>& out) const {
  std::string composed;
  std::string_view text = given;
  if (normalization_ == Normalization::nfc) {
    composed = compose(given);
    text = composed;
  }
  for (const std::string_view piece : pre_tokenizer_->cut(text)) {
    encode_piece(piece, out);
  }
}

// A heap of possible merges over a linked list: n log n, so that a megabyte of one letter is no attack.
void Tokenizer::encode_piece(std::string_view piece, std::vector<int32_t>& out) const {
  if (ignore_merges_) {
    if (const auto whole = ids_.find(std::string(piece)); whole != ids_.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (const char byte : piece) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id >= 0) {
      const int place = static_cast<int>(symbols.size());
      symbols.push_back({id, place - 1, place + 1, true});
    }
  }
  const int count = static_cast<int>(symbols.size());
  if (count > 0) {
    symbols.back().next = -1;
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto consider = [&](int left) {
    if (left < 0 || symbols[left].next < 0) {
      return;
    }
    const int32_t a = symbols[left].id;
    const int32_t b = symbols[symbols[left].next].id;
    if (const auto merge = merges_.find(pair_key(a, b)); merge != merges_.end()) {
      heap.push({merge->second.rank, left, merge->second.result, a, b});
    }
  };
  for (int i = 0; i < count; ++i) {
    consider(i);
  }
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    Symbol& left = symbols[best.left];
    if (!left.alive || left.id != best.left_id || left.next < 0 || symbols[left.next].id != best.right_id) {
      continue;  // an earlier merge took one of the two
    }
    Symbol& right = symbols[left.next];
    right.alive = false;
    left.id = best.result;
    left.next = right.next;
    if (left.next >= 0) {
      symbols[left.next].previous = best.left;
    }
    consider(left.previous);
    consider(best.left);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.alive) {
      out.push_back(symbol.id);
    }
  }
}

std::string Tokenizer::decode(const std::vector<int32_t>& tokens, Special special) const {
  std::string text;
  for (const int32_t id : tokens) {
    const size_t index = static_cast<size_t>(id);
    if (id >= 0 && index < pieces_.size() && (special == Special::parse || !is_control_[index])) {
      text += pieces_[index];
    }
  }
  return text;
}

int32_t Tokenizer::special_id(std::string_view text) const {
  for (const SpecialToken& token : specials_) {
    if (token.text == text) {
      return token.id;
    }
  }
  return -1;
}

}  // namespace khost::trainer
