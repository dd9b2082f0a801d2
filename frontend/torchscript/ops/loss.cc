/// Translates losses that the program computes.
#include <fmt/format.h>

#include <cmath>

#include "frontend/recipes/labels.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

enum class Reduction { kNone, kMean, kSum };

Reduction reduction(Call& call) {
  const int64_t given = call.has("reduction") ? call.integer("reduction") : 1;
  if (given < 0 || given > 2) call.fail(fmt::format("{}: reduction {} is unknown", call.schema(), given));
  return static_cast<Reduction>(given);
}

void reduced(Call& call, ValueId each) {
  const Reduction how = reduction(call);
  if (!call.good()) return;
  if (how == Reduction::kNone) return call.give(each);
  call.result(how == Reduction::kMean ? "mean" : "sum", {each}, {{"keepdim", false}});
}

/// The mean of losses of labels divides by the weight of the labels that count.
void give_sum(Call& call, ValueId sum, ClassLabels& classes, Reduction how, DType dtype) {
  if (!call.good()) return;
  if (how == Reduction::kSum) return call.give(sum);
  call.result("div", {sum, classes.divisor(dtype)});
}

double smoothing_of(Call& call) { return call.has("label_smoothing") ? call.number("label_smoothing") : 0; }

/// -sum of target * log softmax over the classes. The mean divides by the number of these sums.
void cross_entropy_of_probabilities(Call& call, ValueId logits, int64_t axis) {
  const ValueId target = call.cast(call.tensor("target"), call.dtype(logits));
  ValueId log = call.emit("log_softmax", {logits}, {{"axis", Dim(axis)}});
  log = weigh_classes(call, log, call.optional_tensor("weight"), axis);
  const ValueId sum = call.emit("sum", {call.emit("mul", {log, target})}, {{"axes", Shape{axis}}, {"keepdim", false}});
  ValueId each = call.emit("neg", {sum});
  if (const double smoothing = smoothing_of(call); smoothing != 0) each = smooth(call, each, log, axis, smoothing);
  reduced(call, each);
}

/// Emits the sum of -log softmax over axis 1, or over the only axis of vectors.
void cross_entropy(Call& call) {
  const ValueId logits = call.tensor("self");
  ValueId labels = call.tensor("target");
  const Reduction how = reduction(call);
  const int64_t rank = call.rank(logits);
  if (!call.good()) return;
  const int64_t axis = rank > 1 ? 1 : 0;
  if (ir::is_float(call.dtype(labels))) return cross_entropy_of_probabilities(call, logits, axis);
  labels = call.cast(labels, DType::kI64);
  const int64_t ignored = call.integer("ignore_index");
  const double smoothing = smoothing_of(call);
  const ValueId weights = call.optional_tensor("weight");
  if (!call.good()) return;
  ClassLabels classes(call, labels, ignored, weights);
  if (how == Reduction::kNone) {
    const ValueId log = call.emit("log_softmax", {logits}, {{"axis", Dim(axis)}});
    return call.give(classes.loss_of_each(log, axis, smoothing));
  }
  give_sum(call, classes.cross_entropy(logits, axis, smoothing), classes, how, call.dtype(logits));
}

/// Emits the negative log probability of each label.
void nll(Call& call) {
  const ValueId log = call.tensor("self");
  const ValueId labels = call.cast(call.tensor("target"), DType::kI64);
  const Reduction how = reduction(call);
  const int64_t rank = call.rank(log), ignored = call.integer("ignore_index");
  const ValueId weights = call.optional_tensor("weight");
  if (!call.good()) return;
  const int64_t axis = rank > 1 ? 1 : 0;
  constexpr ir::Capture kLogits{0};
  ClassLabels classes(call, labels, ignored, weights);
  if (how == Reduction::kNone) return call.give(classes.loss_of_each(log, axis));
  const auto behind = call.match(log, ir::op("log_softmax", ir::any(kLogits)).with("axis", Dim(axis)));
  const ValueId sum = behind ? classes.cross_entropy((*behind)[kLogits], axis)
                             : call.emit("sum", {classes.loss_of_each(log, axis)}, {{"keepdim", false}});
  give_sum(call, sum, classes, how, call.dtype(log));
}

void mse(Call& call) {
  const ValueId difference = call.emit("sub", promoted(call, {"self", "target"}));
  reduced(call, call.emit("mul", {difference, difference}));
}

void l1(Call& call) { reduced(call, call.emit("abs", {call.emit("sub", promoted(call, {"self", "target"}))})); }

/// Half the square below a bound, linear beyond it. `smooth_l1` is that divided by the bound.
template <bool smooth>
void huber(Call& call) {
  const ValueId size = call.emit("abs", {call.emit("sub", promoted(call, {"self", "target"}))});
  const double bound = call.number(smooth ? "beta" : "delta");
  if (!call.good()) return;
  const DType dtype = call.dtype(size);
  if (bound == 0) return reduced(call, size);
  const auto number = [&](double value) { return call.scalar(value, dtype); };
  const ValueId square = call.emit("mul", {call.emit("mul", {size, size}), number(smooth ? 0.5 / bound : 0.5)});
  ValueId line = call.emit("sub", {size, number(bound / 2)});
  if (!smooth) line = call.emit("mul", {line, number(bound)});
  reduced(call, call.emit("where", {call.emit("lt", {size, number(bound)}), square, line}));
}

/// (1 - t) x + (1 + (w - 1) t) log(1 + e^-x)
void bce_with_logits(Call& call) {
  const bool weighted = call.has("weight");
  const auto given = weighted ? promoted(call, {"self", "target", "weight"}) : promoted(call, {"self", "target"});
  if (!call.good()) return;
  const ValueId x = given[0], target = given[1];
  const DType dtype = call.dtype(x);
  const ValueId one = call.scalar(1, dtype);
  ValueId far = call.emit("softplus", {call.emit("neg", {x})});
  if (call.has("pos_weight")) {
    const ValueId more = call.emit("mul", {call.emit("sub", {call.tensor("pos_weight"), one}), target});
    far = call.emit("mul", {call.emit("add", {more, one}), far});
  }
  const ValueId each = call.emit("add", {call.emit("mul", {call.emit("sub", {one, target}), x}), far});
  reduced(call, weighted ? call.emit("mul", {each, given[2]}) : each);
}

}  // namespace

std::span<const Translator> loss_translators() {
  static constexpr Translator kTable[] = {
      {"cross_entropy_loss", cross_entropy},
      {"nll_loss", nll},
      {"nll_loss_nd", nll},
      {"nll_loss2d", nll},
      {"mse_loss", mse},
      {"l1_loss", l1},
      {"huber_loss", huber<false>},
      {"smooth_l1_loss", huber<true>},
      {"binary_cross_entropy_with_logits", bce_with_logits},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
