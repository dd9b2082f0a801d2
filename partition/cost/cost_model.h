/// Defines the interface of cost models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "partition/cluster.h"

namespace rannc::partition {

/// Times and bytes of one execution of a task for one number of samples. A once-per-step task runs in P and E instead
/// of F and B. Without `together_ns`, B takes I + W. The bytes are those of the task alone, as measured. What the tasks
/// of one stage keep together follows from the graph (`TaskMemory`).
struct TaskCost {
  double forward_ns = 0;
  double input_gradient_ns = 0;
  double weight_gradient_ns = 0;
  double recompute_ns = 0;     ///< of the forward pass as part of R; 0: as `forward_ns`
  double saved_bytes = 0;      ///< kept from F to I and W
  double pending_bytes = 0;    ///< kept from I to W
  double temporary_bytes = 0;  ///< live only while the task runs
  double together_ns = 0;      ///< of I and W in one pass, if priced so: they share work and launch overhead
  double rebuild_ns() const { return recompute_ns > 0 ? recompute_ns : forward_ns; }
  double backward_ns() const { return together_ns > 0 ? together_ns : input_gradient_ns + weight_gradient_ns; }
  /// The part of `backward_ns` that computes weight gradients. I and W priced in one pass share work, so the time is
  /// divided in proportion.
  double late_ns() const {
    const double parts = input_gradient_ns + weight_gradient_ns;
    return parts > 0 ? backward_ns() * weight_gradient_ns / parts : 0;
  }
  bool operator==(const TaskCost&) const = default;
};

/// The kernels that compute a task, where a model tells them apart.
enum class KernelFamily : uint8_t {
  kOther,
  kProduct,
  kConvolution,
  kAttention,
  kFlashAttention,  ///< attention that flash kernels compute on devices that have them
  kBatchNorm,
  kBatchNormChannelsLast
};

/// Properties of a task that are known without running it.
struct TaskFacts {
  /// Structure: operator, attributes, dtypes, and shapes with the batch as a symbol. Equal tasks have equal keys. The
  /// key does not contain names of tasks and values.
  std::string key;
  std::string what;            ///< for messages: operator and name
  double flops = 0;            ///< of the forward pass at these samples
  double traffic_bytes = 0;    ///< read and written by the forward pass
  double parameter_bytes = 0;  ///< operands whose gradient W sums over micro-batches; 0: no weight gradient
  double saved_bytes = 0;      ///< activations that its backward pass reads
  bool needs_input_gradient = true;
  ir::DType dtype = ir::DType::kF32;  ///< of its arithmetic
  KernelFamily family = KernelFamily::kOther;
  double results = 0;  ///< elements of the first result
};

/// Prices one task. Implementations are immutable and may be shared between threads.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// `facts` must be those for `samples` >= 1. Fails if the model cannot price the task.
  virtual Result<TaskCost> price(const TaskFacts& facts, uint64_t samples, const DeviceKind& device) const = 0;
  /// Identifies the numbers behind the prices; stored in the plan. Empty: derived from the cluster alone.
  virtual std::string fingerprint() const = 0;
};

}  // namespace rannc::partition
