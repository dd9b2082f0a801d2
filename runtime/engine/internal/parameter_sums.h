/// Sums the gradients of a stage's parameters over micro-batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "runtime/execute/program.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// One sum per leaf, that is, per task that reads a parameter. A total is the sum over all leaves of a parameter.
class ParameterSums {
 public:
  /// `leaves` and `parameters` must outlive the object; their tensors are not copied.
  ParameterSums(const std::vector<Leaf>& leaves, const Values& parameters)
      : leaves_(leaves), parameters_(parameters), sums_(leaves.size()) {}

  /// The sum of each leaf, for programs that add to it; undefined before its first term. Of the sum's type.
  std::vector<at::Tensor>& sums() { return sums_; }

  /// Begins a step. `carried`: per parameter, whether its sum continues; empty: none.
  void begin_step(const std::vector<bool>& carried);
  /// Copies every sum and total into memory of its own.
  void own();
  /// Returns the totals of parameters. They share memory with the sums until the next step.
  Values totals(std::span<const uint32_t> parameters);
  /// Replaces totals, by those over all replicas.
  void set_totals(std::span<const uint32_t> parameters, Values totals);

 private:
  /// Sums the leaves of a parameter in place in the first leaf's sum, which saves a copy of large tables.
  at::Tensor take_total(uint32_t parameter);

  const std::vector<Leaf>& leaves_;
  const Values& parameters_;
  std::vector<at::Tensor> sums_;
  Values totals_;  ///< per parameter; null if not summed yet
};

}  // namespace rannc::runtime
