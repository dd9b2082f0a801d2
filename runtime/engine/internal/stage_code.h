/// Calls the TorchScript program of a stage.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/engine/internal/sync_batch_norm.h"
#include "runtime/execute/program.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// Tensors of a stage's program, in the order of its signature.
struct StageTensors {
  Values parameters, buffers;
  std::vector<at::Tensor> constants;
};

/// The program, ready to run. Refers to the signature and the tensors, which must outlive it.
class StageCode {
 public:
  StageCode(const Signature& signature, const StageTensors& tensors, torch::jit::Module module, std::string path,
            Device& device)
      : signature_(signature), tensors_(tensors), module_(std::move(module)), path_(std::move(path)), device_(device) {}

  /// Checks that the program's arguments and results match the signature. [B8]
  Result<void> check() const;
  /// Compiles the program. Returns the leaves of large tables, whose look-ups have sparse gradients of the rows that
  /// were read: a micro-batch reads few rows, and zero-filling and adding a gradient of the table's size would take
  /// longer than the layer. Rows are summed before they are added, so that the sums are bit-identical to those of dense
  /// gradients.
  Result<std::vector<size_t>> prepare();

  /// Runs the program. Throws LibTorch's exceptions; the message of one names the failing task.
  Result<std::vector<at::Tensor>> call(const At& at, const std::vector<at::Tensor>& inputs,
                                       const std::vector<at::Tensor>& leaves);
  SyncBatchNorm& norms() { return norms_; }

 private:
  /// Returns the arguments of `forward`.
  Result<torch::jit::Stack> arguments(const At& at, const std::vector<at::Tensor>& inputs,
                                      const std::vector<at::Tensor>& leaves) const;
  /// Repeats a failed call to throw its exception with the failing task. This requires the program's source locations,
  /// which are not loaded by default because they are as large as a small model's weights.
  Result<void> fail_again(const At& at, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& leaves);
  std::vector<size_t> use_row_gradients(torch::jit::Graph& graph) const;

  const Signature& signature_;
  const StageTensors& tensors_;
  torch::jit::Module module_;
  std::string path_;  ///< of the program
  Device& device_;
  SyncBatchNorm norms_;  ///< before the code, which calls it
  torch::jit::Code code_;
};

}  // namespace rannc::runtime
