#include "frontend/onnx/internal/cut/cut_graph.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "frontend/onnx/internal/model/node_order.h"
#include "frontend/onnx/internal/model/scan.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::FunctionProto;
using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

using Names = std::unordered_set<std::string>;

template <class Proto>
std::string function_key(const Proto& proto, const std::string& name) {
  return domain_of(proto.domain()) + ":" + name + ":" + proto.overload();
}

/// Whether a node of ONNX may give other numbers in another run.
bool is_random_operator(const NodeProto& node) {
  constexpr std::array<std::string_view, 7> kRandom = {
      "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"};
  return domain_of(node.domain()).empty() && std::find(kRandom.begin(), kRandom.end(), node.op_type()) != kRandom.end();
}

}  // namespace

/// What a node reads, calls and draws, with its bodies.
struct CutGraph::Contents {
  std::vector<std::string> reads, calls;
  bool random = false;

  void add(const NodeProto& node, const Names& inner) {
    for (const std::string& input : node.input()) read(input, inner);
    calls.push_back(function_key(node, node.op_type()));
    random = random || is_random_operator(node);
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) add_body(attribute.g(), inner);
      for (const GraphProto& body : attribute.graphs()) add_body(body, inner);
    }
  }

 private:
  void read(const std::string& name, const Names& inner) {
    if (!name.empty() && !inner.contains(name)) reads.push_back(name);
  }
  /// A body sees the names around it, whose tensors it then reads, and never redefines one.
  void add_body(const GraphProto& body, Names inner) {
    for (const auto& input : body.input()) inner.insert(input.name());
    for (const auto& stored : body.initializer()) inner.insert(stored.name());
    for (const NodeProto& node : body.node()) inner.insert(node.output().begin(), node.output().end());
    for (const NodeProto& node : body.node()) add(node, inner);
    for (const auto& output : body.output()) read(output.name(), inner);
  }
};

Result<CutGraph> CutGraph::of(const ModelParts& parts) {
  CutGraph graph;
  for (int i = 0; i < parts.graph.input_size(); ++i)
    graph.tensors_[graph.number(parts.graph.input(i).name())].input = static_cast<uint32_t>(i);
  for (size_t i = 0; i < parts.initializers.size(); ++i) {
    RANNC_ASSIGN(const auto tensor, parts.parsed<TensorProto>(parts.initializers[i]));
    graph.tensors_[graph.number(tensor.name())].initializer = static_cast<uint32_t>(i);
  }
  RANNC_TRY(graph.read_functions(parts));
  RANNC_TRY(graph.read_nodes(parts));
  for (int i = 0; i < parts.graph.output_size(); ++i)
    graph.tensors_[graph.number(parts.graph.output(i).name())].output = static_cast<uint32_t>(i);
  graph.mark_needed();
  return graph;
}

uint32_t CutGraph::number(const std::string& tensor) {
  const auto [found, fresh] = numbers_.emplace(tensor, static_cast<uint32_t>(tensors_.size()));
  if (fresh) tensors_.push_back({tensor});
  return found->second;
}

std::optional<uint32_t> CutGraph::find(const std::string& tensor) const {
  const auto found = numbers_.find(tensor);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

Result<void> CutGraph::read_functions(const ModelParts& parts) {
  for (size_t i = 0; i < parts.functions.size(); ++i) {
    RANNC_ASSIGN(const auto proto, parts.parsed<FunctionProto>(parts.functions[i]));
    Contents contents;
    for (const NodeProto& node : proto.node()) contents.add(node, {});
    functions_.emplace(function_key(proto, proto.name()),
                       Function{static_cast<uint32_t>(i), std::move(contents.calls), contents.random});
  }
  return {};
}

Result<void> CutGraph::read_nodes(const ModelParts& parts) {
  std::vector<Node> read;
  std::vector<NodeNames> names;
  std::vector<Contents> contents;
  for (size_t i = 0; i < parts.nodes.size(); ++i) {
    RANNC_ASSIGN(const auto proto, parts.parsed<NodeProto>(parts.nodes[i]));
    contents.emplace_back().add(proto, {});
    read.push_back({node_name(proto), static_cast<uint32_t>(i), {}, {}, {}});
    names.push_back({contents.back().reads, {}});
    for (const std::string& output : proto.output()) {
      if (!output.empty()) names.back().makes.push_back(output);
    }
  }
  for (const size_t place : run_order(names)) {
    Node node = std::move(read[place]);
    for (const std::string& name : names[place].makes) {
      const uint32_t tensor = number(name);
      tensors_[tensor].maker = static_cast<uint32_t>(nodes_.size());
      node.makes.push_back(tensor);
    }
    note(contents[place], node);
    nodes_.push_back(std::move(node));
  }
  return {};
}

/// The makers of all that the node reads come before it.
void CutGraph::note(const Contents& contents, Node& node) {
  for (const std::string& name : contents.reads) node.reads.push_back(number(name));
  std::sort(node.reads.begin(), node.reads.end());
  node.reads.erase(std::unique(node.reads.begin(), node.reads.end()), node.reads.end());
  for (const std::string& key : contents.calls) {
    if (functions_.contains(key)) node.calls.push_back(key);
  }
  node.repeated = !contents.random && !is_random(contents.calls, 0) &&
                  std::all_of(node.reads.begin(), node.reads.end(), [&](uint32_t tensor) { return is_stored(tensor); });
}

bool CutGraph::is_stored(uint32_t tensor) const {
  const Tensor& read = tensors_[tensor];
  return read.initializer != kNone ||
         (read.maker != kNone && read.maker < nodes_.size() && nodes_[read.maker].repeated);
}

/// Operators of other domains may do anything.
bool CutGraph::is_random(const std::vector<std::string>& calls, int depth) const {
  constexpr int kDeepest = 100;  // no valid function calls itself
  return std::any_of(calls.begin(), calls.end(), [&](const std::string& key) {
    const auto found = functions_.find(key);
    if (found == functions_.end()) return !key.starts_with(':');
    return depth == kDeepest || found->second.random || is_random(found->second.calls, depth + 1);
  });
}

void CutGraph::add_functions(const std::string& key, std::vector<bool>& parts) const {
  const auto found = functions_.find(key);
  if (found == functions_.end() || parts[found->second.part]) return;
  parts[found->second.part] = true;
  for (const std::string& called : found->second.calls) add_functions(called, parts);
}

void CutGraph::mark_needed() {
  std::vector<uint32_t> open;
  const auto need = [&](uint32_t tensor) {
    const uint32_t maker = tensors_[tensor].maker;
    if (maker == kNone || nodes_[maker].needed) return;
    nodes_[maker].needed = true;
    open.push_back(maker);
  };
  for (uint32_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].output != kNone) need(i);
  }
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    for (const uint32_t tensor : nodes_[node].reads) need(tensor);
  }
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].needed) continue;
    for (const uint32_t tensor : nodes_[i].reads) tensors_[tensor].readers.push_back(i);
  }
}

}  // namespace rannc::frontend
