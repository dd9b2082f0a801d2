/// Runs a sequence of passes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "passes/pass.h"

namespace rannc::passes {

struct ManagerOptions {
  std::vector<std::string> print_after;  ///< names of passes after which the graph is printed
  bool print_changed = false;            ///< print it after each pass that changed it
  bool verify = true;      ///< check the G rules before the first pass and after each pass that changed the graph
  bool reproducer = true;  ///< keep a copy of the graph in case of failure
};

/// Run time of a pass, excluding its verification.
struct PassTime {
  std::string pass;
  int64_t ns = 0;
  bool changed = false;
  int64_t added_tasks = 0;  ///< negative: tasks were removed
};

/// Result of a pipeline run. After a failure the graph must not be used.
struct RunReport {
  std::vector<PassTime> times;        ///< of the passes that completed
  std::optional<Diagnostic> failure;  ///< with a note that names the pass
  bool internal =
      false;  ///< the failure is a bug in rannc: a check failed, or a pass left a graph that violates a rule
  /// On failure: text IR of the input graph, below a comment with the command line that repeats the run.
  std::string reproducer;

  bool ok() const { return !failure; }
  /// One line per pass: milliseconds, whether it changed the graph, its name.
  std::string time_table() const;
};

class PassManager {
 public:
  /// Called with the name of a pass and the text of the graph, followed by the text of the atoms if the pass wrote
  /// them.
  using Show = std::function<void(std::string_view pass, const std::string& text)>;

  void add(std::unique_ptr<Pass> pass) { passes_.push_back(std::move(pass)); }
  const std::vector<std::unique_ptr<Pass>>& passes() const { return passes_; }
  std::vector<std::string> names() const;
  /// Runs all passes in the order they were added, up to the first failure. `print_after` may only name passes that
  /// were added. After a pass that changed the graph, drops the facts in the context that the pass did not write
  /// itself.
  RunReport run(ir::Graph& graph, PassContext& context, const ManagerOptions& options = {},
                const Show& show = {}) const;

 private:
  std::vector<std::unique_ptr<Pass>> passes_;
};

}  // namespace rannc::passes
