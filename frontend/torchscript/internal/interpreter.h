/// Runs a TorchScript program on what is known before it runs: calls of operators become tasks.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/import.h"
#include "frontend/internal/growth.h"
#include "frontend/torchscript/internal/call.h"
#include "frontend/torchscript/internal/state.h"

namespace rannc::frontend::torchscript {

class Interpreter {
 public:
  /// All of it outlives the interpreter.
  Interpreter(const std::string& file, State& state, ir::Graph& graph, ImportNotes& notes, Growth& growth,
              uint64_t max_nodes)
      : file_(file), state_(state), graph_(graph), notes_(notes), growth_(growth), max_nodes_(max_nodes) {}

  /// What a method gives for these arguments, `self` not among them.
  Result<Item> call(const Object& self, const std::string& method, std::vector<Item> arguments);
  /// An operator that cannot be translated.
  struct Unknown {
    Location where;  ///< of the first call
    std::string why;
    size_t calls = 0;
  };
  /// Those that were met; the run went on without their results.
  const std::map<std::string, Unknown>& unknown() const { return unknown_; }

 private:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;
  using Block = torch::jit::Block;
  /// One run of a function.
  struct Frame {
    std::string path;  ///< of the module whose method it is
    std::unordered_map<const Value*, Item> items = {};
  };

  Result<Item> run(const torch::jit::Graph& graph, std::vector<Item> arguments, const std::string& path);
  Result<void> run(Frame& frame, const Block& block);
  Result<void> run(Frame& frame, const Node& node);
  Result<void> structure(Frame& frame, const Node& node, bool& done);
  Result<void> set_attribute(const Object& self, const std::string& name, const Item& item, const Location& where);
  Result<void> branch(Frame& frame, const Node& node);
  Result<void> loop(Frame& frame, const Node& node);
  Result<void> call_operator(Frame& frame, const Node& node);
  Result<void> unpack(Frame& frame, const Node& node, const std::vector<Item>& elements);
  Result<Item> item(const Frame& frame, const Value& value) const;
  Result<std::vector<Item>> items(const Frame& frame, const Node& node) const;
  std::string name(const Frame& frame, const Value& value) const;
  Location at(const Frame& frame, const Node& node) const;
  void stop_gradients(Call& call) const;

  const std::string& file_;
  State& state_;
  ir::Graph& graph_;
  ImportNotes& notes_;
  Growth& growth_;
  Counted counted_;
  uint64_t max_nodes_;
  uint64_t nodes_ = 0;
  uint32_t depth_ = 0;    ///< of calls
  uint32_t no_grad_ = 0;  ///< of blocks without gradients
  std::map<std::string, Unknown> unknown_;
};

}  // namespace rannc::frontend::torchscript
