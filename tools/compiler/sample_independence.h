/// Whether a mini-batch is computed as its samples are one by one: by numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::tools {

/// What became of a comparison that found nothing wrong.
struct Compared {
  std::string left_out;  ///< why nothing was compared; empty: all agrees
};

/// How far a comparison goes.
struct CompareLimits {
  double free_bytes = 0;  ///< of memory
  double flops = 1e12;    ///< about a minute of a core
};

/// Runs a graph of which a pass says that it takes any number of samples on made-up ones that differ, in double
/// precision, in evaluation: a whole mini-batch, its samples one by one, a mini-batch of another size; and the graph as
/// its file has it, made for `samples`. All outputs must agree, of the file's number of samples all, of others those
/// that have samples or do not ask for them.
///
/// Proofs by types (passes/batch/rebatch.h) are not doubted; they stand on rules of more than a hundred operators, and
/// this does not. Within 1e-8 of the largest number of an output: operators add up in another order for other numbers
/// of samples, which changes 1e-16 of what is added, and some thousand of them in a row are far from 1e-8, while what a
/// sample takes from another one, or lacks, differs in the first digits, as the samples do. Random numbers are those of
/// each sample (`runtime/execute/random.h`), the same in both graphs.
///
/// An error at the task that makes an output that differs, with both numbers. Not compared, with the reason: weights
/// that are absent, a loop that ends when its data say so, a graph that does not run on made-up samples, one that needs
/// more than `limits`, or whose outputs are alike for all samples. `symbols`: sizes other than the batch, as far as
/// they are known; others become 8, or what the graph's assumptions allow.
Result<Compared> compare_with_file(const ir::Graph& file, const ir::Graph& made, int64_t samples,
                                   const ir::Bindings& symbols, const CompareLimits& limits);

/// A loss that the graph of a file, made for `samples`, computes itself: the sum of these outputs times their weights.
struct FileLoss {
  const ir::Graph& graph;
  int64_t samples;
  std::vector<std::pair<ValueId, double>> outputs;
};

/// The same of a graph with losses after all passes: outputs, and the numerators of its losses, which those of the
/// samples must add up to. Where the file computes the loss itself, what was made of it must be that, within 1e-4:
/// constants were computed beforehand in the precision of the file.
Result<Compared> compare_losses(const ir::Graph& graph, const std::optional<FileLoss>& file,
                                const ir::Bindings& symbols, const CompareLimits& limits);

}  // namespace rannc::tools
