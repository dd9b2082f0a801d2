/// Sums the gradients of a stage's parameters under LibTorch's autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "runtime/execute/program.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// The leaves of a stage's tapes. A leaf is a view of a parameter, one per task that reads it, and holds the sum of its
/// gradients over micro-batches; autograd adds to it. A total is the sum over all leaves of a parameter.
class ParameterSums {
 public:
  /// `leaves` and `parameters` must outlive the object; their tensors are not copied.
  ParameterSums(const std::vector<Leaf>& leaves, const Values& parameters)
      : signature_(leaves), parameters_(parameters) {}

  /// Creates the leaves, once all parameters are there.
  void create();
  const std::vector<at::Tensor>& leaves() const { return leaves_; }

  /// Makes a leaf accept sparse gradients of the rows that were read. The sum is allocated when the first rows arrive:
  /// by then autograd has freed most of its saved tensors.
  void accept_rows(size_t leaf);

  /// Begins a step. `carried`: per parameter, whether its sum continues; empty: none.
  void begin_step(const std::vector<bool>& carried);
  /// Gives every sum its own memory. With one sample, gradients of two leaves may be views of the same memory (for
  /// example two concatenated class tokens). Autograd stores both unchanged, and adding to one would also change the
  /// other.
  void separate() const;
  /// Copies every sum and total into memory of its own.
  void own();
  /// Returns the totals of parameters. They share memory with the leaves until the next step.
  Values totals(std::span<const uint32_t> parameters);
  /// Replaces totals, by those over all replicas.
  void set_totals(std::span<const uint32_t> parameters, Values totals);

 private:
  /// Sums the leaves of a parameter in place in the first leaf's sum, which saves a copy of large tables.
  at::Tensor take_total(uint32_t parameter);

  const std::vector<Leaf>& signature_;
  const Values& parameters_;
  std::vector<at::Tensor> leaves_;
  Values totals_;  ///< per parameter; null if not summed yet
};

}  // namespace rannc::runtime
