/// Runs a foreign operator on made-up operands of given sizes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "ir/op/foreign.h"

namespace rannc::frontend::torchscript {

/// What floats of operands are: some operators take but some matrices, or numbers of one sign.
enum class Numbers : uint8_t { kNormal, kUniform, kPositiveDefinite, kOnes };
constexpr Numbers kAllNumbers[] = {Numbers::kNormal, Numbers::kUniform, Numbers::kPositiveDefinite, Numbers::kOnes};

using Operands = std::vector<std::optional<at::Tensor>>;

class ForeignRun {
 public:
  /// `call` has schema, operands, arguments and the types of operands.
  ForeignRun(c10::OperatorHandle handle, const ir::ForeignCall& call) : handle_(std::move(handle)), call_(call) {}

  /// Tensors of the operands' types. Integers are 0 or 1, but for known contents; the same for the same seed.
  Result<Operands> operands(const ir::Bindings& sizes, at::Device device, Numbers numbers, uint64_t seed) const;
  /// The results on meta tensors whose sizes are the expressions (`symbolic_size`). What kernels throw is thrown.
  Result<std::vector<at::Tensor>> symbolic() const;
  /// The results. What kernels throw is thrown.
  Result<std::vector<at::Tensor>> operator()(const Operands& operands, const ir::Bindings& sizes,
                                             at::Device device) const;

 private:
  /// Without sizes: they are expressions.
  Result<std::vector<at::Tensor>> run(const Operands& operands, const ir::Bindings* sizes, at::Device device) const;
  Result<c10::IValue> argument(const c10::Argument& parameter, const Operands& operands, const ir::Bindings* sizes,
                               at::Device device) const;

  c10::OperatorHandle handle_;
  const ir::ForeignCall& call_;
};

/// What the first line of an exception's text says.
std::string first_line(const std::exception& failure);

}  // namespace rannc::frontend::torchscript
