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

/// Terms go to the members that add them. Totals go from there to all members. The exchanges of one phase have the
/// order of their sums on all members; those of different phases never wait for each other.
enum class SumPhase : uint8_t { kTerms, kTotals };

using BeginExchange = std::function<std::unique_ptr<SumExchange>(SumPhase)>;

/// Tensors by member.
using TensorsByMember = std::vector<std::vector<at::Tensor>>;

/// A sum of tensors in the order of `members`, of which `self` is one. All members make it with tensors of the same
/// types and shapes, which are contiguous. A new sum has its receive buffers, has sent its terms and expects those of
/// others. `add` and `finish` follow, once each.
class OrderedSum {
 public:
  /// `Transport::all_reduce`, in two exchanges at most, however many tensors there are. `sums` are the places of the
  /// results, which may be the terms themselves: each part of a term is sent before its total arrives.
  static OrderedSum all_reduce(std::span<const DeviceId> members, DeviceId self, const std::vector<at::Tensor>& terms,
                               const std::vector<at::Tensor>& sums, const BeginExchange& begin);
  /// `Transport::begin_reduce_scatter` in one exchange. The sums replace the member's own terms.
  static OrderedSum reduce_scatter(std::span<const DeviceId> members, DeviceId self, TensorsByMember terms,
                                   const BeginExchange& begin);

  /// Awaits the terms of others, adds, and sends totals. Releases the terms.
  Result<void> add();
  /// Awaits the totals of others.
  Result<void> finish();
  /// Both.
  Result<void> run();

 private:
  /// Sends `terms` and prepares their addition into `places`.
  OrderedSum(std::span<const DeviceId> members, DeviceId self, const TensorsByMember& terms,
             std::vector<at::Tensor> places, const BeginExchange& begin);

  std::vector<DeviceId> members_;
  size_t position_;
  TensorsByMember terms_;           ///< of the sums of this device
  std::vector<at::Tensor> places_;  ///< of the sums of this device
  std::unique_ptr<SumExchange> terms_exchange_, totals_exchange_;
};

/// `Transport::all_gather` in one exchange. `parts` are contiguous.
Result<void> gather_parts(std::span<const DeviceId> members, DeviceId self, const TensorsByMember& parts,
                          const BeginExchange& begin);

}  // namespace rannc::runtime
