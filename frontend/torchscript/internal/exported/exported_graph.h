/// Translates the graphs of an exported program, turning operator calls into tasks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/internal/bodies.h"
#include "frontend/internal/growth.h"
#include "frontend/torchscript/internal/calls.h"
#include "frontend/torchscript/internal/exported/exported_values.h"

namespace rannc::frontend::torchscript {

class ExportedGraph {
 public:
  /// All arguments must outlive this object. `file` is the archive's path.
  ExportedGraph(const std::string& file, uint64_t bytes, const ImportOptions& options, ImportNotes& notes)
      : file_(file), options_(options), notes_(notes), growth_(bytes), calls_(notes) {}

  /// Returns the results of a graph in order. `names` contains its inputs. Throws a `std::exception` if the JSON does
  /// not match the schema.
  Result<std::vector<Item>> run(Names names, Region& into, const Json& graph) {
    return run(Frame{std::move(names), 0}, into, graph);
  }
  /// The error for calls that could not be translated. The translation continued without their results.
  std::optional<Diagnostic> fault() const { return calls_.fault(file_); }
  bool lost_state() const { return calls_.lost_state(); }
  const std::vector<BufferWrite>& buffer_writes() const { return calls_.buffer_writes(); }
  uint64_t nodes() const { return nodes_; }

 private:
  using Items = std::vector<Item>;
  struct Frame {
    Names names;
    int depth = 0;
    bool autocast = false;        ///< whether it lies in a region of enabled autocast
    const Json* types = nullptr;  ///< types of the graph's tensors by name
  };
  /// Operands of an operator that calls graphs.
  struct Operands {
    std::vector<const Json*> graphs;
    Items items;  ///< all operands except graphs, in order
  };

  Result<Items> run(Frame frame, Region& into, const Json& graph);
  Result<Items> run_in_place(const Frame& around, Region& into, const Json& graph, const Items& given);
  Result<Items> run_operator(Region& into, const Location& place, const std::string& schema,
                             std::vector<Call::Argument> arguments, const std::string& name);
  Result<void> autocast(const Frame& frame, Region& into, const Location& place, const std::string& result,
                        std::vector<Call::Argument>& arguments);
  Result<void> run_node(Frame& frame, Region& into, const Json& node);
  Result<Items> call(const Frame& frame, Region& into, const Json& node, const Location& place);
  Result<Items> call_of_graphs(const Frame& frame, Region& into, const std::string& name, const Json& node,
                               const Location& place);
  Result<Items> called(const Frame& frame, Region& into, const std::string& name, const Operands& of, const Json& node,
                       const Location& place);
  Result<Items> branch(const Frame& frame, Region& into, const Operands& of, const Location& place, std::string stem);
  Result<Items> loop(const Frame& frame, Region& into, const Operands& of, const Location& place, std::string stem);
  Result<Items> unrolled(const Frame& frame, Region& into, const Operands& of, const Location& place,
                         const std::string& stem);
  Location place_of(const Json& node) const;

  const std::string& file_;
  const ImportOptions& options_;
  ImportNotes& notes_;
  Growth growth_;
  Calls calls_;
  uint64_t nodes_ = 0;
};

}  // namespace rannc::frontend::torchscript
