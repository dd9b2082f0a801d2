#include "partition/model/tape.h"

#include <algorithm>
#include <unordered_map>

#include "ir/gradient/row_gradients.h"
#include "ir/graph/views.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "ir/plan/plan.h"

namespace rannc::partition {

namespace {

void add(ByteLine& to, const ByteLine& more, double times = 1) {
  to.per_sample += more.per_sample * times;
  to.fixed += more.fixed * times;
}

}  // namespace

class TapeBuilder {
 public:
  TapeBuilder(const ir::Graph& graph, Tape& tape) : graph_(graph), tape_(tape), views_(graph) {}

  Result<void> run(const ir::Bindings& assume) {
    assume_ = &assume;
    tape_.graph_ = &graph_;
    tape_.assume_ = assume;
    tape_.needs_gradient_ = ir::needs_gradient(graph_);
    tape_.lines_.resize(graph_.type_count());
    std::vector<bool> known(graph_.type_count());
    for (const ValueId value : graph_.values()) {
      tape_.base_.push_back(views_.base(value));
      const uint32_t type = graph_.type_number(value);
      if (known[type]) continue;
      known[type] = true;
      RANNC_ASSIGN(tape_.lines_[type], byte_line(graph_, value, assume));
    }
    tape_.kept_somewhere_.assign(graph_.value_count(), false);
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
  // Result of a registry rule, in bytes.
  struct Found {
    std::vector<ir::Kept> keeps;
    ByteLine own, workspace;
    bool returns_rows = false;
  };

  ValueId operand(size_t i) const {
    const auto inputs = graph_.inputs(task_);
    return i < inputs.size() ? inputs[i] : ValueId();
  }
  ValueId result() const { return graph_.outputs(task_)[0]; }
  bool wants(size_t i) const { return operand(i).valid() && tape_.needs_gradient_[operand(i).index()]; }
  const ByteLine& line(ValueId value) const { return tape_.bytes(value); }

  void keep(ValueId value) {
    if (!value.valid()) return;
    tape_.kept_.push_back(value);
    tape_.kept_somewhere_[tape_.base_[value.index()].index()] = true;
  }

  void follow(TaskId task) {
    task_ = task;
    if (graph_.outputs(task).empty()) return;
    const ir::OpInfo& op = graph_.op(task);
    share(op.view);
    if (ir::has_kernel_scratch(op)) add_scratch(op);
    const auto outputs = graph_.outputs(task);
    const bool flows =
        std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return tape_.needs_gradient_[v.index()]; });
    if (!flows) return;
    if (is_concatenation(op)) tape_.traits_[task.index()] |= Tape::kReturnsParts;
    if (!op.tape) return keep_all();
    if (op.tape->passes_gradient && passes_whole()) tape_.traits_[task.index()] |= Tape::kPassesGradient;
    add(tape_.workspace_[task.index()], line(result()), op.tape->copies);
    if (op.tape->rule == nullptr) return keep_listed(op.tape->keeps);
    keep_by_rule(op);
  }

  // Kernels of windows and of resampling copy a gradient with non-contiguous elements.
  static bool wants_gradient_in_one_piece(const ir::OpInfo& op) {
    return op.family == "resample" || ir::has_kernel_scratch(op);
  }

  static bool is_concatenation(const ir::OpInfo& op) {
    static const ir::Ops kConcatenation{"concat"};
    return kConcatenation.contains(op);
  }

  // Whether the result's gradient lies in the gradient of a concatenation, which stores each sample's parts together.
  bool gradient_is_part() const {
    size_t uses = 0;
    bool part = false;
    graph_.for_each_use(result(), [&](ir::Graph::Use use) {
      ++uses;
      part = is_concatenation(graph_.op(use.task)) && graph_.attributes(use.task).integer("axis") != 0;
    });
    return uses == 1 && part;
  }

  // Determines which values share memory.
  void share(ir::View kind) {
    if (kind == ir::View::kNone || !operand(0).valid()) return;
    const bool shares = views_.base(result()) == views_.base(operand(0));
    const bool passes = kind != ir::View::kPart && (shares || kind != ir::View::kWhereSameType);
    tape_.traits_[task_.index()] |= (shares ? Tape::kView : 0) | (passes ? Tape::kPassesGradient : 0);
  }

  // Whether neither operand is broadcast.
  bool passes_whole() const {
    for (const ValueId input : graph_.inputs(task_)) {
      if (input.valid() && tape_.needs_gradient_[input.index()] &&
          graph_.type(input).shape != graph_.type(result()).shape) {
        return false;
      }
    }
    return true;
  }

  // Default for operators without a rule.
  void keep_all() {
    for (const ValueId input : graph_.inputs(task_)) {
      if (input.valid() && ir::is_float(graph_.type(input).dtype)) keep(input);
    }
    for (const ValueId output : graph_.outputs(task_)) keep(output);
  }

