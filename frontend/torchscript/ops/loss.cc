/// Translates losses that the program computes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "frontend/recipes/labels.h"
#include "frontend/torchscript/internal/dispatched.h"
#include "frontend/torchscript/internal/loss_parts.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

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
    const ValueId positive = call.cast(call.tensor("pos_weight"), dtype);
    const ValueId more = call.emit("mul", {call.emit("sub", {positive, one}), target});
    far = call.emit("mul", {call.emit("add", {more, one}), far});
  }
  const ValueId each = call.emit("add", {call.emit("mul", {call.emit("sub", {one, target}), x}), far});
  reduced(call, weighted ? call.emit("mul", {each, given[2]}) : each);
}

/// -(t log x + (1 - t) log(1 - x)), with logarithms of at least -100. ATen's gradient of x is that of no such formula
/// where x is almost 0 or 1, so that it is a factor here.
void bce(Call& call) {
  constexpr double kLeastLog = -100, kLeastSlope = 1e-12F;  // floats in ATen, also for doubles
  const bool weighted = call.has("weight");
  const auto given = weighted ? promoted(call, {"self", "target", "weight"}) : promoted(call, {"self", "target"});
  if (!call.good()) return;
  const ValueId x = given[0], target = given[1], one = call.scalar(1, call.dtype(x));
  const ValueId fixed = call.emit("stop_gradient", {x}), rest = call.emit("sub", {one, fixed});
  const auto log = [&](ValueId of) { return call.emit("clamp", {call.emit("log", {of})}, {{"min", kLeastLog}}); };
  const ValueId far = call.emit("mul", {call.emit("sub", {target, one}), log(rest)});
  const ValueId value = call.emit("sub", {far, call.emit("mul", {target, log(fixed)})});
  const ValueId slope = call.emit("clamp", {call.emit("mul", {rest, fixed})}, {{"min", kLeastSlope}});
  const ValueId gradient = call.emit("stop_gradient", {call.emit("div", {call.emit("sub", {fixed, target}), slope})});
  const ValueId zero = call.emit("sub", {x, fixed});
  const ValueId each = call.emit("add", {value, call.emit("mul", {gradient, zero})});
  reduced(call, weighted ? call.emit("mul", {each, given[2]}) : each);
}

/// t (log t - x), which is 0 where t is 0. With `log_target`, e^t (t - x).
void kl_div(Call& call) {
  const auto given = promoted(call, {"self", "target"});
  const bool is_log = call.has("log_target") && call.flag("log_target");
  if (!call.good()) return;
  const ValueId x = given[0], target = given[1];
  if (is_log) return reduced(call, call.emit("mul", {call.emit("exp", {target}), call.emit("sub", {target, x})}));
  const ValueId none = call.emit("eq", {target, call.scalar(0, call.dtype(x))});
  const ValueId log = call.emit("log", {call.emit("where", {none, call.scalar(1, call.dtype(x)), target})});
  reduced(call, call.emit("sub", {call.emit("mul", {target, log}), call.emit("mul", {target, x})}));
}

/// t log t - t + log(2 pi t) / 2, Stirling's log(t!), which is 0 up to 1. ATen converts integers for a logarithm.
ValueId log_factorial(Call& call, ValueId count) {
  if (call.good() && !ir::is_float(call.dtype(count))) count = call.cast(count, DType::kF32);
  if (!call.good()) return {};
  const auto number = [&](double value) { return call.scalar(value, call.dtype(count)); };
  const ValueId small = call.emit("le", {count, number(1)});
  const ValueId some = call.emit("where", {small, number(1), count});
  const ValueId power = call.emit("sub", {call.emit("mul", {some, call.emit("log", {some})}), some});
  const ValueId root =
      call.emit("mul", {call.emit("log", {call.emit("mul", {some, number(2 * std::numbers::pi)})}), number(0.5)});
  return call.emit("where", {small, number(0), call.emit("add", {power, root})});
}

