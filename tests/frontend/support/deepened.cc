// Repeats the layers of an export.
//
// 1. The period is the distance at which the longest run of equal operators lies behind itself.
// 2. The layer that is repeated is the last whole period, so that the one before it says what a layer reads of another.
// 3. A repetition is the layer with every name of its own made new: of what its nodes make, and of what is stored for
//    it alone. Names that the layer before made are those of the repetition before.
// 4. What stands behind the layer reads the last repetition.
#include "tests/frontend/support/deepened.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace rannc::test {

using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace fs = std::filesystem;

namespace {

constexpr size_t kInlineBytes = 256;

struct Layer {
  int begin = 0, period = 0;
};

/// What has to be equal of two nodes that are to have the same place in two layers: operator, number of results, and
/// the sizes of what is stored.
std::vector<std::string> signatures(const GraphProto& graph) {
  std::map<std::string, std::string> sizes;
  for (const TensorProto& tensor : graph.initializer()) {
    std::string& text = sizes[tensor.name()] = ":";
    for (const int64_t extent : tensor.dims()) text += std::to_string(extent) + ",";
  }
  std::vector<std::string> found;
  for (const NodeProto& node : graph.node()) {
    std::string& text = found.emplace_back(node.op_type() + " " + std::to_string(node.output_size()));
    for (const std::string& input : node.input()) {
      const auto stored = sizes.find(input);
      text += stored == sizes.end() ? " %" : " " + stored->second;
    }
  }
  return found;
}

Result<Layer> find_layer(const GraphProto& graph, const std::string& file) {
  const std::vector<std::string> nodes = signatures(graph);
  constexpr int kShortest = 5;
  int longest = 0, end = 0, period = 0;
  for (int distance = kShortest; 2 * distance <= graph.node_size(); ++distance) {
    int run = 0;
    for (int i = 0; i + distance < graph.node_size(); ++i) {
      run = nodes[static_cast<size_t>(i)] == nodes[static_cast<size_t>(i + distance)] ? run + 1 : 0;
      if (run <= longest) continue;
      longest = run;
      end = i + 1 + distance;
      period = distance;
    }
  }
  if (period == 0 || longest < period) return error(Location{file}, "no layer of it comes twice");
  return Layer{end - period, period};
}

/// Weights of the repetitions, as windows into one file of random numbers.
class Windows {
 public:
  explicit Windows(std::string location) : location_(std::move(location)) {}

  void place(TensorProto& tensor) {
    const size_t bytes = tensor.raw_data().size();
    longest_ = std::max(longest_, bytes);
    tensor.clear_raw_data();
    tensor.set_data_location(TensorProto::EXTERNAL);
    const auto set = [&](const char* key, const std::string& value) {
      auto* const entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    set("location", location_);
    set("offset", std::to_string(sizeof(float) * count_++));
    set("length", std::to_string(bytes));
  }

  void write(const fs::path& path) const {
    std::ofstream file(path, std::ios::binary);
    std::mt19937 bits(1);  // NOLINT: the same numbers on every run
    for (size_t i = 0; i < count_ + longest_ / sizeof(float); ++i) {
      const float number = static_cast<float>(bits()) / 4294967296.0F - 0.5F;
      file.write(reinterpret_cast<const char*>(&number), sizeof number);
    }
  }

 private:
  std::string location_;
  size_t count_ = 0, longest_ = 0;
};

class Deepener {
 public:
  Deepener(ModelProto& model, Layer layer, LayerWeights weights, std::string weights_file)
      : graph_(*model.mutable_graph()), layer_(layer), windows_(std::move(weights_file)) {
    const int before = layer.begin - layer.period;
    for (int i = 0; i < layer.period; ++i) {
      const NodeProto &node = graph_.node(layer.begin + i), &counterpart = graph_.node(before + i);
      for (int k = 0; k < node.output_size(); ++k) {
        made_.insert(node.output(k));
        made_before_[counterpart.output(k)] = node.output(k);
      }
    }
    if (weights == LayerWeights::kOwn) find_own_weights();
  }

  uint64_t repetitions(uint64_t nodes) const {
    const auto has = static_cast<uint64_t>(graph_.node_size()), period = static_cast<uint64_t>(layer_.period);
    return nodes <= has ? 0 : (nodes - has + period - 1) / period;
  }