  void keep_listed(const std::vector<ir::Kept>& keeps) {
    for (const ir::Kept& kept : keeps) {
      if (kept.where_wanted != ir::Kept::kAlways && !wants(kept.where_wanted)) continue;
      const ValueId value = kept.of == ir::Kept::Of::kResult ? graph_.outputs(task_)[kept.index] : operand(kept.index);
      if (kept.in_one_piece && views_.is_scattered(value)) {
        add(tape_.own_[task_.index()], line(value));
      } else {
        keep(value);
      }
    }
  }

  void keep_by_rule(const ir::OpInfo& op) {
    const Found& found = found_by_rule(op);
    keep_listed(found.keeps);
    add(tape_.own_[task_.index()], found.own);
    if (tape_.scratch_kind(task_) == Tape::kNoScratch) add(tape_.workspace_[task_.index()], found.workspace);
    if (found.returns_rows && is_large_table(operand(0))) tape_.traits_[task_.index()] |= Tape::kReturnsRows;
  }

  /// Same decision as in the runtime.
  bool is_large_table(ValueId value) const {
    return graph_.kind(value) == ir::ValueKind::kParameter &&
           line(value).fixed >= static_cast<double>(ir::kRowGradientTableBytes);
  }

  void add_scratch(const ir::OpInfo& op) {
    const uint64_t wanted = set_key(op);
    const auto [at, fresh] = scratch_kinds_.try_emplace(key_, static_cast<uint32_t>(tape_.scratches_.size()));
    if (fresh) tape_.scratches_.push_back({task_, wanted});
    if (tape_.scratch_kind_.empty()) tape_.scratch_kind_.assign(graph_.task_count(), Tape::kNoScratch);
    tape_.scratch_kind_[task_.index()] = at->second;
  }

  // Equal tasks have equal keys. Returns the operands that need gradients.
  uint64_t set_key(const ir::OpInfo& op) {
    const auto address = uint64_t{reinterpret_cast<uintptr_t>(&op)};
    uint64_t wanted = 0;
    key_.assign(
        {static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32), graph_.attributes_number(task_)});
    for (size_t i = 0; i < graph_.inputs(task_).size(); ++i) {
      key_.push_back(operand(i).valid() ? graph_.type_number(operand(i)) : UINT32_MAX);
      key_.push_back(wants(i));
      if (wants(i) && i < 64) wanted |= uint64_t{1} << i;
    }
    return wanted;
  }

  // The rule is evaluated once for equal tasks.
  const Found& found_by_rule(const ir::OpInfo& op) {
    const uint64_t wanted = set_key(op);
    const auto [at, fresh] = found_.try_emplace(key_);
    if (fresh) at->second = find(wanted);
    return at->second;
  }

  Found find(uint64_t wanted) const {
    ir::TapeUse use = ir::tape_use(graph_, task_, wanted);
    return {std::move(use.keeps), of(use.own_bytes), of(use.workspace_bytes), use.returns_rows};
  }

  // Symbols of sizes have numbers, because those of the values were evaluated before.
  ByteLine of(const ir::Dim& bytes) const {
    const auto found = byte_line(bytes, graph_.batch_symbol(), *assume_);
    RANNC_CHECK(found.has_value()) << bytes.str() << " has a symbol that no value's size has";
    return *found;
  }

  const ir::Graph& graph_;
  Tape& tape_;
  const ir::Views views_;
  const ir::Bindings* assume_ = nullptr;  // during construction only
  TaskId task_;
  std::unordered_map<std::vector<uint32_t>, Found, ir::HashOfNumbers> found_;
  std::unordered_map<std::vector<uint32_t>, uint32_t, ir::HashOfNumbers> scratch_kinds_;
  std::vector<uint32_t> key_;
};

double Tape::stash_bytes(TaskId task, double samples) const {
  double bytes = own(task).at(samples);
  for (const ValueId output : graph_->outputs(task)) {
    if (base(output) == output && is_kept(output)) bytes += this->bytes(output).at(samples);
  }
  const auto inputs = graph_->inputs(task);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid() || graph_->kind(inputs[i]) != ir::ValueKind::kRandomInput || !is_kept(inputs[i])) continue;
    const ir::Graph::Use first = graph_->uses(inputs[i]).front();
    if (first.task == task && first.operand == i) bytes += this->bytes(inputs[i]).at(samples);
  }
  return bytes;
}

ir::KernelScratch Tape::scratch(uint32_t kind, uint64_t samples) const {
  const ScratchKind& of = scratches_[kind];
  ir::Bindings sizes = assume_;
  if (!graph_->batch_symbol().empty()) sizes[graph_->batch_symbol()] = static_cast<int64_t>(samples);
  return ir::kernel_scratch(*graph_, of.task, of.wanted, sizes, instructions_);
}

Result<Tape> Tape::of(const ir::Graph& graph, const ir::Bindings& assume,
                      std::vector<ir::InstructionSet> instructions) {
  Tape tape;
  tape.instructions_ = std::move(instructions);
  RANNC_TRY(TapeBuilder(graph, tape).run(assume));
  return tape;
}

}  // namespace rannc::partition
