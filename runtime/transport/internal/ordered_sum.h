/// Sums and copies of tensors over devices by messages, in the order of the members.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

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

/// Tensors by member.
using TensorsByMember = std::vector<std::vector<at::Tensor>>;

/// Returns the sums of all members' `terms` in the order of `members`, bit-identical on every member. All call it with
/// tensors of the same types and shapes. `self` is one of the members. Takes two exchanges at most, however many
/// tensors there are.
Result<std::vector<at::Tensor>> ordered_sums(std::span<const DeviceId> members, DeviceId self,
                                             const std::vector<at::Tensor>& terms, const BeginExchange& begin);

/// `Transport::reduce_scatter` in one exchange. `terms` are contiguous.
Result<std::vector<at::Tensor>> scattered_sums(std::span<const DeviceId> members, DeviceId self,
                                               const TensorsByMember& terms, const BeginExchange& begin);

/// `Transport::all_gather` in one exchange. `parts` are contiguous.
Result<void> gather_parts(std::span<const DeviceId> members, DeviceId self, const TensorsByMember& parts,
                          const BeginExchange& begin);

}  // namespace rannc::runtime
