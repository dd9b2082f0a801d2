/// Integers that follow from stored ones, computed where they are asked for.
#pragma once

#include <map>
#include <optional>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "passes/evaluator.h"

namespace rannc::passes {

/// Floats are left alone: what holds of a weight now need not hold once it is trained.
class IntegerTables {
 public:
  /// Both have to outlive it; without an evaluator only what `ir/op/fold.h` computes is known.
  IntegerTables(const ir::Graph& graph, const Evaluator* evaluator) : graph_(graph), evaluator_(evaluator) {}
  /// The elements of an integer or boolean value; nothing where an input reaches it, or a float, or there are too many.
  std::optional<ir::StoredTensor> of(ValueId value);

 private:
  std::optional<ir::StoredTensor> find(ValueId value);
  std::optional<ir::StoredTensor> compute(TaskId task, uint32_t result);

  const ir::Graph& graph_;
  const Evaluator* evaluator_;
  std::map<ValueId, std::optional<ir::StoredTensor>> known_;
  int depth_ = 0;
};

}  // namespace rannc::passes
