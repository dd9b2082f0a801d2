/// Compiles a plan into a temporary folder and runs steps of it, a thread per device.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/execute/executor.h"

namespace rannc::testing {

/// Feeds tensors of a whole mini-batch by name.
class TensorFeed final : public runtime::Feed {
 public:
  explicit TensorFeed(std::map<std::string, at::Tensor> tensors) : tensors_(std::move(tensors)) {}
  Result<runtime::Value> input(const runtime::Port& port, ir::SampleRange samples) override;
  const at::Tensor& at(const std::string& name) const { return tensors_.at(name); }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

struct Numbers {
  double loss = 0;
  std::map<std::string, at::Tensor> outputs;
  std::map<std::string, at::Tensor> gradients;
  std::map<std::string, at::Tensor> buffers;  ///< after the last step
  uint64_t peak_bytes = 0;                    ///< largest live_bytes of an action on any device
};

struct RunOptions {
  uint64_t step = 0, seed = 0;
  bool training = true;
  uint32_t steps = 1;   ///< gradients and outputs are those of the last
  std::string engine;   ///< empty: the default
  bool loops = false;   ///< of engine `native`
  bool commit = false;  ///< running statistics are updated; parameters stay
  bool overlaps_sums = true;
  /// By device; empty: tensors are handed over.
  std::span<const std::unique_ptr<runtime::Transport>> transports = {};
};

/// The folder of the build in which tests keep compiled stages, by the digest of all that they are compiled from.
std::string compiled_stages();

/// Loss terms are weighted by weight / denominator, the denominator counted by hand: `denominators`, one per term.
Numbers run_locally(const ir::Plan& plan, const std::map<std::string, at::Tensor>& batch,
                    const std::vector<double>& denominators, const RunOptions& options = {});

}  // namespace rannc::testing
