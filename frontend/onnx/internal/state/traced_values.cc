#include "frontend/onnx/internal/state/traced_values.h"

#include <algorithm>
#include <array>

#include "ir/state/name_source.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::NodeProto;

namespace {

/// Whether the result of an operator may be its operand, so that several results are one value of the file.
bool may_forward(std::string_view op) {
  constexpr std::array kOps = {"detach", "clone",  "alias",      "dropout", "to",      "_to_copy", "contiguous",
                               "view",   "expand", "lift_fresh", "slice",   "reshape", "type_as"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

/// Whether a call of the operator may change nothing: a product with 1, or a sum with 0.
bool may_be_omitted(std::string_view op) { return op == "mul" || op == "div" || op == "add" || op == "sub"; }

}  // namespace

/// By operand, whether the call names it. An operand that a node reads more often than its call names it is another
/// value of the program where that is: `cat([a, a])` of `cat([a, b])`.
std::vector<bool> TracedValues::named_operands(const NodeProto& node, const TracedCall& call) const {
  std::vector<std::string_view> left = call.values();
  std::vector<bool> named(static_cast<size_t>(node.input_size()));
  const auto is = [&](std::string_view traced, const std::string& name) {
    const auto maker = makers_.find(name);
    return !traced.empty() && (traced == name || (maker != makers_.end() && traced == maker->second.result));
  };
  for (size_t i = 0; i < named.size() && i < left.size(); ++i) {
    if (!is(left[i], node.input(static_cast<int>(i)))) continue;
    named[i] = true;
    left[i] = {};
  }
  for (size_t i = 0; i < named.size(); ++i) {
    const std::string& name = node.input(static_cast<int>(i));
    const auto found = std::find_if(left.begin(), left.end(), [&](std::string_view each) { return is(each, name); });
    if (named[i]) continue;
    named[i] = found != left.end() || state_.names(call, name);
    if (found != left.end()) *found = {};
  }
  return named;
}

TracedValues::Unnamed TracedValues::read(const ir::Graph& graph, const NodeProto& node, const TracedCall& call,
                                         const std::vector<ValueId>& operands, const std::string& module) {
  const std::vector<bool> named = named_operands(node, call);
  const size_t made_by = std::hash<std::string_view>()(call.text);
  Unnamed found;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto maker = makers_.find(node.input(static_cast<int>(i)));
    if (maker != makers_.end() && maker->second.call == made_by) {
      found.own = true;
      continue;
    }
    if (!operands[i].valid() || !ir::is_float(graph.type(operands[i]).dtype) || named[i]) continue;
    (graph.kind(operands[i]) != ir::ValueKind::kConstant ? found.varying : found.constant).push_back(i);
  }
  find_merged(graph, node, call, operands, found, module);
  for (const std::string& output : node.output()) {
    makers_.insert_or_assign(output, Maker{made_by, std::string(call.result)});
    last_.insert_or_assign(made_by, output);
  }
  results_.emplace(call.result);
  return found;
}

void TracedValues::find_merged(const ir::Graph& graph, const NodeProto& node, const TracedCall& call,
                               const std::vector<ValueId>& operands, const Unnamed& unnamed,
                               const std::string& module) {
  std::vector<std::string> lost;
  for (const std::string_view name : call.values()) {
    const bool stored = std::find(node.input().begin(), node.input().end(), name) != node.input().end();
    if (!stored && !makes(name) && !state_.is_input(name)) lost.emplace_back(name);
  }
  for (const size_t i : unnamed.varying) {
    const std::string& value = node.input(static_cast<int>(i));
    const auto maker = makers_.find(value);
    if (maker != makers_.end() && last_.at(maker->second.call) != value)
      merged_.push_back({"", "", std::string(graph.value(operands[i]).name), module});
  }
  // Of constants those that the exporter computed and named after a value, not numbers of the code.
  std::vector<size_t> left = unnamed.varying;
  for (const size_t i : unnamed.constant) {
    const std::string_view op = ir::traced_op(node.input(static_cast<int>(i)));
    if (std::any_of(lost.begin(), lost.end(), [&](const std::string& name) { return ir::traced_op(name) == op; }))
      left.push_back(i);
  }
  std::sort(left.begin(), left.end());
  if (lost.size() != left.size()) return;
  for (size_t i = 0; i < left.size(); ++i) {
    const std::string& value = node.input(static_cast<int>(left[i]));
    const auto maker = makers_.find(value);
    const bool computed = graph.producer(operands[left[i]]).valid();
    const std::string made = maker == makers_.end() ? value : maker->second.result, op(ir::traced_op(lost[i]));
    // Results of `chunk` have no name in the file. All others have that of an operator.
    const bool chunk = maker == makers_.end() && op == "getitem";
    const std::vector<std::string_view> all = call.values();
    const bool twice = std::find(all.begin(), all.end(), made) != all.end();
    if (computed && !twice && ir::traced_op(made) != op && may_be_omitted(op)) omitted_.insert(lost[i]);
    if ((computed && !twice && may_forward(op)) || (!chunk && ir::traced_op(made) != op)) continue;
    auto& names = names_[value];
    names.emplace(ir::traced_op(made), made);
    const auto [first, fresh] = names.emplace(op, lost[i]);
    if (!fresh && first->second != lost[i])
      merged_.push_back({lost[i], first->second, std::string(graph.value(operands[left[i]]).name), module});
  }
}

void TracedValues::read_outputs(const ONNX_NAMESPACE::GraphProto& graph) {
  const std::vector<std::string>& traced = state_.outputs();
  for (size_t i = 0; i < traced.size() && static_cast<int>(i) < graph.output_size(); ++i) {
    const auto maker = makers_.find(graph.output(static_cast<int>(i)).name());
    const bool other = maker != makers_.end() && maker->second.result != traced[i];
    if (other && !makes(traced[i]) && may_be_omitted(ir::traced_op(traced[i]))) omitted_.insert(traced[i]);
  }
}

}  // namespace rannc::frontend
