/// Computes integers that follow from stored ones, on demand.
#pragma once

#include <map>
#include <optional>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "passes/evaluator.h"

namespace rannc::passes {

/// Never uses floats: a property of a weight may change in training.
class IntegerTables {
 public:
  /// Both must outlive this object. Without an evaluator only results that `ir/op/fold.h` computes are known.
  IntegerTables(const ir::Graph& graph, const Evaluator* evaluator) : graph_(graph), evaluator_(evaluator) {}
  /// Returns the elements of an integer or boolean value; nullopt if it depends on an input or a float, or has too many
  /// elements.
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
