#include "partition/model/model_costs.h"

#include <fmt/format.h>

#include <set>
#include <unordered_map>

#include "ir/graph/byte_count.h"
#include "ir/graph/memory_format.h"
#include "ir/graph/structure.h"
#include "ir/match/match.h"
#include "ir/op/flash_attention.h"
#include "ir/op/op.h"
#include "ir/plan/plan.h"
#include "ir/state/statistics.h"

namespace rannc::partition {

namespace {

using Role = ir::GradientRole;

// Describes the computation of a body, without names.
std::string structure(const ir::Graph& body);

struct AttributeText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const ir::Dim& value) const { return value.str(); }
  std::string operator()(double value) const { return fmt::format("{:a}", value); }
  std::string operator()(const std::string& value) const { return fmt::format("'{}'", value); }
  std::string operator()(ir::DType value) const { return std::string(ir::str(value)); }
  std::string operator()(const ir::Shape& value) const { return ir::str(value); }
  std::string operator()(const std::vector<double>& values) const {
    std::string text = "(";
    for (const double value : values) text += fmt::format("{:a} ", value);
    return text + ")";
  }
  std::string operator()(const ir::Body& value) const { return structure(value.graph()); }
};

std::string structure(const ir::Graph& body) {
  std::string text = "{";
  const auto value = [&](ValueId id) {
    if (!id.valid()) return std::string("-");
    const auto& type = body.type(id);
    return fmt::format("%{}:{}{}", id.index(), ir::str(type.dtype), type.shape ? ir::str(*type.shape) : "?");
  };
  for (const ValueId input : body.inputs()) text += value(input) + " ";
  for (const TaskId task : body.tasks()) {
    text += body.op(task).name;
    for (const auto& [name, given] : body.attributes(task))
      text += fmt::format(" {}={}", name, std::visit(AttributeText{}, given));
    for (const ValueId input : body.inputs(task)) text += " " + value(input);
    text += "; ";
  }
  for (const ValueId output : body.outputs()) text += value(output) + " ";
  return text + "}";
}

Result<double> number(const ir::Dim& dim, const ir::Bindings& bindings, const ir::Graph& graph, TaskId task) {
  if (const auto value = dim.evaluate(bindings)) return static_cast<double>(*value);
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  for (const std::string& symbol : symbols) {
    if (!bindings.contains(symbol)) {
      return error(
          graph.location(task),
          fmt::format(
              "the size {} depends on the symbol '{}': specify its value for planning with --assume {}=<number>",
              dim.str(), symbol, symbol));
    }
  }
  return error(graph.location(task), fmt::format("the size {} is out of range", dim.str()));
}

// The backward passes of views and sums need nothing from the forward pass.
bool keeps_nothing(const ir::Graph& graph, TaskId task, const std::vector<Role>& roles) {
  uint64_t wanted = 0;
  for (size_t i = 0; i < std::min<size_t>(graph.inputs(task).size(), 64); ++i) {
    const ValueId input = graph.inputs(task)[i];
    if (input.valid() && roles[input.index()] != Role::kNone) wanted |= uint64_t{1} << i;
  }
  const ir::TapeUse use = ir::tape_use(graph, task, wanted);
  return use.keeps.empty() && use.own_bytes == ir::Dim(0);
}

// The element type that a task computes with: that of its first operand of floating-point numbers.
ir::DType dtype_of(const ir::Graph& graph, TaskId task) {
  for (const ValueId input : graph.inputs(task)) {
    if (input.valid() && ir::is_float(graph.type(input).dtype)) return graph.type(input).dtype;
  }
  for (const ValueId output : graph.outputs(task)) return graph.type(output).dtype;
  return ir::DType::kF32;
}

KernelFamily kernel_family(const ir::Graph& graph, TaskId task) {
  static const ir::Ops kAttention{"attention"}, kConvolutions{"conv", "conv_transpose"}, kProducts{"linear", "matmul"},
      kBatchNorms{"batch_norm"};
  const ir::OpInfo& op = graph.op(task);
  if (kAttention.contains(op))
    return ir::fits_flash_attention(graph, task) ? KernelFamily::kFlashAttention : KernelFamily::kAttention;
  if (kConvolutions.contains(op)) return KernelFamily::kConvolution;
  if (kProducts.contains(op)) return KernelFamily::kProduct;
  if (!kBatchNorms.contains(op)) return KernelFamily::kOther;
  const bool last = ir::OpAttributes(op, graph.attributes(task)).flag(ir::kChannelsLast);
  return last ? KernelFamily::kBatchNormChannelsLast : KernelFamily::kBatchNorm;
}

}  // namespace

