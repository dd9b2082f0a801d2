// Storage growth of a graph's tables.
#include "ir/graph/tables.h"

#include <algorithm>
#include <cstring>

namespace rannc::ir {

std::string_view Texts::keep(std::string_view text) {
  constexpr size_t kLeast = 256, kMost = 1 << 20;
  if (text.empty()) return {};
  if (text.size() > left_) {
    left_ = std::max(text.size(), std::clamp(kept_, kLeast, kMost));
    chunks_.push_back(std::shared_ptr<char[]>(new char[left_]));
    next_ = chunks_.back().get();
  }
  std::memcpy(next_, text.data(), text.size());
  const std::string_view kept(next_, text.size());
  next_ += text.size();
  left_ -= text.size();
  kept_ += text.size();
  return kept;
}

void HashIndex::reserve(size_t entries) {
  size_t slots = 16;
  while (slots < 2 * entries) slots *= 2;
  if (slots > slots_.size()) rehash(slots);
}

void HashIndex::insert(uint32_t hash, uint32_t number) {
  if (2 * (used_ + 1) > slots_.size()) reserve(2 * (used_ + 1));
  size_t at = hash & mask();
  while (slots_[at].number != kNone) at = (at + 1) & mask();
  slots_[at] = {hash, number};
  ++used_;
}

void HashIndex::rehash(size_t slots) {
  const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(slots));
  for (const Slot& slot : before) {
    if (slot.number == kNone) continue;
    size_t at = slot.hash & mask();
    while (slots_[at].number != kNone) at = (at + 1) & mask();
    slots_[at] = slot;
  }
}

}  // namespace rannc::ir
