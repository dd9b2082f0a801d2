#include "frontend/onnx/internal/cut/stage_parts.h"

#include <algorithm>
#include <set>

namespace rannc::frontend {

namespace {

class Builder {
 public:
  Builder(const CutGraph& graph, const std::vector<uint32_t>& stage_of) : graph_(graph), stage_of_(stage_of) {}

  StageParts build(uint32_t stage, bool takes_stored_outputs, size_t functions) {
    for (uint32_t node = 0; node < stage_of_.size(); ++node) {
      if (stage_of_[node] == stage) add(node);
    }
    StageParts parts;
    for (const uint32_t tensor : outputs_of_model()) {
      const CutGraph::Tensor& output = graph_.tensors()[tensor];
      const bool made = output.maker != CutGraph::kNone && stage_of_[output.maker] == stage;
      const bool stored = output.maker == CutGraph::kNone || stage_of_[output.maker] == CutGraph::kNone;
      if (!made && !(stored && takes_stored_outputs)) continue;
      if (stored) read(tensor);
      parts.outputs.push_back(tensor);
    }
    const std::vector<uint32_t> sent = sent_by(stage);
    parts.outputs.insert(parts.outputs.begin(), sent.begin(), sent.end());
    parts.nodes.assign(nodes_.begin(), nodes_.end());
    parts.functions.resize(functions);
    for (const uint32_t node : nodes_) {
      for (const std::string& key : graph_.nodes()[node].calls) graph_.add_functions(key, parts.functions);
    }
    finish(stage, parts);
    return parts;
  }

 private:
  /// Adds a node with the repeated nodes that it reads.
  void add(uint32_t node) {
    std::vector<uint32_t> open{node};
    while (!open.empty()) {
      const uint32_t next = open.back();
      open.pop_back();
      if (!nodes_.insert(next).second) continue;
      for (const uint32_t tensor : graph_.nodes()[next].reads) {
        read_.insert(tensor);
        const uint32_t maker = graph_.tensors()[tensor].maker;
        if (maker != CutGraph::kNone && graph_.nodes()[maker].repeated) open.push_back(maker);
      }
    }
  }
  void read(uint32_t tensor) {
    read_.insert(tensor);
    if (graph_.tensors()[tensor].maker != CutGraph::kNone) add(graph_.tensors()[tensor].maker);
  }

  std::vector<uint32_t> outputs_of_model() const {
    std::vector<uint32_t> found;
    for (uint32_t i = 0; i < graph_.tensors().size(); ++i) {
      if (graph_.tensors()[i].output != CutGraph::kNone) found.push_back(i);
    }
    std::sort(found.begin(), found.end(),
              [&](uint32_t a, uint32_t b) { return graph_.tensors()[a].output < graph_.tensors()[b].output; });
    return found;
  }

  /// Tensors that later stages read, other than outputs of the model.
  std::vector<uint32_t> sent_by(uint32_t stage) const {
    std::vector<uint32_t> found;
    for (const uint32_t node : nodes_) {
      if (stage_of_[node] != stage) continue;
      for (const uint32_t tensor : graph_.nodes()[node].makes) {
        const CutGraph::Tensor& made = graph_.tensors()[tensor];
        const bool read = std::any_of(made.readers.begin(), made.readers.end(),
                                      [&](uint32_t reader) { return stage_of_[reader] != stage; });
        if (read && made.output == CutGraph::kNone) found.push_back(tensor);
      }
    }
    return found;
  }

  void finish(uint32_t stage, StageParts& parts) const {
    for (const uint32_t tensor : read_) {
      const CutGraph::Tensor& each = graph_.tensors()[tensor];
      if (each.initializer != CutGraph::kNone) parts.initializers.push_back(each.initializer);
      if (each.input != CutGraph::kNone) parts.inputs.push_back(tensor);
      if (each.maker != CutGraph::kNone && stage_of_[each.maker] != CutGraph::kNone && stage_of_[each.maker] != stage)
        parts.received.push_back(tensor);
    }
    std::sort(parts.inputs.begin(), parts.inputs.end(),
              [&](uint32_t a, uint32_t b) { return graph_.tensors()[a].input < graph_.tensors()[b].input; });
    parts.inputs.insert(parts.inputs.end(), parts.received.begin(), parts.received.end());
    std::sort(parts.initializers.begin(), parts.initializers.end());
  }

  const CutGraph& graph_;
  const std::vector<uint32_t>& stage_of_;
  std::set<uint32_t> nodes_, read_;
};

}  // namespace

std::vector<StageParts> stage_parts(const CutGraph& graph, const std::vector<uint32_t>& stage_of, uint32_t stages,
                                    size_t functions) {
  uint32_t first = stages;
  for (const uint32_t stage : stage_of) first = std::min(first, stage);
  if (first == stages) first = 0;  // a model of stored tensors alone
  std::vector<StageParts> parts;
  for (uint32_t stage = 0; stage < stages; ++stage)
    parts.push_back(Builder(graph, stage_of).build(stage, stage == first, functions));
  return parts;
}

}  // namespace rannc::frontend