std::string structural_key(const ir::Graph& graph, TaskId task, const std::vector<Role>& roles) {
  constexpr std::string_view kLetters[] = {"c", "g", "p"};
  std::string key = graph.op(task).name;
  for (const auto& [name, value] : graph.attributes(task)) {
    if (name == ir::kSynchronised) continue;  // exchanges between replicas are not priced
    key += fmt::format(" {}={}", name, std::visit(AttributeText{}, value));
  }
  for (const ValueId input : graph.inputs(task)) {
    if (!input.valid()) {
      key += " -";
      continue;
    }
    const ir::ValueType& type = graph.type(input);
    key += fmt::format(" {}:{}{}", kLetters[static_cast<size_t>(roles[input.index()])], ir::str(type.dtype),
                       type.shape ? ir::str(*type.shape) : "?");
  }
  return key;
}

Result<TaskFacts> task_facts(const ir::Graph& graph, TaskId task, const std::vector<Role>& roles, uint64_t samples,
                             const ir::Bindings& assume) {
  ir::Bindings bindings = assume;
  if (!graph.batch_symbol().empty()) bindings[graph.batch_symbol()] = static_cast<int64_t>(samples);
  TaskFacts facts;
  facts.key = structural_key(graph, task, roles);
  facts.what = fmt::format("{} {}", graph.op(task).name, graph.location(task).str());
  facts.dtype = dtype_of(graph, task);
  facts.family = kernel_family(graph, task);
  const ir::Work work = ir::work_of(graph, task);
  RANNC_ASSIGN(facts.flops, number(work.flops, bindings, graph, task));
  RANNC_ASSIGN(facts.traffic_bytes, number(work.bytes, bindings, graph, task));
  if (const ir::ValueType& made = graph.type(graph.outputs(task)[0]); made.shape) {
    RANNC_ASSIGN(facts.results, number(ir::element_count(*made.shape), bindings, graph, task));
  }
  facts.needs_input_gradient = false;
  for (const ValueId input : graph.inputs(task)) {
    if (!input.valid()) continue;
    if (roles[input.index()] == Role::kWeight) {
      RANNC_ASSIGN(const double bytes, number(ir::byte_count(graph.type(input)), bindings, graph, task));
      facts.parameter_bytes += bytes;
    } else if (roles[input.index()] == Role::kSample) {
      facts.needs_input_gradient = true;
    }
  }
  const bool saves = !keeps_nothing(graph, task, roles);
  for (const ValueId output : graph.outputs(task)) {
    if (!saves || roles[output.index()] == Role::kNone) continue;
    RANNC_ASSIGN(const double bytes, number(ir::byte_count(graph.type(output)), bindings, graph, task));
    facts.saved_bytes += bytes;
  }
  return facts;
}

std::vector<uint64_t> sample_sizes(uint64_t mini_batch) {
  std::vector<uint64_t> sizes;
  for (uint64_t size = 1; size < mini_batch; size *= 2) sizes.push_back(size);
  sizes.push_back(mini_batch);
  return sizes;
}

Result<ModelCosts> price_model(const ir::Graph& graph, const Cluster& cluster, const CostModel& costs,
                               std::vector<uint64_t> sizes, const ir::Bindings& assume) {
  ModelCosts model;
  model.sizes = std::move(sizes);
  model.costs.assign(cluster.kinds.size(), std::vector<std::vector<TaskCost>>(model.sizes.size()));
  model.frequency = ir::execution_frequency(graph);
  const std::vector<Role> roles = ir::gradient_roles(graph, ir::needs_gradient(graph));
  std::unordered_map<std::vector<uint32_t>, uint32_t, ir::HashOfNumbers> seen;
  std::unordered_map<std::string, uint32_t> entries;
  std::vector<uint32_t> numbers;
  model.entry_of.reserve(graph.task_count());
  for (const TaskId task : graph.tasks()) {
    ir::structural_numbers(graph, task, roles, numbers);
    if (const auto known = seen.find(numbers); known != seen.end()) {
      model.entry_of.push_back(known->second);
      continue;
    }
    const auto [entry, fresh] =
        entries.emplace(structural_key(graph, task, roles), static_cast<uint32_t>(entries.size()));
    seen.emplace(numbers, entry->second);
    model.entry_of.push_back(entry->second);
    if (!fresh) continue;
    for (size_t size = 0; size < model.sizes.size(); ++size) {
      RANNC_ASSIGN(const TaskFacts facts, task_facts(graph, task, roles, model.sizes[size], assume));
      for (size_t kind = 0; kind < cluster.kinds.size(); ++kind) {
        RANNC_ASSIGN(const TaskCost cost, costs.price(facts, model.sizes[size], cluster.kinds[kind]));
        model.costs[kind][size].push_back(cost);
      }
    }
  }
  return model;
}

}  // namespace rannc::partition
