#include "passes/training/internal/written_batch_norm.h"

#include <array>
#include <optional>

#include "ir/graph/per_channel.h"
#include "ir/match/rewrite_patterns.h"

namespace rannc::passes {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0}, kMean{1}, kVariance{2}, kScale{3}, kBias{4}, kEpsilon{5};
// As they meet x, or what was made of it.
constexpr Capture kMeanThere{6}, kRootThere{7}, kScaleThere{8}, kBiasThere{9};
constexpr Capture kFactor{10};

const Ops& views() {
  static const Ops kViews{"identity", "reshape", "unsqueeze", "squeeze"};
  return kViews;
}

Pattern stored(Capture place) {
  return through(views(), either({of_kind(ValueKind::kConstant, place), of_kind(ValueKind::kBuffer, place),
                                  of_kind(ValueKind::kParameter, place)}));
}

Pattern root() {
  const Pattern raised = commutative(op("add", stored(kVariance), constant(kEpsilon)));
  return op("sqrt", through(views(), raised));
}

Pattern inverse_root() {
  const Pattern raised = through(views(), commutative(op("add", stored(kVariance), constant(kEpsilon))));
  return either({op("rsqrt", raised), op("reciprocal", root()), op("div", constant(1.0), root())});
}

Pattern seen(const Pattern& pattern, Capture there) { return through(views(), pattern).as(there); }

bool normalises_channels(const Match& match) {
  const Graph& graph = match.graph();
  const ValueType& x = graph.type(match[kX]);
  if (!x.shape || x.shape->size() < 2 || !is_float(x.dtype) || x.batch.axis > 0) return false;
  for (const Capture place : {kMean, kVariance, kScale, kBias}) {
    const ValueType& type = graph.type(match[place]);
    if (type.dtype != x.dtype || type.shape != Shape{(*x.shape)[1]}) return false;
  }
  for (const Capture place : {kMeanThere, kRootThere, kScaleThere, kBiasThere}) {
    if (match.has(place) && !is_per_channel(graph, match[place], *x.shape)) return false;
  }
  return true;
}

/// (x - m) / sqrt(v + e) * w + b, where the quotient and w may be multiplied first.
Pattern centred_first() {
  const Pattern centred = op("sub", any(kX), seen(stored(kMean), kMeanThere));
  const Pattern scale = seen(stored(kScale), kScaleThere), bias = seen(stored(kBias), kBiasThere);
  const Pattern factor = commutative(op("mul", stored(kScale), through(views(), inverse_root())));
  const Pattern scaled = either({
      commutative(op("mul", commutative(op("mul", centred, seen(inverse_root(), kRootThere))), scale)),
      commutative(op("mul", op("div", centred, seen(root(), kRootThere)), scale)),
      commutative(op("mul", centred, seen(factor, kScaleThere))),
  });
  return commutative(op("add", scaled, bias)).where(normalises_channels);
}

/// x * s + (b - m * s) with s = w / sqrt(v + e).
Pattern scaled_first() {
  const Pattern factor = commutative(op("mul", stored(kScale), through(views(), inverse_root())));
  const Pattern scaled = commutative(op("mul", any(kX), seen(factor.as(kFactor), kScaleThere)));
  const Pattern again = commutative(op("mul", stored(kMean), through(views(), op("mul").as(kFactor))));
  const Pattern shift = op("sub", stored(kBias), through(views(), again));
  return commutative(op("add", scaled, seen(shift, kBiasThere))).where(normalises_channels);
}

std::vector<ValueId> build(const Match& match, Builder& make) {
  return make.result("batch_norm", {make[kX], make[kScale], make[kBias], make[kMean], make[kVariance]},
                     {{"epsilon", match.number(kEpsilon)}, {"momentum", 0.1}, {"training", false}});
}

std::array<Rewrite, 2> rules(const std::function<bool(TaskId)>& wanted) {
  const auto selected = [wanted](const Match& match) { return wanted(match.tasks()[0]); };
  return {Rewrite{"centred-first", centred_first().where(selected), build},
          Rewrite{"scaled-first", scaled_first().where(selected), build}};
}

}  // namespace

size_t recognise_batch_norms(Graph& graph, const std::function<bool(TaskId)>& wanted) {
  return rewrite(graph, rules(wanted), 1).total();
}

std::vector<TaskId> written_batch_norms(const Graph& graph) {
  std::vector<TaskId> found;
  static const Ops kAdd{"add"};
  const std::array patterns = {centred_first(), scaled_first()};
  for (const TaskId task : graph.tasks()) {
    if (!kAdd.contains(graph.op(task))) continue;
    if (match(graph, task, patterns[0]) || match(graph, task, patterns[1])) found.push_back(task);
  }
  return found;
}

}  // namespace rannc::passes
