#include "passes/batch/internal/integer_tables.h"

#include <algorithm>
#include <vector>

#include "ir/op/fold.h"

namespace rannc::passes {

using ir::Graph;
using ir::StoredTensor;
using ir::ValueType;

namespace {

constexpr int kMostTasks = 512;  // one behind another

bool is_table(const ValueType& type) {
  const auto count = ir::static_count(type);
  return !ir::is_float(type.dtype) && count && *count <= ir::kMostFoldedIntegers;
}

}  // namespace

std::optional<StoredTensor> IntegerTables::of(ValueId value) {
  const auto known = known_.find(value);
  if (known != known_.end()) return known->second;
  if (depth_ >= kMostTasks) return std::nullopt;
  ++depth_;
  auto found = find(value);
  --depth_;
  return known_.emplace(value, std::move(found)).first->second;
}

std::optional<StoredTensor> IntegerTables::find(ValueId id) {
  const Graph::Value value = graph_.value(id);
  if (!is_table(value.type)) return std::nullopt;
  if (value.kind == ir::ValueKind::kConstant && value.data.present()) return StoredTensor{value.type, value.data};
  if (!value.producer.valid()) return std::nullopt;
  return compute(value.producer, value.output_index);
}

std::optional<StoredTensor> IntegerTables::compute(TaskId task, uint32_t result) {
  const ir::OpInfo& op = graph_.op(task);
  const ir::Attributes& attributes = graph_.attributes(task);
  if (!op.known() || op.depends_on_training(attributes)) return std::nullopt;
  std::vector<StoredTensor> tensors;
  for (const ValueId input : graph_.inputs(task)) {
    tensors.emplace_back();
    if (!input.valid()) continue;
    auto found = of(input);
    if (!found) return std::nullopt;
    tensors.back() = std::move(*found);
  }
  std::vector<const StoredTensor*> operands;
  for (size_t i = 0; i < tensors.size(); ++i)
    operands.push_back(graph_.inputs(task)[i].valid() ? &tensors[i] : nullptr);
  std::vector<ValueType> types;
  for (const ValueId output : graph_.outputs(task)) types.push_back(graph_.type(output));
  if (!std::all_of(types.begin(), types.end(), is_table)) return std::nullopt;
  if (auto folded = ir::fold_integers(op, operands, attributes, types)) return std::move((*folded)[result]);
  if (evaluator_ == nullptr) return std::nullopt;
  auto made = evaluator_->evaluate(op, operands, attributes);
  if (!made.ok() || made->size() != types.size()) return std::nullopt;
  return std::move((*made)[result]);
}

}  // namespace rannc::passes
