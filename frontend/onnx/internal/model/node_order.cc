#include "frontend/onnx/internal/model/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

namespace rannc::frontend {

using ONNX_NAMESPACE::FunctionProto;
using ONNX_NAMESPACE::NodeProto;

namespace {

void collect_reads(const NodeProto& node, std::vector<std::string>& reads) {
  for (const std::string& input : node.input()) {
    if (!input.empty()) reads.push_back(input);
  }
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const NodeProto& part : attribute.g().node()) collect_reads(part, reads);
    for (const auto& output : attribute.g().output()) reads.push_back(output.name());
  }
}

template <class Owner>
size_t sort_list(Owner& owner) {
  size_t sorted = 0;
  std::vector<NodeNames> names;
  for (NodeProto& node : *owner.mutable_node()) {
    sorted += sort_bodies(node);
    names.push_back(names_of(node));
  }
  const std::vector<size_t> order = run_order(names);
  if (std::is_sorted(order.begin(), order.end())) return sorted;
  auto ordered = owner.node();
  ordered.Clear();
  for (const size_t place : order) *ordered.Add() = owner.node(static_cast<int>(place));
  owner.mutable_node()->Swap(&ordered);
  return sorted + 1;
}

}  // namespace

NodeNames names_of(const NodeProto& node) {
  NodeNames names;
  collect_reads(node, names.reads);
  for (const std::string& output : node.output()) {
    if (!output.empty()) names.makes.push_back(output);
  }
  return names;
}

std::vector<size_t> run_order(const std::vector<NodeNames>& nodes) {
  std::unordered_map<std::string, size_t> maker;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].makes) maker.emplace(name, i);
  }
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> missing(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].reads) {
      const auto from = maker.find(name);
      if (from == maker.end() || from->second == i) continue;
      readers[from->second].push_back(i);
      ++missing[i];
    }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<size_t> order;
  std::vector<bool> placed(nodes.size(), false);
  while (!ready.empty()) {
    const size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    placed[next] = true;
    for (const size_t reader : readers[next]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!placed[i]) order.push_back(i);
  }
  return order;
}

size_t sort_bodies(NodeProto& node) {
  size_t sorted = 0;
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) sorted += sort_list(*attribute.mutable_g());
  }
  return sorted;
}

size_t sort_nodes(FunctionProto& function) { return sort_list(function); }

}  // namespace rannc::frontend
