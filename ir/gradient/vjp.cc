#include "ir/gradient/vjp.h"

#include <algorithm>

#include "ir/op/foreign.h"

namespace rannc::ir {

namespace {

constexpr std::string_view kPrefix = "vjp.", kResults = "vjp_results", kWanted = "vjp_wanted";

/// Number of results to repeat: all but auxiliary ones that no gradient reaches.
size_t repeated_results(const GradientCall& call) {
  const OpInfo& op = call.op();
  size_t count = call.result_count();
  const auto is_auxiliary = [&](size_t i) {
    return i < op.results.size() && op.results[i].presence == Presence::kOptional;
  };
  while (count > 1 && is_auxiliary(count - 1) && !call.gradient(count - 1).valid()) --count;
  return count;
}

}  // namespace

void add_vjp(GradientCall& call) {
  std::vector<ValueId> operands;
  Shape wanted;
  Attributes attributes = call.attributes().given();
  bool samples = false;
  const size_t results = repeated_results(call);
  for (size_t i = 0; i < results; ++i) {
    operands.push_back(call.gradient(i));
    samples = samples || (call.gradient(i).valid() && call.type(call.gradient(i)).batch.is_partial());
  }
  for (size_t i = 0; i < call.operand_count(); ++i) {
    operands.push_back(call.operand(i));
    samples = samples || (call.operand(i).valid() && call.type(call.operand(i)).batch.has_batch());
    if (call.wants(i)) wanted.emplace_back(static_cast<int64_t>(i));
  }
  attributes.set(kResults, Dim(static_cast<int64_t>(results)));
  attributes.set(kWanted, wanted);
  std::vector<ValueType> types;
  for (const Dim& operand : wanted) {
    types.push_back(call.type(call.operand(static_cast<size_t>(operand.constant()))));
    types.back().contents.reset();
    if (samples && !types.back().batch.has_batch()) types.back().batch.mix = Mix::kPartial;
  }
  const std::vector<ValueId> made =
      call.add_foreign(std::string(kPrefix) + call.op().name, operands, std::move(attributes), types);
  for (size_t i = 0; i < wanted.size(); ++i) call.give(static_cast<size_t>(wanted[i].constant()), made[i]);
}

bool gradient_by_vjp(GradientCall& call) {
  add_vjp(call);
  return true;
}

std::optional<Vjp> vjp_of(const Graph& graph, TaskId task) {
  const std::string& name = graph.op(task).name;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  Vjp found;
  found.op = find_op(std::string_view(name).substr(kPrefix.size()));
  if (found.op == nullptr && is_foreign_name(std::string_view(name).substr(kPrefix.size())))
    found.op = &any_foreign_op();
  const auto operands = graph.inputs(task);
  const auto results = static_cast<size_t>(graph.attributes(task).integer(kResults));
  if (found.op == nullptr || results > operands.size()) return std::nullopt;
  found.gradients = operands.first(results);
  found.operands = operands.subspan(results);
  for (const int64_t operand : graph.attributes(task).integers(kWanted))
    found.wanted.push_back(static_cast<uint32_t>(operand));
  found.attributes = graph.attributes(task);
  found.attributes.erase(kResults);
  found.attributes.erase(kWanted);
  return found;
}

}  // namespace rannc::ir