/// e^x - t x, or x - t log(x + eps) of a rate, with the constant log(t!) if the loss is full.
void poisson_nll(Call& call) {
  const auto given = promoted(call, {"input", "target"});
  const bool is_log = call.flag("log_input"), full = call.flag("full");
  const double epsilon = call.number("eps");
  if (!call.good()) return;
  const ValueId x = given[0], target = given[1];
  const auto log = [&] { return call.emit("log", {call.emit("add", {x, call.scalar(epsilon, call.dtype(x))})}); };
  const ValueId rate = is_log ? call.emit("exp", {x}) : x;
  const ValueId each = call.emit("sub", {rate, call.emit("mul", {target, is_log ? x : log()})});
  if (!full || !call.good()) return reduced(call, each);
  const ValueId constant = call.cast(log_factorial(call, call.tensor("target")), call.dtype(x));
  reduced(call, call.emit("add", {each, constant}));
}

/// The argument, which may be a list of one length for each sequence, as a tensor.
ValueId lengths(Call& call, std::string_view name, const Dim& sequences) {
  if (!call.item(name).sequence()) return call.tensor(name);
  const Shape given = call.sizes(name);
  if (Dim(static_cast<int64_t>(given.size())) != sequences)
    call.fail(
        fmt::format("{}: {} lists the lengths of {} sequences, but log_probs has {}; state lengths as a tensor, or "
                    "inputs of {} samples",
                    call.schema(), name, given.size(), sequences.str(), given.size()));
  if (!call.good()) return {};
  const auto full = [&](const Dim& count, const Dim& value) {
    return call.emit("full", {}, {{"shape", Shape{count}}, {"value", value}, {"dtype", DType::kI64}});
  };
  const bool alike = std::all_of(given.begin(), given.end(), [&](const Dim& each) { return each == given.front(); });
  if (alike && !given.empty()) return full(sequences, given.front());
  std::vector<ValueId> parts;
  for (const Dim& each : given) parts.push_back(full(1, each));
  return call.emit("concat", parts, {{"axis", Dim(0)}});
}

/// LibTorch computes the loss of each sequence. The mean is that of losses per label of the target.
void ctc(Call& call) {
  const ValueId log = call.tensor("log_probs"), targets = call.tensor("targets");
  const Reduction how = reduction(call);
  const Shape* const shape = call.shape(log);
  // A single sequence has no axis of samples. Targets in a row belong to samples by their lengths.
  if (!shape || shape->size() != 3 || call.rank(targets) != 2) return call.use_dispatcher();
  const Dim sequences = (*shape)[1];
  const ValueId counts = lengths(call, "target_lengths", sequences);
  const ValueId places = lengths(call, "input_lengths", sequences);
  if (!call.good()) return;
  std::vector<Call::Argument> arguments = call.arguments();
  for (Call::Argument& each : arguments) {
    if (each.name == "target_lengths") each.item = Item(std::make_shared<Tensor>(counts));
    if (each.name == "input_lengths") each.item = Item(std::make_shared<Tensor>(places));
    if (each.name == "reduction") each.item = Item(Dim(static_cast<int64_t>(Reduction::kNone)));
  }
  Call each = call.another("aten::ctc_loss.Tensor", std::move(arguments));
  if (!dispatch(each)) return call.fail(*each.failure());
  ValueId losses = each.tensor(each.results()[0], "loss");
  if (how == Reduction::kMean) {
    const ValueId divisors = call.emit("clamp", {call.cast(counts, call.dtype(losses))}, {{"min", 1.0}});
    losses = call.emit("div", {losses, divisors});
  }
  reduced(call, losses);
}

}  // namespace

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
      {"binary_cross_entropy", bce},
      {"kl_div", kl_div},
      {"poisson_nll_loss", poisson_nll},
      {"ctc_loss", ctc},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
