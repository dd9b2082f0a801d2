#include "frontend/onnx/internal/state/unweighted.h"

#include <algorithm>
#include <iterator>

#include "ir/graph/constant.h"

namespace rannc::frontend {

namespace {

constexpr size_t kFirstStatistics = 3;  // operand of BatchNormalization

struct Weights {
  std::string_view call;
  size_t scale, bias;  ///< arguments
};
constexpr Weights kWeights[] = {
    {"aten.instance_norm", 1, 2}, {"aten.group_norm", 2, 3}, {"aten.native_group_norm", 1, 2},
    {"aten.layer_norm", 2, 3},    {"aten.batch_norm", 1, 2},
};

bool is_none(const TracedCall& call, size_t argument) {
  return argument >= call.arguments.size() || call.arguments[argument] == "None";
}

bool is_everywhere(const ir::Graph& graph, ValueId value, double number) {
  constexpr int64_t kMost = 1 << 16;
  const auto numbers = ir::decode_numbers(graph.type(value), graph.value(value).data, kMost);
  return numbers.ok() && std::all_of(numbers->begin(), numbers->end(), [&](double each) { return each == number; });
}

}  // namespace

bool is_unweighted(const ir::Graph& graph, ValueId operand, size_t place, const TracedCall& call) {
  const auto* const weights =
      std::find_if(std::begin(kWeights), std::end(kWeights), [&](const Weights& each) { return call.is(each.call); });
  if (weights == std::end(kWeights) || place >= kFirstStatistics) return false;
  return (is_none(call, weights->scale) && is_everywhere(graph, operand, 1)) ||
         (is_none(call, weights->bias) && is_everywhere(graph, operand, 0));
}

void Unweighted::read(const ir::Graph& graph, std::span<const ValueId> operands,
                      const std::optional<TracedCall>& call) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const ValueId operand = operands[i];
    if (!operand.valid() || !ir::is_float(graph.type(operand).dtype)) continue;
    if (graph.kind(operand) != ir::ValueKind::kConstant || !graph.value(operand).data.present()) continue;
    if (reads_.size() <= operand.index()) reads_.resize(operand.index() + 1);
    Reads& reads = reads_[operand.index()];
    ++reads.all;
    reads.unweighted += call && is_unweighted(graph, operand, i, *call);
  }
}

void Unweighted::note(const ir::Graph& graph, ImportNotes& notes) const {
  for (uint32_t i = 0; i < reads_.size(); ++i) {
    if (reads_[i].unweighted > 0 && reads_[i].unweighted == reads_[i].all) {
      notes.stored.literals.emplace(graph.value(ValueId(i)).name);
    }
  }
}

}  // namespace rannc::frontend
