// What the rules of fusions share.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

double rounded(double number, DType dtype) {
  const double numbers[] = {number};
  return decode_numbers({dtype, Shape{}, {}, {}}, encode_numbers(dtype, numbers), 1).value().front();
}

bool is_near(double found, double meant, DType dtype) {
  constexpr double kTwoUnits = 2 * std::numeric_limits<double>::epsilon();
  if (dtype == DType::kF64) return std::abs(found - meant) <= kTwoUnits * std::abs(meant);
  return rounded(found, dtype) == rounded(meant, dtype);
}

}  // namespace

bool makes_result(const Match& match, std::string_view op, const std::vector<const ValueType*>& operands,
                  const Attributes& attributes) {
  const Graph& graph = match.graph();
  const auto types = types_of({core(op), operands, attributes, graph.batch_symbol()});
  if (!types.ok() || types->empty()) return false;
  const ValueType &made = types->front(), &wanted = graph.type(match[kResult]);
  return made.dtype == wanted.dtype && made.shape == wanted.shape && made.batch == wanted.batch;
}

bool outlives(const Match& match, Capture place) {
  const TaskId maker = match.graph().producer(match[place]);
  return std::find(match.tasks().begin(), match.tasks().end(), maker) == match.tasks().end();
}

Rewrite rule(std::string name, const Pattern& pattern, const Becomes& becomes) {
  const auto attributes = [becomes](const Match& match) {
    return becomes.attributes ? becomes.attributes(match) : Attributes();
  };
  const auto holds = [becomes, attributes](const Match& match) {
    std::vector<const ValueType*> operands;
    for (const Capture place : becomes.operands) {
      if (!match.has(place)) continue;
      if (!outlives(match, place)) return false;
      operands.push_back(&match.graph().type(match[place]));
    }
    return makes_result(match, becomes.op, operands, attributes(match));
  };
  const auto build = [becomes, attributes](const Match& match, Builder& make) {
    std::vector<ValueId> operands;
    for (const Capture place : becomes.operands) {
      if (match.has(place)) operands.push_back(make[place]);
    }
    return make.result(becomes.op, operands, attributes(match));
  };
  return {std::move(name), either({pattern}).as(kResult).where(holds), build};
}

Pattern number(Capture place, double meant, Near near) {
  return constant(place).where([place, meant, near](const Match& match) {
    const DType dtype = match.graph().type(match[place]).dtype;
    if (!is_float(dtype)) return match.number(place) == meant;
    const bool coarser = near == Near::kAsFloat && dtype == DType::kF64;
    return is_near(match.number(place), meant, coarser ? DType::kF32 : dtype);
  });
}

std::vector<int64_t> order_of(const Graph& graph, TaskId permute) {
  std::vector<int64_t> order = graph.attributes(permute).integers("dims");
  for (int64_t& axis : order) axis = from_front(axis, order.size());
  return order;
}

std::optional<int64_t> last_axes(const Match& match, Capture reduced, Capture x) {
  const Graph& graph = match.graph();
  const auto& shape = graph.type(match[x]).shape;
  if (!shape || shape->empty()) return std::nullopt;
  const OpAttributes attributes(graph.op(match.task(reduced)), match.attributes(reduced));
  if (!attributes.flag("keepdim") || !match.attributes(reduced).find("axes")) return std::nullopt;
  const auto rank = static_cast<int64_t>(shape->size());
  std::set<int64_t> axes;
  for (const int64_t axis : attributes.integers("axes")) axes.insert(from_front(axis, shape->size()));
  if (axes.empty() || *axes.rbegin() != rank - 1 || *axes.begin() < 0) return std::nullopt;
  const bool in_a_row = *axes.begin() == rank - static_cast<int64_t>(axes.size());
  return in_a_row ? std::optional(*axes.begin()) : std::nullopt;
}

bool has_sizes_from(const Graph& graph, ValueId value, ValueId x, int64_t axis) {
  const auto &sizes = graph.type(value).shape, &shape = graph.type(x).shape;
  return sizes && shape && *sizes == Shape(shape->begin() + axis, shape->end());
}

}  // namespace rannc::passes::fusion
