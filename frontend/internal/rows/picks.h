/// The masks that pick rows of a model.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::frontend {

using Axes = std::vector<size_t>;

/// Rows that one mask picks, or all rows in the order of classes that masks pick.
struct Pick {
  std::vector<std::string> symbols;  ///< one, or those of all classes
  ValueId mask;                      ///< invalid for all rows
  ir::Shape shape;                   ///< of the mask
  int32_t samples;                   ///< axis of the samples in the mask; negative: none
  Axes order;                        ///< of its axes in a list of all rows: samples first
  TaskId places;
  bool is_all() const { return !mask.valid(); }
  ir::Dim symbol() const { return ir::Dim::symbol(symbols[0]); }
  /// An extent with the number of rows replaced.
  ir::Dim counted(const ir::Dim& size, const ir::Dim& rows) const;
  /// Number of all rows of a value that depends on those axes of the mask.
  ir::Dim count(const Axes& axes) const;
  /// The shape of such a value.
  ir::Shape shape_on(const ir::Shape& shape, const Axes& axes) const;
  Axes united(const Axes& a, const Axes& b) const;
  /// Whether such a value differs between the samples of the mask, if it has any.
  bool has_samples(const Axes& axes) const;
};

/// A value that has picked rows.
struct Rows {
  size_t pick;
  ir::BatchLayout at;  ///< of the rows
  Axes on;             ///< axes of the mask that it depends on, in the order of the pick
};

/// The picks of a graph (`frontend/internal/rows/picked_rows.h`), which must outlive them.
class Picks {
 public:
  explicit Picks(const ir::Graph& graph);
  bool empty() const { return picks_.empty(); }
  const std::vector<Pick>& all() const { return picks_; }
  const Pick& operator[](size_t number) const { return picks_[number]; }
  /// The pick whose rows an extent counts.
  size_t of(const ir::Dim& counted) const;
  /// The pick whose rows an extent or a known element of a value counts.
  std::optional<size_t> in(ValueId value) const;
  /// Whether an extent of a value counts picked rows.
  bool has_rows(ValueId value) const;
  /// That the node at a place does what is not possible with picked rows.
  Diagnostic fault(const Location& where, const std::string& what, size_t pick, const std::string& why = {}) const;

 private:
  void add(TaskId task);
  void add_sorted(TaskId task);
  void add(Pick pick);

  const ir::Graph& graph_;
  std::vector<Pick> picks_;
  std::map<std::set<std::string>, size_t> by_symbols_;
};

}  // namespace rannc::frontend
