/// Which values of a graph share memory.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Follows views (`OpInfo::view`) through a graph, with the distance in memory of neighbours on each axis, as LibTorch
/// does: reshaping a part of a value is a view of it where distances allow it. What a task makes that is no view lies
/// in one piece, as do leaves. Linear.
class Views {
 public:
  explicit Views(const Graph& graph);
  /// The value whose memory this one shares; itself where it has its own.
  ValueId base(ValueId value) const { return base_[value.index()]; }
  /// Whether its elements do not lie in one piece, in order.
  bool is_scattered(ValueId value) const { return scattered_[value.index()]; }
  /// Its axes from the one whose neighbours are farthest apart in memory; nothing where that is not known.
  std::optional<std::vector<int64_t>> axes_in_memory(const Graph& graph, ValueId value) const;

 private:
  using Strides = std::optional<Shape>;  ///< in elements; nothing: not known

  void follow(const Graph& graph, TaskId task);
  void follow(const Graph& graph, TaskId task, ValueId from, ValueId to);
  Strides strides_of(const Graph& graph, ValueId value) const;
  void scatter(ValueId value, Strides strides);

  std::vector<ValueId> base_;
  std::vector<bool> scattered_;
  std::unordered_map<uint32_t, Strides> strides_;  // of scattered values
};

}  // namespace rannc::ir
