// The rules, by operator: what ATen's derivative of an operator reads of its forward pass.
#include "partition/model/tape.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "ir/op.h"
#include "ir/plan.h"
#include "ir/row_gradients.h"

namespace rannc::partition {

namespace {

enum class Rule : uint8_t {
  kNothing,
  kSum,  ///< its gradient is its operands'
  kView,
  kPartView,  ///< of a part: the gradient is as large as the whole again
  kReshape,
  kPermute,
  kOperand,
  kOperands,
  kResult,
  kOperandAndResult,
  kProduct,   ///< each factor where the other one wants a gradient
  kQuotient,  ///< the divisor; the dividend and the divisor where the divisor wants a gradient
  kLinear,
  kMatmul,
  kConvolution,
  kLayerNorm,
  kRmsNorm,
  kBatchNorm,
  kMaxPool,
  kGather,
  kDropout,
  kCrossEntropy,
  kCondition,
  kAll
};

Rule rule_of(std::string_view op) {
  static const std::map<std::string_view, Rule> kRules{
      {"core.add", Rule::kSum},
      {"core.sub", Rule::kSum},
      {"core.neg", Rule::kNothing},
      {"core.concat", Rule::kNothing},
      {"core.sum", Rule::kNothing},
      {"core.mean", Rule::kNothing},
      {"core.tile", Rule::kNothing},
      {"core.pad", Rule::kNothing},
      {"core.cumsum", Rule::kNothing},
      {"core.trilu", Rule::kNothing},
      {"core.cast", Rule::kNothing},
      {"core.identity", Rule::kView},
      {"core.unsqueeze", Rule::kView},
      {"core.squeeze", Rule::kView},
      {"core.reshape", Rule::kReshape},
      {"core.permute", Rule::kPermute},
      {"core.expand", Rule::kPartView},
      {"core.split", Rule::kPartView},
      {"core.slice", Rule::kPartView},
      {"core.mul", Rule::kProduct},
      {"core.div", Rule::kQuotient},
      {"core.matmul", Rule::kMatmul},
      {"core.linear", Rule::kLinear},
      {"core.conv", Rule::kConvolution},
      {"core.layer_norm", Rule::kLayerNorm},
      {"core.rms_norm", Rule::kRmsNorm},
      {"core.batch_norm", Rule::kBatchNorm},
      {"core.max_pool", Rule::kMaxPool},
      {"core.avg_pool", Rule::kOperand},
      {"core.adaptive_avg_pool", Rule::kOperand},
      {"core.gather", Rule::kGather},
      {"core.dropout", Rule::kDropout},
      {"core.cross_entropy_sum", Rule::kCrossEntropy},
      {"core.mse_sum", Rule::kOperands},
      {"core.maximum", Rule::kOperands},
      {"core.minimum", Rule::kOperands},
      {"core.where", Rule::kCondition},
      {"core.relu", Rule::kResult},
      {"core.tanh", Rule::kResult},
      {"core.sigmoid", Rule::kResult},
      {"core.exp", Rule::kResult},
      {"core.sqrt", Rule::kResult},
      {"core.rsqrt", Rule::kResult},
      {"core.reciprocal", Rule::kResult},
      {"core.softmax", Rule::kResult},
      {"core.log_softmax", Rule::kResult},
      {"core.gelu", Rule::kOperand},
      {"core.silu", Rule::kOperand},
      {"core.hardswish", Rule::kOperand},
      {"core.hardsigmoid", Rule::kOperand},
      {"core.softplus", Rule::kOperand},
      {"core.leaky_relu", Rule::kOperand},
      {"core.elu", Rule::kOperand},
      {"core.clamp", Rule::kOperand},
      {"core.abs", Rule::kOperand},
      {"core.erf", Rule::kOperand},
      {"core.log", Rule::kOperand},
      {"core.sin", Rule::kOperand},
      {"core.cos", Rule::kOperand},
      {"core.pow", Rule::kOperands},
      {"core.amax", Rule::kOperandAndResult},
      {"core.amin", Rule::kOperandAndResult},
      {"core.prod", Rule::kOperandAndResult},
  };
  const auto found = kRules.find(op);
  return found == kRules.end() ? Rule::kAll : found->second;
}

ByteLine scaled(const ByteLine& line, double by) { return {line.per_sample * by, line.fixed * by}; }

void add(ByteLine& to, const ByteLine& more) {
  to.per_sample += more.per_sample;
  to.fixed += more.fixed;
}

}  // namespace

class TapeBuilder {
 public:
  TapeBuilder(const ir::Graph& graph, Tape& tape) : graph_(graph), tape_(tape) {}

