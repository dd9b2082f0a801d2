/// Analysis of which values of a graph share memory.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Follows views (`OpInfo::view`) through a graph and tracks strides as LibTorch does: reshaping a part of a value is a
/// view if its strides allow it. The results of elementwise operators have the order of axes of an operand. Leaves, and
/// other results that are not views, are contiguous. Linear.
class Views {
 public:
  explicit Views(const Graph& graph);
  /// The value whose memory this one shares; itself if it has its own.
  ValueId base(ValueId value) const { return base_[value.index()]; }
  /// Whether the value is not contiguous.
  bool is_scattered(ValueId value) const { return scattered_[value.index()]; }
  /// Whether the value is contiguous with its axes in this order, outermost first.
  bool is_dense(const Graph& graph, ValueId value, std::span<const int64_t> axes) const;
  /// Whether its axes, all but the last `apart`, merge into one without a copy.
  bool merges(const Graph& graph, ValueId value, size_t apart) const;
  /// Whether rows along the last axis lie in one piece each, and begin at multiples of `bytes` from where the memory
  /// does. False where that is unknown, or an axis repeats elements.
  bool has_rows(const Graph& graph, ValueId value, int64_t bytes) const;
  /// The axes in descending order of strides; nothing if the strides are unknown.
  std::optional<std::vector<int64_t>> axes_in_memory(const Graph& graph, ValueId value) const;

 private:
  using Strides = std::optional<Shape>;  ///< in elements; nothing: unknown

  void lay_out(const Graph& graph, TaskId task);
  void lay_out(const Graph& graph, ValueId value, std::span<const int64_t> axes);
  void follow(const Graph& graph, TaskId task);
  void follow(const Graph& graph, TaskId task, ValueId from, ValueId to);
  void begin(const Graph& graph, TaskId task, ValueId from, ValueId to);
  Strides strides_of(const Graph& graph, ValueId value) const;
  void scatter(ValueId value, Strides strides);

  std::vector<ValueId> base_;
  std::vector<bool> scattered_;
  std::unordered_map<uint32_t, Strides> strides_;            // of scattered values
  std::unordered_map<uint32_t, std::optional<Dim>> begins_;  // of views that may begin behind their base, in elements
};

}  // namespace rannc::ir
