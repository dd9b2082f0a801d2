/// Parameters and the sums of their gradients, without a model that makes them.
#pragma once

#include <ATen/ops/randn.h>

#include "runtime/engine/tensor.h"
#include "runtime/execute/program.h"

namespace rannc::testing {

/// What optimizers see of a stage.
class HeldTensors final : public runtime::Program {
 public:
  HeldTensors(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients) {
    for (const at::Tensor& parameter : parameters) parameters_.push_back(runtime::to_value(parameter));
    for (const at::Tensor& gradient : gradients) gradients_.push_back(runtime::to_value(gradient));
  }
  const runtime::Signature& signature() const override { return signature_; }
  void begin_step(const runtime::Carried&, runtime::StepKind) override {}
  Result<runtime::Values> forward(const runtime::At&, runtime::Values, runtime::Held&) override {
    return runtime::Values();
  }
  Result<void> recompute(const runtime::At&, runtime::Held&) override { return {}; }
  Result<runtime::Values> backward_input(const runtime::At&, runtime::Held&, runtime::Values, runtime::Held&) override {
    return runtime::Values();
  }
  Result<void> backward_weight(const runtime::At&, runtime::Held&, runtime::Held&) override { return {}; }
  runtime::Values statistics() override { return {}; }
  void set_statistics(runtime::Values) override {}
  Result<void> commit_buffers(uint64_t) override { return {}; }
  runtime::Values gradients(std::span<const uint32_t> indices) override {
    runtime::Values found;
    for (const uint32_t index : indices) found.push_back(gradients_[index]);
    return found;
  }
  void set_gradients(std::span<const uint32_t> indices, runtime::Values gradients) override {
    for (size_t i = 0; i < indices.size(); ++i) gradients_[indices[i]] = std::move(gradients[i]);
  }
  const runtime::Values& parameters() const override { return parameters_; }
  const runtime::Values& buffers() const override { return buffers_; }

 private:
  runtime::Signature signature_;
  runtime::Values parameters_, gradients_, buffers_;
};

/// Normally distributed numbers, float32.
inline std::vector<at::Tensor> made_up_tensors(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<at::Tensor> tensors;
  for (const auto& shape : shapes) tensors.push_back(at::randn(shape));
  return tensors;
}

}  // namespace rannc::testing
