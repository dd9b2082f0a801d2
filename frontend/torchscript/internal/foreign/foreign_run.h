/// Runs a foreign operator on synthetic operands of given sizes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "ir/op/foreign.h"

namespace rannc::frontend::torchscript {

/// Kind of float operands. Some operators accept only certain matrices or numbers of one sign.
enum class Numbers : uint8_t { kNormal, kUniform, kPositiveDefinite, kOnes };
constexpr Numbers kAllNumbers[] = {Numbers::kNormal, Numbers::kUniform, Numbers::kPositiveDefinite, Numbers::kOnes};

using Operands = std::vector<std::optional<at::Tensor>>;

class ForeignRun {
 public:
  /// `call` must have schema, operands, arguments and operand types.
  ForeignRun(c10::OperatorHandle handle, const ir::ForeignCall& call) : handle_(std::move(handle)), call_(call) {}

  /// Returns tensors of the operands' types, deterministic for a seed. Integers without known contents are 0 or 1.
  Result<Operands> operands(const ir::Bindings& sizes, at::Device device, Numbers numbers, uint64_t seed) const;
  /// Returns the results on meta tensors with symbolic sizes (`symbolic_size`). Propagates exceptions of kernels.
  Result<std::vector<at::Tensor>> symbolic() const;
  /// Returns the results. Propagates exceptions of kernels.
  Result<std::vector<at::Tensor>> operator()(const Operands& operands, const ir::Bindings& sizes,
                                             at::Device device) const;

 private:
  /// `sizes` is null for symbolic sizes.
  Result<std::vector<at::Tensor>> run(const Operands& operands, const ir::Bindings* sizes, at::Device device) const;
  Result<c10::IValue> argument(const c10::Argument& parameter, const Operands& operands, const ir::Bindings* sizes,
                               at::Device device) const;

  c10::OperatorHandle handle_;
  const ir::ForeignCall& call_;
};

/// The first line of an exception's text.
std::string first_line(const std::exception& failure);

}  // namespace rannc::frontend::torchscript
