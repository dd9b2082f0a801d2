#include "frontend/onnx/internal/training_mode.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace rannc::frontend {

using ONNX_NAMESPACE::NodeProto;

namespace {

constexpr std::string_view kNormalisations[] = {"aten.batch_norm", "aten.native_batch_norm",
                                                "aten._native_batch_norm_legit",
                                                "aten._native_batch_norm_legit_functional"};
constexpr std::string_view kWithRunningStatistics = "aten._native_batch_norm_legit_no_training";
constexpr size_t kTraining = 5;  // argument of all of them

constexpr std::string_view kDropouts[] = {"aten.dropout", "aten.native_dropout"};
constexpr std::string_view kAttention = "aten.scaled_dot_product_attention";
constexpr size_t kAttentionDropout = 4;

constexpr int kSwitch = 2;  // operand of Dropout: training_mode

template <size_t N>
bool is_one_of(const TracedCall& call, const std::string_view (&ops)[N]) {
  return std::any_of(std::begin(ops), std::end(ops), [&](std::string_view op) { return call.is(op); });
}

bool is_true(const TracedCall& call, size_t argument) {
  return argument < call.arguments.size() && call.arguments[argument] == "True";
}

bool drops(const TracedCall& call) {
  if (call.is(kAttention)) return call.number(kAttentionDropout).value_or(0) > 0;
  return is_one_of(call, kDropouts) && call.number(1).value_or(0) > 0 && is_true(call, 2);
}

bool is_in_training(const NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& attribute) { return attribute.name() == "training_mode" && attribute.i() != 0; });
}

bool multiplies(const NodeProto& node) {
  const std::string& op = node.op_type();
  return op == "Conv" || op == "ConvTranspose" || op == "Gemm" || op == "MatMul";
}

}  // namespace

void TrainingMode::read(const NodeProto& node, const std::optional<TracedCall>& call) {
  if (node.op_type() == "Dropout") {
    const bool switched = node.input_size() > kSwitch && !node.input(kSwitch).empty();
    ++(switched ? switched_ : not_switched_);
  }
  if (call) read_call(node, *call);
}

void TrainingMode::read_call(const NodeProto& node, const TracedCall& call) {
  const auto of_call = [&](Calls& calls) -> Call& { return calls[std::hash<std::string_view>()(call.text)]; };
  const bool has_mode = is_one_of(call, kNormalisations);
  if (has_mode || call.is(kWithRunningStatistics)) {
    Call& found = of_call(normalisations_);
    found.asked = has_mode && is_true(call, kTraining);
    found.kept |= node.op_type() == "BatchNormalization" && is_in_training(node);
    found.folded |= multiplies(node);
  }
  if (drops(call)) of_call(dropouts_).kept |= node.op_type() == "Dropout";
}

void TrainingMode::note(ImportNotes& notes) const {
  size_t not_training = 0, folded = 0, not_dropped = 0;
  for (const auto& [key, call] : normalisations_) {
    not_training += call.asked && !call.kept;
    folded += !call.asked && call.folded;
  }
  for (const auto& [key, call] : dropouts_) not_dropped += !call.kept;
  const auto count = [](std::map<std::string, size_t>& into, const char* text, size_t calls) {
    if (calls > 0) into[text] = calls;
  };
  count(notes.counted_warnings,
        "normalisations of the exported program were in training mode, but the file has fixed statistics for them, or "
        "weights that these are folded into: it is an inference graph; torch.onnx.export with dynamo=False and "
        "training=TrainingMode.TRAINING writes what was asked for",
        not_training);
  count(notes.counted_warnings, "dropouts of the exported program are not in the file, which trains without them",
        not_dropped);
  if (switched_ > 0) {
    count(
        notes.counted_warnings,
        "Dropout nodes have no training_mode and are off, though others of the file have one: the exporter writes the "
        "dropout of attention so",
        not_switched_);
  }
  count(notes.counted_remarks,
        "normalisations were folded into weights by the exporter, which are trained instead of them", folded);
}

}  // namespace rannc::frontend