  Result<void> run(const ir::Bindings& assume) {
    tape_.graph_ = &graph_;
    tape_.needs_gradient_ = ir::needs_gradient(graph_);
    tape_.lines_.resize(graph_.type_count());
    std::vector<bool> known(graph_.type_count());
    for (const ValueId value : graph_.values()) {
      tape_.base_.push_back(value);
      const uint32_t type = graph_.type_number(value);
      if (known[type]) continue;
      known[type] = true;
      RANNC_ASSIGN(tape_.lines_[type], byte_line(graph_, value, assume));
    }
    tape_.kept_somewhere_.assign(graph_.value_count(), false);
    scattered_.assign(graph_.value_count(), false);
    const size_t count = graph_.task_count();
    tape_.traits_.assign(count, 0);
    tape_.own_.resize(count);
    tape_.workspace_.resize(count);
    tape_.first_kept_.push_back(0);
    for (const TaskId task : graph_.tasks()) {
      follow(task);
      tape_.first_kept_.push_back(static_cast<uint32_t>(tape_.kept_.size()));
    }
    return {};
  }

 private:
  ValueId operand(size_t i) const {
    const auto inputs = graph_.inputs(task_);
    return i < inputs.size() ? inputs[i] : ValueId();
  }
  ValueId result() const { return graph_.outputs(task_)[0]; }
  bool wants(size_t i) const { return operand(i).valid() && tape_.needs_gradient_[operand(i).index()]; }
  const ByteLine& line(ValueId value) const { return tape_.bytes(value); }
  size_t rank(ValueId value) const { return graph_.type(value).shape ? graph_.type(value).shape->size() : 0; }
  double element(ValueId value) const { return static_cast<double>(ir::byte_size(graph_.type(value).dtype)); }

  void keep(ValueId value) {
    if (!value.valid()) return;
    tape_.kept_.push_back(value);
    tape_.kept_somewhere_[tape_.base_[value.index()].index()] = true;
  }
  void own(const ByteLine& bytes) { add(tape_.own_[task_.index()], bytes); }
  void work(const ByteLine& bytes) { add(tape_.workspace_[task_.index()], bytes); }

  void view(bool passes_gradient) {
    if (!operand(0).valid()) return;
    tape_.traits_[task_.index()] |= Tape::kView | (passes_gradient ? Tape::kPassesGradient : 0);
    for (const ValueId output : graph_.outputs(task_)) {
      tape_.base_[output.index()] = tape_.base_[operand(0).index()];
      scattered_[output.index()] = scattered_[operand(0).index()];
    }
  }

  /// A product of stacks of matrices lays operands out in one piece first: a copy, which is kept in their stead.
  void keep_factor(size_t i, bool stacked) {
    if (stacked && scattered_[operand(i).index()]) return own(line(operand(i)));
    keep(operand(i));
  }

  // Mean and deviation of each row: the operand's last axes make one.
  ByteLine row_numbers(double each) const {
    double row = 1;
    if (operand(1).valid() && graph_.type(operand(1)).shape) {
      for (const ir::Dim& dim : *graph_.type(operand(1)).shape) {
        row *= dim.is_constant() ? static_cast<double>(dim.constant()) : 1;
      }
    }
    return scaled(line(result()), each / row);
  }

