#include "frontend/onnx/internal/state/training_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "frontend/onnx/internal/model/module_paths.h"
#include "ir/match/match.h"
#include "ir/state/name_source.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::NodeProto;

namespace {

constexpr std::string_view kNormalisations[] = {"aten.batch_norm", "aten.native_batch_norm",
                                                "aten._native_batch_norm_legit",
                                                "aten._native_batch_norm_legit_functional"};
constexpr std::string_view kWithRunningStatistics = "aten._native_batch_norm_legit_no_training";
constexpr size_t kTraining = 5;  // argument index in all of them

constexpr std::string_view kDropouts[] = {"aten.dropout", "aten.native_dropout"};
constexpr std::string_view kAttention = "aten.scaled_dot_product_attention";
constexpr size_t kAttentionDropout = 4;

/// Reads of copies that `contiguous` makes.
constexpr std::string_view kReshapes[] = {"aten.view", "aten._unsafe_view", "aten.reshape"};

constexpr int kRatio = 1, kSwitch = 2;  // operands of Dropout

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

/// Whether the exporter computed an operand of a convolution from state.
bool is_folded(const NodeProto& node, int operand) {
  return node.input_size() > operand && ir::is_folded(node.input(operand)) &&
         ir::reader_of_folded(node.input(operand)).starts_with("Conv");
}

/// Returns the ratio of an enabled dropout node. Nothing if it is unknown before the model runs.
std::optional<double> share(const TrainingMode::Place& place) {
  constexpr double kDefault = 0.5;
  for (const auto& attribute : place.node.attribute()) {
    if (attribute.name() == "ratio") return attribute.f();
  }
  if (place.operands.size() <= kRatio || !place.operands[kRatio].valid()) return kDefault;
  return ir::scalar_constant(place.graph, place.operands[kRatio]);
}

/// Joins names, truncating a long list.
std::string listed(const std::set<std::string>& names) {
  constexpr size_t kMost = 3;
  std::string text;
  size_t shown = 0;
  for (const std::string& name : names) {
    if (shown == kMost) return text + ", ...";
    text += (shown++ == 0 ? "" : ", ") + name;
  }
  return text;
}

}  // namespace

void TrainingMode::read(const Place& place, const std::optional<TracedCall>& call) {
  if (place.node.op_type() == "Dropout") read_dropout(place);
  if (call) return read_call(place, *call);
  const std::string& op = place.node.op_type();
  const bool convolves = op == "Conv" || op == "ConvTranspose";
  if (convolves && is_folded(place.node, 1) && is_folded(place.node, 2)) folded_weights_.insert(place.node.input(1));
}

/// Inference operators before opset 12.
void TrainingMode::read_dropout(const Place& place) {
  constexpr int kFirstSwitched = 12;
  const bool switched =
      place.opset >= kFirstSwitched && place.operands.size() > kSwitch && place.operands[kSwitch].valid();
  const auto mode = switched ? ir::scalar_constant(place.graph, place.operands[kSwitch]) : std::optional(0.0);
  const auto drop = share(place);
  if (!mode || !drop || !(*drop > 0 && *drop < 1)) return;  // rejected during translation, or no dropout
  if (*mode != 0) {
    ++on_;
  } else if (!place.result.empty()) {
    off_.emplace(place.result, *drop);
  }
}

void TrainingMode::read_copies(const Place& place, const TracedCall& call) {
  if (is_one_of(call, kReshapes)) return;
  for (const std::string_view value : call.values()) {
    if (ir::traced_op(value) == "clone" && copies_.emplace(value).second) copied_to_.insert(module_path(place.node));
  }
}

