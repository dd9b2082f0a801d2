/// Maps names to the values that the nodes of one body may read.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/ids.h"
#include "ir/graph/tables.h"

namespace rannc::frontend {

/// Values by name. An invalid value is the output of a node that is not supported.
class Names {
 public:
  void reserve(size_t names) {
    entries_.reserve(names);
    index_.reserve(names);
  }
  /// Returns false if the name already exists.
  bool add(std::string_view name, ValueId value) {
    const uint32_t hash = hash_of(name);
    if (find(name, hash) != ir::HashIndex::kNone) return false;
    index_.insert(hash, static_cast<uint32_t>(entries_.size()));
    entries_.emplace_back(texts_.keep(name), value);
    return true;
  }
  /// Returns null if there is no such name.
  const ValueId* find(std::string_view name) const {
    const uint32_t found = find(name, hash_of(name));
    return found == ir::HashIndex::kNone ? nullptr : &entries_[found].second;
  }

 private:
  static uint32_t hash_of(std::string_view name) { return ir::mixed(std::hash<std::string_view>()(name)); }
  uint32_t find(std::string_view name, uint32_t hash) const {
    return index_.find(hash, [&](uint32_t entry) { return entries_[entry].first == name; });
  }

  std::vector<std::pair<std::string_view, ValueId>> entries_;
  ir::Texts texts_;
  ir::HashIndex index_;
};

}  // namespace rannc::frontend
