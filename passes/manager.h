/// Runs passes one after another.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "passes/pass.h"

namespace rannc::passes {

struct ManagerOptions {
  std::vector<std::string> print_after;  ///< names of passes after which the graph is shown
  bool print_changed = false;            ///< show it after each pass that changed it
  bool verify = true;      ///< check the rules G before the first pass and after each that changed the graph
  bool reproducer = true;  ///< keep a copy of the graph for the case of a failure
};

/// How long a pass took, its verification aside.
struct PassTime {
  std::string pass;
  int64_t ns = 0;
  bool changed = false;
  int64_t added_tasks = 0;  ///< less than 0: there are fewer
};

/// How a pipeline went. On failure the graph is of no further use.
struct RunReport {
  std::vector<PassTime> times;        ///< of the passes that ended
  std::optional<Diagnostic> failure;  ///< with a note that names the pass
  bool internal = false;  ///< the failure is ours: a check failed, or a pass left a graph that breaks a rule
  /// On failure: text IR of the graph the pipeline began with, under a comment with the command line that repeats it.
  std::string reproducer;

  bool ok() const { return !failure; }
  /// A line per pass: milliseconds, whether it changed the graph, its name.
  std::string time_table() const;
};

class PassManager {
 public:
  /// Called with a pass's name and the graph's text, followed by that of the atoms where the pass wrote them.
  using Show = std::function<void(std::string_view pass, const std::string& text)>;

  void add(std::unique_ptr<Pass> pass) { passes_.push_back(std::move(pass)); }
  const std::vector<std::unique_ptr<Pass>>& passes() const { return passes_; }
  std::vector<std::string> names() const;
  /// Runs all passes in the order they were added, up to the first failure. `print_after` may only name passes that
  /// were added. Facts of the context that a changing pass did not write itself are dropped after it.
  RunReport run(ir::Graph& graph, PassContext& context, const ManagerOptions& options = {},
                const Show& show = {}) const;

 private:
  std::vector<std::unique_ptr<Pass>> passes_;
};

}  // namespace rannc::passes