  void follow(TaskId task) {
    task_ = task;
    if (graph_.outputs(task).empty()) return;
    const Rule rule = rule_of(graph_.op(task).name);
    shape(rule);
    const auto outputs = graph_.outputs(task);
    const bool flows =
        std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return tape_.needs_gradient_[v.index()]; });
    if (flows) keep_by(rule);
  }

  // What shares memory with what.
  void shape(Rule rule) {
    switch (rule) {
      case Rule::kView:
        return view(true);
      case Rule::kPartView:
        view(false);
        for (const ValueId output : graph_.outputs(task_)) scattered_[output.index()] = true;
        return;
      case Rule::kPermute:
        view(true);
        scattered_[result().index()] = true;
        return;
      case Rule::kReshape:
        // In one piece another view of it, else a copy.
        if (operand(0).valid() && !scattered_[operand(0).index()]) return view(true);
        tape_.traits_[task_.index()] |= Tape::kPassesGradient;
        return;
      default:
        return;
    }
  }

  /// As the runtime decides it: a large parameter, looked up by `embedding`.
  bool looks_up_rows() const {
    const ValueId table = operand(0);
    const auto& shape = graph_.type(table).shape;
    const int64_t axis = graph_.attributes(task_).integer("axis");
    return graph_.kind(table) == ir::ValueKind::kParameter && shape && shape->size() == 2 && (axis == 0 || axis == -2) &&
           line(table).fixed >= static_cast<double>(ir::kRowGradientTableBytes);
  }

  void keep_by(Rule rule) {
    switch (rule) {
      case Rule::kNothing:
      case Rule::kView:
      case Rule::kPartView:
      case Rule::kReshape:
      case Rule::kPermute:
        return;
      case Rule::kSum:
        if (passes_whole()) tape_.traits_[task_.index()] |= Tape::kPassesGradient;
        return;
      case Rule::kOperand:
        return keep(operand(0));
      case Rule::kOperands:
        keep(operand(0));
        return keep(operand(1));
      case Rule::kResult:
        return keep(result());
      case Rule::kOperandAndResult:
        keep(operand(0));
        return keep(result());
      case Rule::kProduct:
        if (wants(1)) keep(operand(0));
        if (wants(0)) keep(operand(1));
        return;
      case Rule::kQuotient:
        keep(operand(1));
        if (wants(1)) keep(operand(0));
        return;
      default:
        return keep_by_structure(rule);
    }
  }

  // Whether neither operand is stretched.
  bool passes_whole() const {
    for (const ValueId input : graph_.inputs(task_)) {
      if (input.valid() && tape_.needs_gradient_[input.index()] &&
          graph_.type(input).shape != graph_.type(result()).shape) {
        return false;
      }
    }
    return true;
  }

  void keep_by_structure(Rule rule) {
    switch (rule) {
      case Rule::kLinear:
        if (wants(1)) keep(operand(0));
        if (wants(0)) keep(operand(1));
        return;
      case Rule::kMatmul: {
        const bool stacked = rank(operand(0)) > 2 && rank(operand(1)) > 2;
        if (wants(1)) keep_factor(0, stacked);
        if (wants(0)) keep_factor(1, stacked);
        return;
      }
      case Rule::kConvolution:
        work(line(operand(1)));  // oneDNN's own layout of the filters
        keep(operand(0));
        return keep(operand(1));
      case Rule::kLayerNorm:
        own(row_numbers(2));
        return keep(operand(0));
      case Rule::kRmsNorm:
        own(row_numbers(1));
        own(line(result()));
        return keep(operand(0));
      case Rule::kBatchNorm:
        own({0, operand(1).valid() ? 2 * line(operand(1)).fixed : 0});
        return keep(operand(0));
      case Rule::kMaxPool:
        own(scaled(line(result()), 8 / element(result())));
        return keep(operand(0));
      case Rule::kGather:
        if (looks_up_rows()) tape_.traits_[task_.index()] |= Tape::kGivesRows;
        return own(scaled(line(operand(1)), 8 / element(operand(1))));
      case Rule::kDropout:
        if (graph_.attributes(task_).number("ratio", 0) > 0) own(line(result()));
        return;
      case Rule::kCrossEntropy:
        // The logarithms of the probabilities; backward, the gradient with respect to them.
        own(line(operand(0)));
        return work(line(operand(0)));
      case Rule::kCondition:
        return keep(operand(0));
      default:
        for (const ValueId input : graph_.inputs(task_)) {
          if (input.valid() && ir::is_float(graph_.type(input).dtype)) keep(input);
        }
        for (const ValueId output : graph_.outputs(task_)) keep(output);
    }
  }

  const ir::Graph& graph_;
  Tape& tape_;
  TaskId task_;
  std::vector<bool> scattered_;  // by value: its elements do not lie in one piece
};

double Tape::stash_bytes(TaskId task, double samples) const {
  double bytes = own(task).at(samples);
  for (const ValueId output : graph_->outputs(task)) {
    if (base(output) == output && is_kept(output)) bytes += this->bytes(output).at(samples);
  }
  return bytes;
}

Result<Tape> Tape::of(const ir::Graph& graph, const ir::Bindings& assume) {
  Tape tape;
  RANNC_TRY(TapeBuilder(graph, tape).run(assume));
  return tape;
}

}  // namespace rannc::partition
