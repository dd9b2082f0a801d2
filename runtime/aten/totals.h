/// Computes numbers of a whole mini-batch: counts before a step, metrics after it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/aten/graph_run.h"

namespace rannc::runtime {

using Tensors = std::vector<at::Tensor>;

/// The bodies of a graph's totals with their stored values. Runs on the processor, without a tape. Immutable.
class TotalsRun {
 public:
  /// Keeps no reference to the graph. An error names a stored value that has no bytes.
  static Result<TotalsRun> load(const ir::Graph& graph);

  /// Inputs of the graph that a count reads.
  std::vector<std::string> inputs(size_t count) const;
  /// What each of some samples adds to a count, with the samples on axis 0; without a batch symbol the count itself.
  /// `sizes` has all symbols, the batch symbol with the number of these samples.
  using InputOf = std::function<Result<at::Tensor>(const std::string& name)>;
  Result<at::Tensor> rows(size_t count, const InputOf& input, const ir::Bindings& sizes) const;
  /// A count of which every sample adds 0, for so many samples.
  at::Tensor no_rows(size_t count, int64_t samples) const;
  /// The count of these rows of all samples, in their order.
  at::Tensor total(const at::Tensor& rows) const;

  /// Counts samples that one process has.
  Result<Tensors> count(const InputOf& input, const ir::Bindings& sizes) const;

  /// Coefficients for all counts, in order.
  Result<Tensors> coefficients(const Tensors& counts) const;
  /// Factor and divisor of a loss term.
  ir::TermScale scale(const ir::LossTerm& term, const Tensors& coefficients) const;
  /// Metrics by name.
  Result<std::map<std::string, at::Tensor>> metrics(const Tensors& sums, const Tensors& counts) const;

 private:
  struct Part {
    ir::Body body;
    GraphValues stored;
  };
  static Result<Part> load(const ir::Body& body);
  static Result<Tensors> run(const Part& part, const Tensors& inputs, const ir::Bindings& sizes);

  bool divides_ = false;  ///< whether the graph has a batch symbol
  std::vector<Part> counts_;
  std::optional<Part> coefficients_, metrics_;
};

/// The counts that a coefficient of the graph depends on.
std::vector<uint32_t> counts_of_coefficient(const ir::Graph& graph, uint32_t coefficient);

}  // namespace rannc::runtime
