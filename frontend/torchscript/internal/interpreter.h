/// Interprets a TorchScript program symbolically, turning operator calls into tasks.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/import.h"
#include "frontend/internal/growth.h"
#include "frontend/torchscript/internal/calls.h"
#include "frontend/torchscript/internal/control.h"
#include "frontend/torchscript/internal/state.h"

namespace rannc::frontend::torchscript {

class Interpreter {
 public:
  /// All arguments must outlive the interpreter.
  Interpreter(const std::string& file, State& state, ir::Graph& graph, ImportNotes& notes, Growth& growth,
              const ImportOptions& options)
      : file_(file), state_(state), root_{graph}, notes_(notes), growth_(growth), options_(options), calls_(notes) {}

  /// Returns the result of a method. `arguments` does not include `self`.
  Result<Item> call(const Object& self, const std::string& method, std::vector<Item> arguments);
  /// The error for calls that could not be translated. The interpretation continued without their results.
  std::optional<Diagnostic> fault() const { return calls_.fault(file_); }
  bool lost_state() const { return calls_.lost_state(); }
  const std::vector<BufferWrite>& buffer_writes() const { return calls_.buffer_writes(); }

 private:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;
  using Block = torch::jit::Block;
  /// One run of a function.
  struct Frame {
    std::string path;  ///< path of the module that the method belongs to
    std::unordered_map<const Value*, Item> items = {};
  };

  Result<Item> run(const torch::jit::Graph& graph, std::vector<Item> arguments, const std::string& path);
  Result<void> run(Frame& frame, const Block& block);
  Result<void> run(Frame& frame, const Node& node);
  /// Handler of a node that is no operator call, by node kind.
  using Structure = Result<void> (Interpreter::*)(Frame& frame, const Node& node);
  static const std::unordered_map<c10::Symbol, Structure>& structures();
  Result<void> constant(Frame& frame, const Node& node);
  Result<void> branch(Frame& frame, const Node& node);
  Result<void> loop(Frame& frame, const Node& node);
  Result<void> get_attribute(Frame& frame, const Node& node);
  Result<void> set_attribute(Frame& frame, const Node& node);
  Result<void> call_method(Frame& frame, const Node& node);
  Result<void> call_function(Frame& frame, const Node& node);
  Result<void> create_object(Frame& frame, const Node& node);
  Result<void> enter_or_leave(Frame& frame, const Node& node);
  Result<void> make_sequence(Frame& frame, const Node& node);
  Result<void> make_dictionary(Frame& frame, const Node& node);
  Result<void> unpack_sequence(Frame& frame, const Node& node);
  Result<void> nothing(Frame& frame, const Node& node);
  Result<void> unsupported(Frame& frame, const Node& node);
  Result<Object> object(const Frame& frame, const Node& node) const;
  // Data-dependent control flow (tasks with bodies).
  Result<void> branch_of_data(Frame& frame, const Node& node, const Item& condition);
  Result<void> loop_of_data(Frame& frame, const Node& node, const Loop& loop, int64_t done);
  Result<std::vector<Item>> run_inside(const Site& site, Region& inside, const Frame& frame, const Block& block,
                                       const std::vector<Item>& given);
  /// Returns an item of the model's graph as seen from the region that the program runs in.
  Result<Item> seen_here(const Item& item, Region& region, const Location& where);
  Site site(const Frame& frame, const Node& node);
  Result<void> call_operator(Frame& frame, const Node& node);
  Result<void> unpack(Frame& frame, const Node& node, const std::vector<Item>& elements);
  Result<Item> item(const Frame& frame, const Value& value) const;
  Result<std::vector<Item>> items(const Frame& frame, const Node& node) const;
  std::string name(const Frame& frame, const Value& value) const;
  Location at(const Frame& frame, const Node& node) const;

  const std::string& file_;
  State& state_;
  Region root_;              ///< the model's graph
  Region* region_ = &root_;  ///< region that tasks are added to
  ImportNotes& notes_;
  Growth& growth_;
  const ImportOptions& options_;
  uint64_t nodes_ = 0;
  uint32_t depth_ = 0;  ///< call depth
  Calls calls_;
};

}  // namespace rannc::frontend::torchscript
