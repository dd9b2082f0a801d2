// Calls and loops of single tasks, which all programs of a graph share.
#include <algorithm>

#include "ir/gradient/vjp.h"
#include "ir/graph/memory_format.h"
#include "ir/op/op.h"
#include "ir/program/internal/text_program.h"
#include "ir/program/lower_program.h"

namespace rannc::ir {

namespace {

/// Whether a call multiplies a stack of rows by one matrix, and LibTorch would not do so by one call of a kernel:
///   - If the rows do not lie at equal distances, it multiplies the matrices of the stack one by one. If a gradient
///     is required, it copies the rows into one matrix, which is faster.
///   - If the rows are not contiguous, it adds a bias separately. A stage that receives them would get other bits.
bool multiplies_scattered_rows(const Graph& graph, const Views& views, TaskId task, const aten::Call& call) {
  if (call.schema != "aten::linear" && call.schema != "aten::matmul") return false;
  const auto inputs = graph.inputs(task);
  const auto rank = [&](size_t i) { return graph.type(inputs[i]).shape ? graph.type(inputs[i]).shape->size() : 0; };
  if (inputs.size() < 2 || rank(0) < 3 || rank(1) != 2) return false;
  const bool biased = inputs.size() > 2 && inputs[2].valid();
  return biased ? views.is_scattered(inputs[0]) : !views.merges(graph, inputs[0], 1);
}

/// Copies operand 0 before the calls. `aten::contiguous` leaves axes of one element, such as one sample, with strides
/// of scattered rows.
void copy_rows(aten::Lowering& lowering) {
  const auto moved = [](aten::Value& value) {
    if (auto* made = std::get_if<aten::Made>(&value)) ++made->call;
    if (value == aten::Value(aten::Operand{0})) value = aten::Made{0, 0};
  };
  for_each_value(lowering, moved);
  std::for_each(lowering.results.begin(), lowering.results.end(), moved);
  aten::Call copy{"aten::clone", {aten::Operand{0}, {"memory_format", aten::MemoryFormat::kContiguous}}};
  lowering.calls.insert(lowering.calls.begin(), std::move(copy));
}

}  // namespace

ProgramLowering::ProgramLowering(const Graph& graph, LoweringOptions options)
    : graph_(graph), options_(std::move(options)), views_(graph), calls_(graph.task_count()) {}

bool ProgramLowering::is_resident(ValueId base) const {
  if (!options_.resident.empty()) return options_.resident[base.index()];
  const ValueKind kind = graph_.kind(base);
  return !graph_.producer(base).valid() && kind != ValueKind::kInput && kind != ValueKind::kRandomInput;
}

Result<ProgramLowering::Lowering> ProgramLowering::calls_of(TaskId task) {
  if (calls_[task.index()]) return *calls_[task.index()];
  const auto taped = taped_of(graph_, task);
  const auto in = type_list(graph_, graph_.inputs(task));
  const auto out = type_list(graph_, taped ? taped->results : graph_.outputs(task));
  LowerCall call(taped ? *taped->op : graph_.op(task), in, out, taped ? taped->attributes : graph_.attributes(task),
                 options_.device);
  call.flash_attention = options_.flash_attention;
  for (size_t k = 0; k < std::min<size_t>(in.size(), 64) && options_.device == DeviceType::kCuda; ++k) {
    const ValueId operand = graph_.inputs(task)[k];
    if (operand.valid() && views_.has_rows(graph_, operand, LowerCall::kRowBytes)) call.rows |= uint64_t{1} << k;
  }
  auto made = lowering(call);
  if (!made.ok()) return error(graph_.location(task), made.diagnostic().message);
  const auto has_blocks = [](const aten::Call& call) { return !call.blocks.empty(); };
  Lowering kept;
  if (std::none_of(made->calls.begin(), made->calls.end(), has_blocks)) {
    const auto scattered = [&](const aten::Call& call) {
      return multiplies_scattered_rows(graph_, views_, task, call);
    };
    if (std::any_of(made->calls.begin(), made->calls.end(), scattered)) copy_rows(*made);
    kept = std::make_shared<aten::Lowering>(*std::move(made));
  }
  calls_[task.index()] = kept;
  return kept;
}

const LoopTasks& ProgramLowering::loops() {
  if (loops_) return *loops_;
  loops_.emplace();
  if (!options_.loops) return *loops_;
  const std::vector<bool> channels_last = ir::channels_last(graph_);
  const auto is_channels_last = [&](ValueId value) { return value.valid() && channels_last[value.index()]; };
  for (const TaskId task : graph_.tasks()) {
    const auto inputs = graph_.inputs(task), outputs = graph_.outputs(task);
    const bool excluded = std::binary_search(options_.exchanges.begin(), options_.exchanges.end(), task) ||
                          std::any_of(inputs.begin(), inputs.end(), is_channels_last) ||
                          std::any_of(outputs.begin(), outputs.end(), is_channels_last);
    if (excluded) continue;
    if (auto loop = loop_task(graph_, task)) loops_->emplace(task, *std::move(loop));
  }
  return *loops_;
}

}  // namespace rannc::ir