  /// The nodes and stored tensors of repetition `number`, from 1.
  GraphProto repetition(uint64_t number) {
    const std::string suffix = name_of(number), earlier = name_of(number - 1);
    GraphProto part;
    for (const int own : own_weights_) add_weight(graph_.initializer(own), suffix, number, part);
    for (int i = 0; i < layer_.period; ++i) {
      NodeProto& node = *part.add_node();
      node = graph_.node(layer_.begin + i);
      if (!node.name().empty()) node.set_name(node.name() + suffix);
      for (std::string& input : *node.mutable_input()) input = renamed(input, suffix, earlier);
      for (std::string& output : *node.mutable_output()) output += output.empty() ? "" : suffix;
    }
    return part;
  }

  /// The nodes from `begin` to `end`; those behind the layer read repetition `last`.
  GraphProto nodes(int begin, int end, uint64_t last) const {
    GraphProto part;
    for (int i = begin; i < end; ++i) {
      NodeProto& node = *part.add_node();
      node = graph_.node(i);
      if (i < layer_.begin + layer_.period) continue;
      for (std::string& input : *node.mutable_input()) {
        if (made_.contains(input)) input += name_of(last);
      }
    }
    return part;
  }

  const Windows& windows() const { return windows_; }

 private:
  static std::string name_of(uint64_t repetition) { return repetition == 0 ? "" : "~" + std::to_string(repetition); }

  std::string renamed(const std::string& name, const std::string& suffix, const std::string& earlier) const {
    if (made_.contains(name) || own_names_.contains(name)) return name + suffix;
    const auto before = made_before_.find(name);
    return before == made_before_.end() ? name : before->second + earlier;
  }

  /// What is stored for the layer alone.
  void find_own_weights() {
    std::set<std::string> outside;
    std::set<std::string> inside;
    for (int i = 0; i < graph_.node_size(); ++i) {
      const bool own = i >= layer_.begin && i < layer_.begin + layer_.period;
      for (const std::string& input : graph_.node(i).input()) (own ? inside : outside).insert(input);
    }
    for (int i = 0; i < graph_.initializer_size(); ++i) {
      const std::string& name = graph_.initializer(i).name();
      if (!inside.contains(name) || outside.contains(name)) continue;
      own_weights_.push_back(i);
      own_names_.insert(name);
    }
  }

  void add_weight(const TensorProto& original, const std::string& suffix, uint64_t number, GraphProto& part) {
    TensorProto& tensor = *part.add_initializer();
    tensor = original;
    tensor.set_name(original.name() + suffix);
    if (tensor.data_type() != TensorProto::FLOAT || tensor.raw_data().size() <= sizeof(float)) return;
    if (tensor.raw_data().size() > kInlineBytes) return windows_.place(tensor);
    float first = 0;
    std::memcpy(&first, tensor.raw_data().data(), sizeof first);
    first += static_cast<float>(number) / 1024;
    std::memcpy(tensor.mutable_raw_data()->data(), &first, sizeof first);
  }

  GraphProto& graph_;
  const Layer layer_;
  std::set<std::string> made_;                      ///< by the layer
  std::map<std::string, std::string> made_before_;  ///< by the layer before it: what has that place in the layer
  std::vector<int> own_weights_;
  std::set<std::string> own_names_;
  Windows windows_;
};

}  // namespace

Result<void> write_deepened(const fs::path& from, uint64_t nodes, const fs::path& to, LayerWeights weights) {
  ModelProto model;
  std::ifstream original(from, std::ios::binary);
  if (!model.ParseFromIstream(&original)) return error(Location{from.string()}, "not an ONNX model");
  RANNC_ASSIGN(const Layer layer, find_layer(model.graph(), from.string()));
  const fs::path weights_file = to.string() + ".weights";
  Deepener deepener(model, layer, weights, weights_file.filename().string());
  const uint64_t last = deepener.repetitions(nodes);
  std::ofstream file(to, std::ios::binary | std::ios::trunc);
  // Messages of one field that follow each other are one message.
  const auto append = [&](GraphProto part) {
    ModelProto piece;
    piece.mutable_graph()->Swap(&part);
    piece.SerializeToOstream(&file);
  };
  const int end = layer.begin + layer.period;
  append(deepener.nodes(0, end, last));
  for (uint64_t number = 1; number <= last; ++number) append(deepener.repetition(number));
  append(deepener.nodes(end, model.graph().node_size(), last));
  model.mutable_graph()->clear_node();
  model.SerializeToOstream(&file);
  deepener.windows().write(weights_file);
  if (file.flush()) return {};
  return error(Location{to.string()}, "cannot be written");
}

}  // namespace rannc::test
