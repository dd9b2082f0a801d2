/// Checks numerically that batched execution matches per-sample execution.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::tools {

/// Result of a comparison that found no difference.
struct Compared {
  std::string not_compared;  ///< why nothing was compared; empty: everything agrees
  bool too_large = false;    ///< because a run exceeds the limits
};

/// Limits on the cost of a comparison.
struct CompareLimits {
  double free_bytes = 0;  ///< of memory
  double flops = 1e12;    ///< about a minute of a core
};

/// Checks the graph `made`, which a pass made batch-polymorphic. Runs it in double precision, in evaluation mode, on
/// distinct synthetic samples: a whole mini-batch, its samples one by one, and a mini-batch of another size. Also runs
/// `file`, the graph as read, which was made for `samples`. With the file's number of samples, all outputs must agree;
/// with others, those that have a batch axis or do not depend on the number of samples.
///
/// This is independent of the proofs by types (passes/batch/rebatch.h), which rely on rules of more than a hundred
/// operators. The tolerance is 1e-8 of an output's largest number. Operators sum in another order for other numbers of
/// samples, which changes about 1e-16 of the terms; a thousand of them in a row stay far below 1e-8. In contrast, a
/// value that leaks from another sample, or is missing, changes the leading digits. Random numbers belong to each
/// sample (`runtime/execute/random.h`) and are the same in both graphs.
///
/// Returns an error at the task that computes a differing output, with both numbers. Returns a reason in `not_compared`
/// if weights are absent, a loop ends depending on data, the graph does not run on synthetic samples, the run exceeds
/// `limits`, or the outputs are equal for all samples. `symbols` has known sizes other than the batch; the others
/// become 8, or what `planning_sizes` finds near it.
Result<Compared> compare_with_file(const ir::Graph& file, const ir::Graph& made, int64_t samples,
                                   const ir::Bindings& symbols, const CompareLimits& limits);

/// A loss that the graph of a file, made for `samples`, computes itself: the weighted sum of these outputs.
struct FileLoss {
  const ir::Graph& graph;
  int64_t samples;
  std::vector<std::pair<ValueId, double>> outputs;
  double tolerance = 1e-4;  ///< relative; constants may have been computed in the precision of the file
};

/// Checks a graph with losses after all passes in the same way: its outputs, and the numerators of its losses, to which
/// those of the samples must sum. If the file computes the loss itself, the result must match it.
Result<Compared> compare_losses(const ir::Graph& graph, const std::optional<FileLoss>& file,
                                const ir::Bindings& symbols, const CompareLimits& limits);

/// Checks that the losses and totals of `graph` give the loss that the file computes, on synthetic samples. Not
/// compared if a run exceeds `limits`.
Result<Compared> compare_loss(const ir::Graph& graph, const FileLoss& file, const ir::Bindings& symbols,
                              const CompareLimits& limits);

}  // namespace rannc::tools
