#include "frontend/onnx/internal/control/written_out.h"

#include <algorithm>
#include <array>

#include "ir/graph/constant.h"
#include "ir/graph/per_channel.h"
#include "ir/match/rewrite_patterns.h"
#include "ir/op/op.h"

namespace rannc::frontend {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0}, kRows{1}, kNormal{2}, kScale{3}, kBias{4}, kResult{5};

bool is_everywhere(const Graph& graph, ValueId value, double number) {
  constexpr int64_t kMost = 1 << 16;
  const Graph::Value& found = graph.value(value);
  if (found.kind != ValueKind::kConstant || !found.data.present()) return false;
  const auto numbers = decode_numbers(found.type, found.data, kMost);
  return numbers.ok() && std::all_of(numbers->begin(), numbers->end(), [&](double each) { return each == number; });
}

/// Whether [N, C, …] is reshaped to [N, groups, rest], with each group as an instance, and back.
bool lays_groups_apart_and_back(const Match& match) {
  const Graph& graph = match.graph();
  const auto &x = graph.type(match[kX]).shape, &rows = graph.type(match[kRows]).shape;
  if (!x || !rows || x->size() < 2 || rows->size() != 3 || graph.type(match[kResult]).shape != x) return false;
  const Dim groups = match.attributes(kNormal).integer("groups");
  const bool apart = (*rows)[0] == (*x)[0] && (*rows)[1] == groups;
  return apart && (*x)[1].is_constant() && (*x)[1].constant() % groups.constant() == 0 &&
         is_everywhere(graph, match[kScale], 1) && is_everywhere(graph, match[kBias], 0);
}

bool scales_channels(const Match& match) {
  const Graph& graph = match.graph();
  const auto& x = graph.type(match[kX]).shape;
  return x && is_per_channel(graph, match[kScale], *x) && is_per_channel(graph, match[kBias], *x);
}

ValueId flat(Builder& make, Capture place, const Dim& channels) {
  return make.emit("reshape", {make[place]}, {{"shape", Shape{channels}}});
}

Rewrite groups_as_instances() {
  const Pattern rows = op("reshape", any(kX)).as(kRows);
  const Pattern normal = op("group_norm", rows, any(kScale), any(kBias)).as(kNormal);
  return {"groups-as-instances", op("reshape", normal).as(kResult).where(lays_groups_apart_and_back),
          [](const Match& match, Builder& make) {
            return make.result("group_norm", {make[kX]}, match.attributes(kNormal));
          }};
}

Rewrite scaled_groups() {
  const Pattern normal = op("group_norm", any(kX)).as(kNormal);
  const Pattern scaled = commutative(op("mul", normal, any(kScale)));
  return {"scaled-groups", commutative(op("add", scaled, any(kBias))).where(scales_channels),
          [](const Match& match, Builder& make) {
            const Dim channels = (*match.graph().type(match[kX]).shape)[1];
            const ValueId scale = flat(make, kScale, channels), bias = flat(make, kBias, channels);
            return make.result("group_norm", {make[kX], scale, bias}, match.attributes(kNormal));
          }};
}

Rewrite softmax_of_hidden_rows() {
  const Pattern rows = op("softmax", any(kX)).as(kNormal);
  return {"softmax-of-hidden-rows", op("where", op("isnan", rows), constant(0.0), same(kNormal)),
          [](const Match& match, Builder& make) {
            Attributes softmax = match.attributes(kNormal);
            softmax.set("hidden_rows", "zero");
            return make.result("softmax", {make[kX]}, std::move(softmax));
          }};
}

// --- indices of maxima within their planes

constexpr Capture kPlaces{0}, kFirst{1}, kOffset{2}, kOwn{3}, kPart{4}, kDifference{5};

/// Whether two values are computed identically from the same values by at most a few tasks.
bool are_alike(const Graph& graph, ValueId a, ValueId b, int tasks = 8) {
  if (a == b) return true;
  const TaskId x = graph.producer(a), y = graph.producer(b);
  if (!x.valid() || !y.valid() || tasks == 0 || &graph.op(x) != &graph.op(y)) return false;
  const auto of_x = graph.inputs(x), of_y = graph.inputs(y);
  if (!(graph.attributes(x) == graph.attributes(y)) || of_x.size() != of_y.size() || graph.outputs(x).size() != 1) {
    return false;
  }
  for (size_t i = 0; i < of_x.size(); ++i) {
    if (of_x[i].valid() != of_y[i].valid()) return false;
    if (of_x[i].valid() && !are_alike(graph, of_x[i], of_y[i], tasks - 1)) return false;
  }
  return true;
}

/// Whether this is the first element of each plane, whose index is 0 if each window is one element.
bool is_first_of_planes(const Match& match) {
  const Graph& graph = match.graph();
  const Attributes &slice = match.attributes(kPart), &pool = match.attributes(kOwn);
  const auto& from = graph.type(match[kOwn]).shape;
  const auto& to = graph.type(match[kPart]).shape;
  const Shape *const starts = slice.list("starts"), *const steps = slice.list("steps");
  if (!from || !to || !starts || from->size() < 3) return false;
  const auto is_zero = [](const Dim& dim) { return dim == Dim(0); };
  const auto is_one = [](const Dim& dim) { return dim == Dim(1); };
  if (!std::all_of(starts->begin(), starts->end(), is_zero)) return false;
  if (steps && !std::all_of(steps->begin(), steps->end(), is_one)) return false;
  if (!std::all_of(to->begin() + 2, to->end(), is_one)) return false;
  const std::vector<int64_t> kernel = pool.integers("kernel"), pads = pool.integers("pads");
  return std::equal(from->begin(), from->begin() + 2, to->begin()) &&
         std::all_of(kernel.begin(), kernel.end(), [](int64_t k) { return k == 1; }) &&
         std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
}

/// ONNX counts indices of maxima through all planes. Exporters subtract the indices of one-element windows to get
/// indices within each plane.
Rewrite places_in_planes() {
  const Pattern own = through("identity", op("add", op("max_pool").output(1).as(kOwn), any(kFirst)));
  const Pattern all = through("identity", op("add", any(kPlaces), any(kOffset)));
  const Pattern taken = op("slice", own).as(kPart).where(is_first_of_planes);
  const auto leaves_the_places = [](const Match& match) {
    const Graph& graph = match.graph();
    return graph.type(match[kDifference]) == graph.type(match[kPlaces]) &&
           are_alike(graph, match[kOffset], match[kFirst]);
  };
  return {"places-in-planes", op("sub", all, taken).as(kDifference).where(leaves_the_places),
          [](const Match&, Builder& make) { return make.result("identity", {make[kPlaces]}); }};
}

}  // namespace

void recognise_written_out(Graph& graph) {
  const std::array rules = {groups_as_instances(), scaled_groups(), softmax_of_hidden_rows(), places_in_planes()};
  rewrite(graph, rules);
}

}  // namespace rannc::frontend
