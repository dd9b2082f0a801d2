#include "passes/parameters/internal/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/graph/rewriter.h"

namespace rannc::passes {

namespace {

constexpr int64_t kMostFormulaElements = 1 << 22;

std::optional<ComputedFormula::Value> known(ir::StoredTensor tensor) {
  auto bytes = tensor.data.read();
  if (!bytes.ok()) return std::nullopt;
  tensor.data = ir::TensorData::in_memory(*std::move(bytes));
  auto numbers = ir::decode_numbers(tensor.type, tensor.data, kMostFormulaElements);
  if (!numbers.ok()) return std::nullopt;
  return ComputedFormula::Value{std::move(tensor), *std::move(numbers)};
}

}  // namespace

void Formula::then(std::string_view op, std::vector<size_t> operands, ir::Attributes attributes) {
  steps.push_back({&ir::core(op), std::move(operands), std::move(attributes)});
  result = leaves + steps.size() - 1;
}

size_t Formula::add_number(ir::DType dtype, double number) {
  ir::ValueType type;
  type.dtype = dtype;
  type.shape.emplace();
  steps.push_back({.constant = {std::move(type), ir::encode_numbers(dtype, {&number, 1})}});
  return leaves + steps.size() - 1;
}

namespace {

ValueId compute_target(ir::Rewriter& rewriter, const Derivation& derivation, const std::string& name) {
  ir::Graph& to = rewriter.graph();
  const Formula& formula = derivation.formula;
  std::vector<ValueId> values;
  for (const ValueId leaf : derivation.leaves) values.push_back(rewriter.map(leaf));
  for (const Formula::Step& step : formula.steps) {
    const bool last = values.size() == formula.result;
    const std::string made = last ? name : fmt::format("{}.{}", name, values.size());
    if (step.op == nullptr) {
      values.push_back(to.add_value(ir::ValueKind::kConstant, made, step.constant.type, step.constant.data));
      continue;
    }
    std::vector<ValueId> operands;
    for (const size_t operand : step.operands) operands.push_back(values[operand]);
    const TaskId task = to.add_task(*step.op, operands, step.attributes, std::vector{made});
    const auto typed = ir::infer_types(to, task);
    RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
    values.push_back(to.outputs(task)[0]);
  }
  return values[formula.result];
}

}  // namespace

void compute_targets(ir::Graph& graph, const std::vector<Derivation>& derivations) {
  std::vector<bool> keep(graph.value_count(), true);
  for (const Derivation& derivation : derivations) keep[derivation.target.index()] = false;
  ir::Rewriter rewriter(graph, keep);
  for (const Derivation& derivation : derivations) {
    const std::string name(graph.value(derivation.target).name);
    rewriter.replace(derivation.target, compute_target(rewriter, derivation, name));
  }
  for (const TaskId task : graph.tasks()) rewriter.copy(task);
  graph = std::move(rewriter).finish();
}

Formula ComputedFormula::formula_of(size_t value) const {
  Formula formula{leaves_, {}, value};
  for (size_t i = leaves_; i <= value; ++i) {
    const Value& each = values_[i];
    formula.steps.push_back({each.op, each.operands, each.attributes, each.op ? ir::StoredTensor{} : each.tensor});
  }
  return formula;
}

bool ComputedFormula::add_leaf(const ir::StoredTensor& tensor) {
  if (!tensor.data.present()) return false;
  auto leaf = known(tensor);
  if (!leaf) return false;
  RANNC_CHECK(leaves_ == values_.size()) << "leaves come first";
  values_.push_back(*std::move(leaf));
  ++leaves_;
  return true;
}

size_t ComputedFormula::add_constant(ir::DType dtype, const ir::Shape& shape, std::span<const double> numbers) {
  ir::ValueType type;
  type.dtype = dtype;
  type.shape = shape;
  const std::vector<int64_t> whole(numbers.begin(), numbers.end());
  ir::TensorData data = ir::is_float(dtype) ? ir::encode_numbers(dtype, numbers) : ir::encode_integers(dtype, whole);
  values_.push_back({{std::move(type), std::move(data)}, {numbers.begin(), numbers.end()}});
  return values_.size() - 1;
}

std::optional<size_t> ComputedFormula::apply(const ir::OpInfo& op, std::initializer_list<size_t> operands,
                                             ir::Attributes attributes) {
  if (evaluator_ == nullptr) return std::nullopt;
  std::vector<const ir::StoredTensor*> tensors;
  for (const size_t operand : operands) tensors.push_back(&values_[operand].tensor);
  ++computed_;
  auto results = evaluator_->evaluate(op, tensors, attributes);
  if (!results.ok() || results->empty()) return std::nullopt;
  auto made = known(std::move(results->front()));
  if (!made) return std::nullopt;
  made->op = &op;
  made->operands = operands;
  made->attributes = std::move(attributes);
  for (const size_t operand : operands) ++values_[operand].uses;
  values_.push_back(*std::move(made));
  return values_.size() - 1;
}

void ComputedFormula::shrink(size_t size) {
  while (values_.size() > size) {
    for (const size_t operand : values_.back().operands) --values_[operand].uses;
    values_.pop_back();
  }
}

double distance(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double off = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    off = std::max(off, std::isfinite(a[i] - b[i]) ? std::abs(a[i] - b[i]) : std::numeric_limits<double>::infinity());
  }
  for (const double number : b) largest = std::max(largest, std::isfinite(number) ? std::abs(number) : 0);
  return off == 0 ? 0 : off / largest;
}

}  // namespace rannc::passes
