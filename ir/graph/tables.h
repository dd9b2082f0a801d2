/// Tables of a graph: string storage, interning, and a hash index.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace rannc::ir {

/// String storage whose addresses stay valid as long as the table or a copy of it lives. Copies share the strings
/// stored so far and grow independently.
class Texts {
 public:
  Texts() = default;
  Texts(const Texts& other) : chunks_(other.chunks_), kept_(other.kept_) {}
  Texts(Texts&& other) noexcept : Texts() { swap(other); }
  Texts& operator=(Texts other) noexcept { return swap(other), *this; }

  /// Stores a copy of `text`. An empty one needs no memory.
  std::string_view keep(std::string_view text);

 private:
  void swap(Texts& other) {
    std::swap(chunks_, other.chunks_);
    std::swap(kept_, other.kept_);
    std::swap(next_, other.next_);
    std::swap(left_, other.left_);
  }

  std::vector<std::shared_ptr<char[]>> chunks_;
  size_t kept_ = 0;       ///< bytes in all chunks
  char* next_ = nullptr;  ///< free bytes of the last chunk, which is this table's alone
  size_t left_ = 0;
};

/// Maps hashes of keys to numbers. The caller stores the keys and compares them. Numbers are never removed.
class HashIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  void reserve(size_t entries);
  /// The number under `hash` for which `same(number)` holds, or kNone.
  template <class Same>
  uint32_t find(uint32_t hash, Same&& same) const {
    if (slots_.empty()) return kNone;
    for (size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.number == kNone) return kNone;
      if (slot.hash == hash && same(slot.number)) return slot.number;
    }
  }
  /// Adds a number that is not in the index.
  void insert(uint32_t hash, uint32_t number);

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = kNone;
  };
  size_t mask() const { return slots_.size() - 1; }
  void rehash(size_t slots);

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t used_ = 0;
};

/// 32 well-mixed bits of a hash.
inline uint32_t mixed(size_t hash) { return static_cast<uint32_t>((hash * 0x9e3779b97f4a7c15ULL) >> 32); }

/// Stores each distinct `T` once under a dense number: equal objects have equal numbers. `T::hash()` distinguishes
/// objects that print differently even if `==` does not. References stay valid as long as the table or a copy lives.
template <class T>
class Interned {
 public:
  uint32_t number(T thing) {
    const size_t hash = thing.hash();
    const uint32_t known = index_.find(mixed(hash), [&](uint32_t number) {
      return entries_[number].hash == hash && *entries_[number].thing == thing;
    });
    if (known != HashIndex::kNone) return known;
    const auto fresh = static_cast<uint32_t>(entries_.size());
    entries_.push_back({hash, std::make_shared<const T>(std::move(thing))});
    index_.insert(mixed(hash), fresh);
    return fresh;
  }
  const T& operator[](uint32_t number) const { return *entries_[number].thing; }
  uint32_t size() const { return static_cast<uint32_t>(entries_.size()); }

 private:
  struct Entry {
    size_t hash;
    std::shared_ptr<const T> thing;
  };
  std::vector<Entry> entries_;
  HashIndex index_;
};

}  // namespace rannc::ir
