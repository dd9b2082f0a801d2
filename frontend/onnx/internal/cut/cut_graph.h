/// Lists what the nodes of a model's graph read and produce.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/internal/cut/model_parts.h"

namespace rannc::frontend {

/// Nodes and tensors of a model's graph, by number. Tensors of bodies and functions are not listed.
class CutGraph {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Node {
    std::string name;             ///< as in the locations of tasks
    uint32_t part = 0;            ///< index in `ModelParts::nodes`
    std::vector<uint32_t> reads;  ///< tensors, including those that its bodies read; ascending, each once
    std::vector<uint32_t> makes;
    std::vector<std::string> calls;  ///< functions that it or its bodies call, by `function_key`
    /// Depends on stored tensors alone and gives the same numbers in every run, so that each reader may have a copy.
    bool repeated = false;
    bool needed = false;  ///< whether an output of the graph depends on it
  };
  struct Tensor {
    std::string name;
    uint32_t maker = kNone;         ///< node
    uint32_t initializer = kNone;   ///< index in `ModelParts::initializers`
    uint32_t input = kNone;         ///< index in the graph's inputs
    uint32_t output = kNone;        ///< index in the graph's outputs
    std::vector<uint32_t> readers;  ///< needed nodes, ascending
  };

  /// Nodes are numbered in an order in which they can run. Errors: parts that cannot be parsed.
  static Result<CutGraph> of(const ModelParts& parts);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::optional<uint32_t> find(const std::string& tensor) const;
  /// Part numbers of a function and of the functions that it calls.
  void add_functions(const std::string& key, std::vector<bool>& parts) const;

 private:
  struct Function {
    uint32_t part = 0;
    std::vector<std::string> calls;
    bool random = false;
  };
  struct Contents;

  uint32_t number(const std::string& tensor);
  Result<void> read_functions(const ModelParts& parts);
  Result<void> read_nodes(const ModelParts& parts);
  void note(const Contents& contents, Node& node);
  void mark_needed();
  bool is_random(const std::vector<std::string>& calls, int depth) const;
  bool is_stored(uint32_t tensor) const;

  std::vector<Node> nodes_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::unordered_map<std::string, Function> functions_;
};

}  // namespace rannc::frontend
