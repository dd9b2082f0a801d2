#include "partition/model/tape.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ir/op.h"
#include "ir/plan.h"
#include "ir/row_gradients.h"
#include "partition/model/internal/tape_rules.h"

namespace rannc::partition {

namespace {

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
    assume_ = &assume;
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
    const TapeRule rule = rule_of(graph_.op(task).name);
    shape(rule);
    const auto outputs = graph_.outputs(task);
    const bool flows =
        std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return tape_.needs_gradient_[v.index()]; });
    if (!flows) return;
    work(scaled(line(result()), passing_copies(graph_.op(task).name)));
    keep_by(rule);
  }

  bool is_bounded() const {
    return graph_.attributes(task_).has("min") || graph_.attributes(task_).has("max");
  }

  // What shares memory with what.
  void shape(TapeRule rule) {
    switch (rule) {
      case TapeRule::kView:
        return view(true);
      case TapeRule::kPartView:
        view(false);
        for (const ValueId output : graph_.outputs(task_)) scattered_[output.index()] = true;
        return;
      case TapeRule::kPermute:
        view(true);
        scattered_[result().index()] = true;
        return;
      case TapeRule::kClamp:  // without bounds the operand itself
        if (!is_bounded()) view(true);
        return;
      case TapeRule::kReshape:
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

  void keep_by(TapeRule rule) {
    switch (rule) {
      case TapeRule::kNothing:
      case TapeRule::kView:
      case TapeRule::kPartView:
      case TapeRule::kReshape:
      case TapeRule::kPermute:
        return;
      case TapeRule::kSum:
        if (passes_whole()) tape_.traits_[task_.index()] |= Tape::kPassesGradient;
        return;
      case TapeRule::kClamp:
        if (is_bounded()) keep(operand(0));
        return;
      case TapeRule::kOperand:
        return keep(operand(0));
      case TapeRule::kOperands:
        keep(operand(0));
        return keep(operand(1));
      case TapeRule::kResult:
        return keep(result());
      case TapeRule::kOperandAndResult:
        keep(operand(0));
        return keep(result());
      case TapeRule::kProduct:
        if (wants(1)) keep(operand(0));
        if (wants(0)) keep(operand(1));
        return;
      case TapeRule::kQuotient:
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

  /// Of an axis that does not count samples.
  double extent(ValueId value, size_t axis) const {
    const auto& shape = graph_.type(value).shape;
    if (!shape || axis >= shape->size()) return 1;
    const auto found = (*shape)[axis].evaluate(*assume_);
    return found && *found > 0 ? static_cast<double>(*found) : 1;
  }

  // What windows move over: the operand, or a padded copy of it where ATen's own padding, which is the same on both
  // sides and for pooling at most half the kernel, does not do.
  struct Pads {
    std::vector<int64_t> begin, end;
    bool by_hand = false;
  };

  Pads pads() const {
    const ir::Attributes& attributes = graph_.attributes(task_);
    const std::vector<int64_t> given = attributes.integers("pads"), kernel = attributes.integers("kernel");
    const auto middle = given.begin() + static_cast<std::ptrdiff_t>(given.size() / 2);
    Pads found{{given.begin(), middle}, {middle, given.end()}};
    found.by_hand = found.begin != found.end;
    for (size_t i = 0; i < std::min(kernel.size(), found.begin.size()); ++i) {
      if (2 * found.begin[i] > kernel[i]) found.by_hand = true;
    }
    return found;
  }

  double padded_extent(const Pads& pads, size_t i) const {
    return extent(operand(0), i + 2) + static_cast<double>(pads.begin[i] + pads.end[i]);
  }

  void keep_windowed() {
    const Pads found = pads();
    if (!found.by_hand) return keep(operand(0));
    double growth = 1;
    for (size_t i = 0; i < found.begin.size(); ++i) growth *= padded_extent(found, i) / extent(operand(0), i + 2);
    own(scaled(line(operand(0)), growth));
  }

  /// How many windows ATen counts for each that the result has: of an operand padded by hand also those that begin in
  /// its right pad, where the last one may end beyond it.
  double late_windows() const {
    const ir::Attributes& attributes = graph_.attributes(task_);
    const Pads found = pads();
    if (!found.by_hand || !attributes.flag("ceil")) return 1;
    const std::vector<int64_t> kernel = attributes.integers("kernel"), strides = attributes.integers("strides"),
                               dilations = attributes.integers("dilations");
    double growth = 1;
    for (size_t i = 0; i < kernel.size(); ++i) {
      const double stride = strides.empty() ? 1 : static_cast<double>(strides[i]);
      const double reach = static_cast<double>((dilations.empty() ? 1 : dilations[i]) * (kernel[i] - 1) + 1);
      const double room = padded_extent(found, i);
      double count = std::ceil((room - reach) / stride) + 1;
      if ((count - 1) * stride >= room) --count;
      growth *= count / extent(result(), i + 2);
    }
    return growth;
  }

  // One axis after another, from the last on; each product keeps its operand and its result.
  void keep_products() {
    keep(operand(0));
    keep(result());
    const size_t axes = rank(operand(0));
    std::vector<int64_t> folded = graph_.attributes(task_).integers("axes");
    if (!graph_.attributes(task_).has("axes")) {
      for (size_t i = 0; i < axes; ++i) folded.push_back(static_cast<int64_t>(i));
    }
    for (int64_t& axis : folded) axis += axis < 0 ? static_cast<int64_t>(axes) : 0;
    std::sort(folded.rbegin(), folded.rend());
    ByteLine left = line(operand(0));
    for (size_t i = 0; i + 1 < folded.size(); ++i) {
      left = scaled(left, 1 / extent(operand(0), static_cast<size_t>(folded[i])));
      own(left);
    }
  }

  void keep_by_structure(TapeRule rule) {
    switch (rule) {
      case TapeRule::kLinear:
        if (wants(1)) keep(operand(0));
        if (wants(0)) keep(operand(1));
        return;
      case TapeRule::kMatmul: {
        const bool stacked = rank(operand(0)) > 2 && rank(operand(1)) > 2;
        if (wants(1)) keep_factor(0, stacked);
        if (wants(0)) keep_factor(1, stacked);
        return;
      }
      case TapeRule::kConvolution:
        work(line(operand(1)));  // oneDNN's own layout of the filters
        keep_windowed();
        return keep(operand(1));
      case TapeRule::kPower:
        keep(operand(0));
        keep(operand(1));
        return keep(result());
      case TapeRule::kRemainder:
        if (!wants(1)) return;
        keep(operand(0));
        return keep(operand(1));
      case TapeRule::kProductOverAxes:
        return keep_products();
      case TapeRule::kPad:
        if (graph_.attributes(task_).text("mode", "constant") != "constant") keep(operand(0));
        return;
      case TapeRule::kLayerNorm:
        own(row_numbers(2));
        return keep(operand(0));
      case TapeRule::kRmsNorm:
        if (wants(0)) {
          own(row_numbers(1));
          keep(operand(0));
          keep(operand(1));
        }
        if (wants(1)) own(line(result()));  // before it is scaled
        return;
      case TapeRule::kBatchNorm:
        own({0, operand(1).valid() ? 2 * line(operand(1)).fixed : 0});
        return keep(operand(0));
      case TapeRule::kMaxPool:
        own(scaled(line(result()), late_windows() * 8 / element(result())));  // where each maximum was
        [[fallthrough]];
      case TapeRule::kAvgPool:
        return keep_windowed();
      case TapeRule::kGather:
        if (looks_up_rows()) tape_.traits_[task_.index()] |= Tape::kGivesRows;
        return own(scaled(line(operand(1)), 8 / element(operand(1))));
      case TapeRule::kGatherTuples: {
        const double depth = extent(operand(1), rank(operand(1)) - 1);  // one number for each tuple
        return own(scaled(line(operand(1)), 8 / element(operand(1)) / depth));
      }
      case TapeRule::kGatherElements:
        own(scaled(line(operand(1)), 8 / element(operand(1))));
        return keep(operand(0));
      case TapeRule::kDropout:
        if (graph_.attributes(task_).number("ratio", 0) > 0) own(line(result()));
        return;
      case TapeRule::kCrossEntropy:
        // The logarithms of the probabilities; backward, the gradient with respect to them.
        own(line(operand(0)));
        keep(operand(1));
        return work(line(operand(0)));
      case TapeRule::kCondition:
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
  const ir::Bindings* assume_ = nullptr;  // while it runs
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
