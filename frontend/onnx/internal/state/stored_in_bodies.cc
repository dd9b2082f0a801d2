// Adds stored tensors of subgraphs to the model's graph, once each even if their subgraph is translated repeatedly.
#include "frontend/onnx/internal/translate/translation.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "ir/graph/constant.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

/// PyTorch's exporters keep all state in the main graph. Stored tensors in bodies come from tools that convert
/// `Constant` nodes.
constexpr const char* kNumbers =
    "single numbers that bodies store are taken for numbers of the model's code; --train names those that are learned";

Region& outermost(Region& region) { return region.around == nullptr ? region : outermost(*region.around); }

/// Returns the counterpart in `region` of a value of the outermost region.
ValueId seen_from(Region& region, ValueId value) {
  return region.around == nullptr ? value : region.take(seen_from(*region.around, value));
}

}  // namespace

/// Returns the name in the file, unless something else has that name.
std::string Translation::name_of_stored(const Scope& scope, const std::string& name) const {
  const bool taken = outermost(scope.region).graph.find(name).valid() || outputs_.contains(name);
  return taken ? scope.place.prefix + name : name;
}

template <class Make>
Result<void> Translation::share(Scope& scope, const std::string& key, const std::string& name, const Place& where,
                                Make&& make) {
  auto found = stored_.find(key);
  if (found == stored_.end()) {
    RANNC_ASSIGN(const ValueId made, make(outermost(scope.region).graph, name_of_stored(scope, name)));
    found = stored_.emplace(key, made).first;
  }
  return define(scope, name, seen_from(scope.region, found->second), where);
}

Result<void> Translation::add_stored(Scope& scope, const TensorProto& proto) {
  const Place where{file_, scope.prefix, nullptr, proto.name()};
  const auto make = [&](ir::Graph& graph, const std::string& name) -> Result<ValueId> {
    RANNC_ASSIGN(Tensor tensor, read_tensor(proto, file_, external_, where));
    state_.store(name);
    const bool number = ir::is_float(tensor.type.dtype) && ir::static_count(tensor.type) == 1;
    const ValueId made =
        graph.add_value(ir::ValueKind::kConstant, name, std::move(tensor.type), std::move(tensor.data));
    if (number) {
      notes_.stored.literals.emplace(graph.value(made).name);
      ++notes_.counted_remarks[kNumbers];
    }
    return made;
  };
  return share(scope, scope.place.written + proto.name(), proto.name(), where, make);
}

/// The pass that restores omitted zero biases does not enter bodies.
void Translation::restore_bias(Scope& scope, const NodeProto& node, Node::Wiring& wiring) {
  const std::string* const name = wiring.traced ? state_.omitted_bias(wiring.operands, node, *wiring.traced) : nullptr;
  const ir::Graph& graph = scope.region.graph;
  if (name == nullptr || wiring.operands.size() < 2 || !wiring.operands[1].valid()) return;
  const auto& weight = graph.type(wiring.operands[1]);
  const bool rows = std::any_of(node.attribute().begin(), node.attribute().end(),
                                [](const auto& each) { return each.name() == "transB" && each.i() != 0; });
  const bool first = node.op_type() == "Conv" || (node.op_type() == "Gemm" && rows);
  if (!weight.shape || weight.shape->size() < 2 || node.op_type() == "ConvTranspose") return;
  const ir::Dim count = (*weight.shape)[first ? 0 : 1];
  if (!count.is_constant()) return;
  ir::Graph& outer = outermost(scope.region).graph;
  ValueId bias = outer.find(*name);
  if (!bias.valid()) {
    const auto bytes = static_cast<size_t>(count.constant()) * ir::byte_size(weight.dtype);
    bias = outer.add_value(ir::ValueKind::kConstant, *name, {weight.dtype, ir::Shape{count}, {}, {}},
                           ir::TensorData::in_memory(std::vector<std::byte>(bytes)));
  }
  const std::string label = scope.prefix + node_name(node);
  notes_.stored.readings[*name].push_back({label, 2, label, {*name}});
  wiring.operands.resize(3);
  wiring.operands[2] = seen_from(scope.region, bias);
}

Result<bool> Translation::stores(Scope& scope, const NodeProto& node, int opset) {
  if (node.op_type() == "Identity" && node.input_size() == 1 && node.output_size() == 1) {
    RANNC_ASSIGN(Item renamed, item(scope, node.input(0), at(scope, node)));
    const ir::Graph& graph = scope.region.graph;
    if (!renamed.value.valid() || graph.kind(renamed.value) != ir::ValueKind::kConstant) return false;
    RANNC_TRY(define(scope, node.output(0), std::move(renamed), at(scope, node)));
    return true;
  }
  if (node.op_type() != "Constant" || node.output_size() != 1) return false;
  const auto make = [&](ir::Graph& graph, const std::string& name) -> Result<ValueId> {
    Node::Wiring wiring;
    wiring.output_names = {name};
    Node view(graph, node, opset, at(scope, node), std::move(wiring), source_);
    find_translator("Constant", opset)(view);
    if (view.failure()) return Diagnostic(*view.failure());
    notes_.stored.literals.emplace(graph.value(view.outputs()[0]).name);
    return view.outputs()[0];
  };
  RANNC_TRY(share(scope, scope.place.calls + node.output(0), node.output(0), at(scope, node), make));
  return true;
}

void Translation::forget_stored(const Region& region) {
  if (region.around != nullptr) return;
  const size_t kept = region.graph.value_count();
  std::erase_if(stored_, [&](const auto& entry) { return entry.second.index() >= kept; });
}

}  // namespace rannc::frontend
