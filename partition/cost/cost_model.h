/// What a task costs on a device: one interface, several sources.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "partition/cluster.h"

namespace rannc::partition {

/// Times and bytes of one task for one number of samples. Without a `together_ns` B is I + W. The bytes are those of
/// the task alone, as a measurement finds them; what tasks of one stage keep together follows from the graph (`Tape`).
struct TaskCost {
  double forward_ns = 0;
  double input_gradient_ns = 0;
  double weight_gradient_ns = 0;
  double recompute_ns = 0;     ///< of the forward pass again; usually `forward_ns`
  double saved_bytes = 0;      ///< kept from F to I and W
  double pending_bytes = 0;    ///< kept from I to W
  double temporary_bytes = 0;  ///< live only while it runs
  double together_ns = 0;      ///< of I and W in one pass, where that was priced: they share work and a start
  double backward_ns() const { return together_ns > 0 ? together_ns : input_gradient_ns + weight_gradient_ns; }
  /// The part of `backward_ns` that makes weight gradients. Where both were priced in one pass they share work: each
  /// has its part of it.
  double late_ns() const {
    const double parts = input_gradient_ns + weight_gradient_ns;
    return parts > 0 ? backward_ns() * weight_gradient_ns / parts : 0;
  }
  bool operator==(const TaskCost&) const = default;
};

/// What is known of a task without running it.
struct TaskFacts {
  /// Structure: operator, attributes, dtypes, and shapes with the batch as a symbol. Equal tasks have equal keys; names
  /// of tasks and values are no part of it.
  std::string key;
  std::string what;            ///< for messages: operator and name
  double flops = 0;            ///< of the forward pass at these samples
  double traffic_bytes = 0;    ///< read and written by the forward pass
  double parameter_bytes = 0;  ///< trained; 0: no weight gradient
  double saved_bytes = 0;      ///< activations that its backward pass reads
  bool needs_input_gradient = true;
};

/// Prices one task. Implementations are immutable: one object may serve many threads.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// `facts` are those for `samples` >= 1. A diagnostic where the model does not know the task.
  virtual Result<TaskCost> price(const TaskFacts& facts, uint64_t samples, const DeviceKind& device) const = 0;
  /// Identifies the numbers behind the prices; goes into the plan. Empty: derived from the cluster alone.
  virtual std::string fingerprint() const = 0;
};

}  // namespace rannc::partition
