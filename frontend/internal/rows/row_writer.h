/// Adds tasks that compute all rows instead of picked ones.
#pragma once

#include <map>
#include <utility>

#include "frontend/internal/rows/picks.h"
#include "frontend/internal/task_writer.h"
#include "ir/graph/rewriter.h"

namespace rannc::frontend {

/// The extents from `begin` up to `end`.
ir::Shape part(const ir::Shape& shape, size_t begin, size_t end);
ir::Shape joined(std::initializer_list<ir::Shape> parts);

/// Masks of the new graph, one number per row, by pick and axes.
using RowMasks = std::map<std::pair<size_t, Axes>, ValueId>;

/// Writes into the graph of a rewriter, in place of one task of the imported graph.
class RowWriter : public TaskWriter {
 public:
  RowWriter(const Picks& picks, ir::Rewriter& to, RowMasks& masks, const Location& where, std::string maker,
            std::string stem)
      : TaskWriter(to.graph(), where, std::move(maker), std::move(stem)), picks_(picks), to_(to), masks_(masks) {}
  using TaskWriter::add;

  /// `value` as a boolean of the new graph.
  ValueId truth(ValueId mask);
  /// Whether an element on those axes is picked for any place on the others.
  ValueId any_over(ValueId mask, const std::vector<int64_t>& axes);
  /// The mask as one number per row.
  ValueId mask_on(size_t number, const Axes& axes);
  ValueId permuted(ValueId value, const Axes& order);
  ValueId reshaped(ValueId value, const ir::Shape& to);
  ValueId guarded(ValueId value, const Rows& rows, double number);
  /// The value where its row is picked, else a number or the same row of another value.
  ValueId guarded(ValueId value, const Rows& rows, ValueId other);
  /// A value with rows, repeated so that it has rows for those axes of the mask.
  ValueId widened(ValueId value, Rows& rows, const Axes& axes);

 private:
  const Picks& picks_;
  ir::Rewriter& to_;
  RowMasks& masks_;
};

}  // namespace rannc::frontend