void TrainingMode::read_call(const Place& place, const TracedCall& call) {
  const NodeProto& node = place.node;
  read_copies(place, call);
  const size_t key = std::hash<std::string_view>()(call.text);
  const bool has_mode = is_one_of(call, kNormalisations);
  if (has_mode || call.is(kWithRunningStatistics)) {
    Normalisation& found = normalisations_[key];
    found.requested = has_mode && is_true(call, kTraining);
    found.kept |= node.op_type() == "BatchNormalization" && is_in_training(node);
    found.folded |= multiplies(node);
    if (multiplies(node)) found.module = module_path(node);
    if (node.op_type() == "BatchNormalization") found.result = place.result;
  }
  if (!drops(call)) return;
  Dropout& found = dropouts_[key];
  const bool attends = call.is(kAttention);
  found.kept |= node.op_type() == "Dropout";
  found.drop = call.number(attends ? kAttentionDropout : 1).value_or(0);
  if (!attends && node.op_type() == "Identity") found.value = place.result;
  // The last product of attention multiplies the weights, whose elements are dropped, by the values.
  if (found.weighted && node.op_type() == "MatMul" && place.operands[0].valid()) {
    found.value = place.graph.value(place.operands[0]).name;
  }
  found.weighted |= node.op_type() == "Softmax";
}

void TrainingMode::note(const std::string& file, ImportNotes& notes) const {
  note_normalisations(file, notes);
  note_dropouts(file, notes);
}

void TrainingMode::note_normalisations(const std::string& file, ImportNotes& notes) const {
  size_t lost = 0, folded = 0;
  std::set<std::string> modules;
  for (const auto& [key, call] : normalisations_) {
    const bool fixed = call.requested && !call.kept && !call.result.empty();
    if (fixed) notes.training.normalised.insert(call.result);
    lost += call.requested && !call.kept && !fixed;
    folded += !call.requested && call.folded;
    if (!call.requested && call.folded) modules.insert(call.module);
  }
  if (lost > 0) {
    notes.counted_warnings
        ["normalizations of the exported program were in training mode, but the file has them folded into weights, "
         "with fixed statistics: it is an inference graph; torch.onnx.export with dynamo=False and "
         "training=TrainingMode.TRAINING keeps training mode"] = lost;
  }
  if (folded > 0) {
    notes.warnings.push_back({{file, 0, 0, {}},
                              fmt::format("{} normalizations were folded into weights by the exporter ({}), which are "
                                          "trained instead: torch.onnx.export(optimize=False) keeps them",
                                          folded, listed(modules))});
  }
  if (folded_weights_.empty()) return;
  notes.warnings.push_back({{file, 0, 0, {}},
                            fmt::format("{} convolutions have weights and biases with generated names ({}), as if the "
                                        "exporter folded a normalization into them: they are trained as they are; "
                                        "torch.onnx.export with training=TrainingMode.PRESERVE keeps normalizations",
                                        folded_weights_.size(), listed(folded_weights_))});
}

void TrainingMode::note_dropouts(const std::string& file, ImportNotes& notes) const {
  for (const auto& [value, drop] : off_) notes.training.dropouts.emplace(value, ir::LostDropout{drop, on_ > 0});
  size_t lost = 0;
  for (const auto& [key, call] : dropouts_) {
    if (call.kept) continue;
    lost += call.value.empty();
    if (!call.value.empty()) notes.training.dropouts.emplace(call.value, ir::LostDropout{call.drop, true});
  }
  if (lost > 0)
    notes.counted_warnings["dropouts of the exported program are not in the file, which trains without them"] = lost;
  const bool trained = on_ > 0 || !dropouts_.empty() ||
                       std::any_of(normalisations_.begin(), normalisations_.end(),
                                   [](const auto& entry) { return entry.second.requested; });
  if (copies_.empty() || trained) return;
  notes.open.push_back(
      {{file, 0, 0, {}},
       fmt::format("{} values may be results of dropouts that were off in the export, or copies (read by {}): the file "
                   "does not tell which, and trains without dropout; export the model after model.train() to keep it, "
                   "or insert it by --dropout PATTERN=RATIO",
                   copies_.size(), listed(copied_to_))});
}

}  // namespace rannc::frontend
