/// Sums of tensors over devices in the order of the members, by messages.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <span>

#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"

namespace rannc::runtime {

/// Messages between the members of a sum, which run together.
class SumExchange {
 public:
  virtual ~SumExchange() = default;
  virtual void send(DeviceId to, const at::Tensor& tensor) = 0;
  virtual void receive(DeviceId from, const at::Tensor& into) = 0;
  /// Runs all messages. The tensors received may then be read on the current stream, and the tensors sent be freed.
  virtual Result<void> finish() = 0;
};

using BeginExchange = std::function<std::unique_ptr<SumExchange>()>;

/// Returns the sum over `members` in their order, bit-identical on every member. All call it with tensors of one type
/// and shape. `self` is one of the members.
Result<at::Tensor> ordered_sum(std::span<const DeviceId> members, DeviceId self, const at::Tensor& tensor,
                               const BeginExchange& begin);

}  // namespace rannc::runtime
