/// Modules of a few lines of TorchScript, imported and run beside LibTorch's own run of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "ir/base/diagnostic.h"

namespace rannc::test {

/// A module that was saved where it is removed again.
class SavedModule {
 public:
  /// `source` are methods, `forward` among them; `prepare` registers parameters and buffers before they are compiled.
  explicit SavedModule(const std::string& source, const std::function<void(torch::jit::Module&)>& prepare = {});
  SavedModule(const SavedModule&) = delete;
  SavedModule& operator=(const SavedModule&) = delete;
  ~SavedModule();
  const std::string& path() const { return path_; }
  torch::jit::Module& module() { return module_; }

 private:
  torch::jit::Module module_;
  std::string path_;
};

/// `x=f64[batch,3]` for each tensor, in order: x, y, z … Samples lie on the first axis of those that have one.
std::vector<std::string> input_flags(const std::vector<at::Tensor>& inputs, bool samples = true);

/// Imports the module, runs it on the inputs, and compares with LibTorch's run of it; in doubles to 1e-12. Empty: all
/// outputs are equal, in type and shape too; else what differs, or the diagnostic.
std::string difference(SavedModule& module, const std::vector<at::Tensor>& inputs, bool samples = true,
                       std::optional<int64_t> max_trips = {});

/// Imports the module and compares its gradients of the sum of all float outputs with those of LibTorch's tape, by the
/// inputs, which are doubles without samples. Empty: all are equal; else what differs, or the diagnostic.
std::string gradient_difference(SavedModule& module, const std::vector<at::Tensor>& inputs);

}  // namespace rannc::test
