/// Translates losses that compare distances, scores or labels with a margin.
#include <fmt/format.h>

#include "frontend/torchscript/internal/loss_parts.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

ValueId constant_like(Call& call, double value, ValueId x) { return call.scalar(value, call.dtype(x)); }

double margin_of(Call& call, double otherwise) { return call.has("margin") ? call.number("margin") : otherwise; }

/// x where it is positive, else 0. As in ATen's decompositions, the gradient passes at 0.
ValueId positive_part(Call& call, ValueId x) { return call.emit("clamp", {x}, {{"min", 0.0}}); }

/// Whether elements are `label`.
ValueId are(Call& call, ValueId target, double label) {
  return call.emit("eq", {target, constant_like(call, label, target)});
}

ValueId zero_unless(Call& call, ValueId condition, ValueId x) {
  return call.emit("where", {condition, x, constant_like(call, 0, x)});
}

ir::Attributes along(int64_t axis, bool keepdim = false) { return {{"axes", Shape{axis}}, {"keepdim", keepdim}}; }

/// |a - b + eps|_p over the last axis.
ValueId distance(Call& call, ValueId a, ValueId b, bool keepdim = false) {
  const double p = call.has("p") ? call.number("p") : 2, epsilon = call.has("eps") ? call.number("eps") : 1e-6;
  const ValueId apart = call.emit("sub", {a, b});
  const int64_t rank = call.rank(apart);
  if (!call.good()) return {};
  const ValueId shifted = call.emit("add", {apart, constant_like(call, epsilon, apart)});
  return p_norm(call, shifted, p, along(rank - 1, keepdim));
}

void pairwise_distance(Call& call) {
  const auto both = promoted(call, {"x1", "x2"});
  if (!call.good()) return;
  const ValueId apart = distance(call, both[0], both[1], call.has("keepdim") && call.flag("keepdim"));
  if (call.good()) call.give(apart);
}

/// The distance to the positive less that to the negative, or less that between both if the call swaps and it is less.
void triplet_margin(Call& call) {
  const auto given = promoted(call, {"anchor", "positive", "negative"});
  const double margin = margin_of(call, 1);
  if (!call.good()) return;
  const ValueId near = distance(call, given[0], given[1]);
  ValueId far = distance(call, given[0], given[2]);
  if (call.has("swap") && call.flag("swap")) far = call.emit("minimum", {far, distance(call, given[1], given[2])});
  if (!call.good()) return;
  const ValueId excess = call.emit("sub", {call.emit("add", {near, constant_like(call, margin, near)}), far});
  reduced(call, positive_part(call, excess));
}

/// 1 - cos of pairs labeled 1, and the positive part of cos - margin of pairs labeled -1. Others count as 0.
void cosine_embedding(Call& call) {
  constexpr double kEpsilon = 1e-12F;  // ATen's own, a float also for doubles
  const auto given = promoted(call, {"input1", "input2"});
  const ValueId target = call.tensor("target");
  const double margin = margin_of(call, 0);
  const int64_t axis = call.rank(target);
  if (!call.good()) return;
  const auto product = [&](ValueId a, ValueId b) { return call.emit("sum", {call.emit("mul", {a, b})}, along(axis)); };
  const auto square = [&](ValueId x) {
    const ValueId sum = product(x, x);
    return call.emit("add", {sum, constant_like(call, kEpsilon, x)});
  };
  const ValueId sizes = call.emit("sqrt", {call.emit("mul", {square(given[0]), square(given[1])})});
  const ValueId cosine = call.emit("div", {product(given[0], given[1]), sizes});
  if (!call.good()) return;
  const ValueId apart = call.emit("sub", {constant_like(call, 1, cosine), cosine});
  const ValueId close = positive_part(call, call.emit("sub", {cosine, constant_like(call, margin, cosine)}));
  const ValueId alike = zero_unless(call, are(call, target, 1), apart);
  reduced(call, call.emit("add", {alike, zero_unless(call, are(call, target, -1), close)}));
}

void margin_ranking(Call& call) {
  const auto given = promoted(call, {"input1", "input2", "target"});
  const double margin = margin_of(call, 0);
  if (!call.good()) return;
  const ValueId less = call.emit("mul", {call.emit("neg", {given[2]}), call.emit("sub", {given[0], given[1]})});
  reduced(call, positive_part(call, call.emit("add", {less, constant_like(call, margin, less)})));
}

/// x, except where labeled -1, and the positive part of margin - x, except where labeled 1.
void hinge_embedding(Call& call) {
  const ValueId x = call.tensor("self"), target = call.tensor("target");
  const double margin = margin_of(call, 1);
  if (!call.good()) return;
  const ValueId below = positive_part(call, call.emit("sub", {constant_like(call, margin, x), x}));
  const auto unless = [&](double label, ValueId value) {
    return zero_unless(call, call.emit("logical_not", {are(call, target, label)}), value);
  };
  reduced(call, call.emit("add", {unless(1, below), unless(-1, x)}));
}

