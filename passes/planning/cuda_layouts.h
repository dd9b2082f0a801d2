/// Estimates what memory formats cost on a CUDA device without measured times.
#pragma once

#include <memory>

#include "ir/graph/graph.h"
#include "passes/planning/choose_kernels.h"

namespace rannc::passes {

/// Element types whose convolutions run on tensor cores.
enum class TensorCores { kSixteenBits, kSixteenBitsAndTf32 };

/// Times for `ChooseKernels` that follow from a graph, in bytes moved. A copy of a value reads and writes it, and its
/// gradient where it has one. A task costs what its kernels move beyond its operands and results:
///
/// | task | channels first | channels last |
/// |---|---|---|
/// | convolution on tensor cores | a copy of its operand and of its result: cuDNN's kernels have channels last | 0 |
/// | convolution of float32 without TF32, depthwise convolution on tensor cores | 0 | 0 |
/// | batch normalization in training | as much: LibTorch's kernels read channels first with strides | 0 |
/// | batch normalization by running or synchronised statistics, pooling | 0 | 0 |
/// | convolution of several groups of channels, depthwise convolution of float32 | 0 | unknown |
/// | any task of float64, which cuDNN computes channels first | unknown | unknown |
///
/// A single task with a cost therefore gains nothing from copies around it; two neighbors do. An unknown time keeps
/// channels first. Grouped convolutions are unknown because they are slower channels last in some networks (RegNet) and
/// faster in others (ResNeXt). Kernels other than LibTorch's choice are unknown.
class CudaLayouts final : public KernelTimes {
 public:
  /// `sizes` has all symbols of the graph but the batch symbol, whose value has no influence. A value of another size
  /// has unknown times.
  CudaLayouts(ir::Bindings sizes, TensorCores tensor_cores) : sizes_(std::move(sizes)), tensor_cores_(tensor_cores) {}

  std::string_view basis() const override { return "bytes moved"; }
  std::optional<double> ns(const ir::Graph& graph, TaskId task,
                           const std::vector<ir::GradientRole>& roles) const override;

 private:
  ir::Bindings sizes_;
  TensorCores tensor_cores_;
};

}  // namespace rannc::passes