/// log(1 + e^(-target x))
void soft_margin(Call& call) {
  const auto given = promoted(call, {"self", "target"});
  if (!call.good()) return;
  reduced(call, call.emit("softplus", {call.emit("neg", {call.emit("mul", given)})}));
}

/// Scores of classes on the last axis, for labels.
struct Scores {
  ValueId x;
  int64_t axis;
  Dim classes;
};
std::optional<Scores> scores(Call& call) {
  const ValueId x = call.tensor("self");
  const Shape* const shape = call.shape(x);
  if (!shape || !call.good()) return std::nullopt;
  if (shape->empty() || shape->size() > 2) {
    call.fail(fmt::format("{}: scores {} must be [classes] or [samples, classes]", call.schema(), ir::str(*shape)));
    return std::nullopt;
  }
  return Scores{x, static_cast<int64_t>(shape->size()) - 1, shape->back()};
}

ValueId numbers_of_classes(Call& call, const Dim& classes) {
  return call.emit("range", {}, {{"start", Dim(0)}, {"limit", classes}, {"delta", Dim(1)}, {"dtype", DType::kI64}});
}

/// The mean over all classes of (margin - x of the label + x of the class)^p, where positive, without the label's own.
void multi_margin(Call& call) {
  const auto given = scores(call);
  const double power = call.has("p") ? call.number("p") : 1, margin = margin_of(call, 1);
  const ValueId labels = call.cast(call.tensor("target"), DType::kI64), weights = call.optional_tensor("weight");
  if (!given || !call.good()) return;
  if (power != 1 && power != 2) return call.fail(fmt::format("{}: p is {}; expected 1 or 2", call.schema(), power));
  const ValueId column = call.emit("unsqueeze", {labels}, {{"axes", Shape{given->axis}}});
  const ValueId own = call.emit("gather_elements", {given->x, column}, {{"axis", Dim(given->axis)}});
  const ValueId less = call.emit("sub", {constant_like(call, margin, given->x), own});
  ValueId excess = call.emit("relu", {call.emit("add", {less, given->x})});
  if (power == 2) excess = call.emit("mul", {excess, excess});
  const ValueId others = call.emit("ne", {numbers_of_classes(call, given->classes), column});
  ValueId each = call.emit("mean", {zero_unless(call, others, excess)}, along(given->axis));
  if (weights.valid()) {
    // Without a gradient: otherwise the lookup would make the weights a trained table.
    const ValueId table = call.emit("stop_gradient", {weights});
    each = call.emit("mul", {each, call.emit("gather", {table, labels}, {{"axis", Dim(0)}})});
  }
  reduced(call, each);
}

/// Each row of the target lists labels up to its first negative number. The sum over labels and classes that are no
/// label of 1 - x of the label + x of the class, where positive, over the number of classes.
void multilabel_margin(Call& call) {
  const auto given = scores(call);
  const ValueId target = call.cast(call.tensor("target"), DType::kI64);
  if (!given || !call.good()) return;
  const int64_t axis = given->axis;
  const auto column = [&](ValueId value) { return call.emit("unsqueeze", {value}, {{"axes", Shape{axis + 1}}}); };
  const auto row = [&](ValueId value) { return call.emit("unsqueeze", {value}, {{"axes", Shape{axis}}}); };
  const ValueId zero = call.scalar(0, DType::kI64);
  const ValueId ends = call.emit("cast", {call.emit("lt", {target, zero})}, {{"dtype", DType::kI64}});
  const ValueId counted = call.emit("eq", {call.emit("cumsum", {ends}, {{"axis", Dim(axis)}}), zero});
  const ValueId places = call.emit("where", {counted, target, zero});
  const ValueId same = call.emit("eq", {column(places), numbers_of_classes(call, given->classes)});
  const ValueId hits = call.emit("cast", {call.emit("logical_and", {column(counted), same})}, {{"dtype", DType::kI64}});
  const ValueId others = call.emit("eq", {call.emit("sum", {hits}, along(axis)), zero});
  const ValueId own = call.emit("gather_elements", {given->x, places}, {{"axis", Dim(axis)}});
  const ValueId less = call.emit("sub", {constant_like(call, 1, given->x), column(own)});
  const ValueId excess = call.emit("relu", {call.emit("add", {less, row(given->x)})});
  const ValueId pairs = call.emit("logical_and", {column(counted), row(others)});
  const ValueId of_labels = call.emit("mean", {zero_unless(call, pairs, excess)}, along(axis + 1));
  reduced(call, call.emit("sum", {of_labels}, along(axis)));
}

}  // namespace

std::span<const Translator> margin_loss_translators() {
  static constexpr Translator kTable[] = {
      {"pairwise_distance", pairwise_distance},    {"triplet_margin_loss", triplet_margin},
      {"cosine_embedding_loss", cosine_embedding}, {"margin_ranking_loss", margin_ranking},
      {"hinge_embedding_loss", hinge_embedding},   {"soft_margin_loss", soft_margin},
      {"multi_margin_loss", multi_margin},         {"multilabel_margin_loss", multilabel_margin},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
