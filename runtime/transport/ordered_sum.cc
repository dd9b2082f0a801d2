// Every member receives all terms, or adds one part of them and receives the other parts.
#include "runtime/transport/internal/ordered_sum.h"

#include <algorithm>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

// Terms of a sum up to this size are sent to every member. Larger terms are split into parts, and each member adds one
// part. For two members, the former sends the same bytes in one exchange instead of two.
constexpr int64_t kWholeTermBytes = 32 << 10;

using PartOf = std::function<at::Tensor(size_t member)>;

/// Sends `part_for(i)` to member i and returns the sum of the parts received, in the order of `members`.
Result<at::Tensor> sum_of_parts(std::span<const DeviceId> members, size_t self, const PartOf& part_for,
                                SumExchange& exchange) {
  std::vector<at::Tensor> parts(members.size());
  parts[self] = part_for(self);
  for (size_t i = 0; i < members.size(); ++i) {
    if (i == self) continue;
    parts[i] = at::empty_like(parts[self]);
    exchange.receive(members[i], parts[i]);
    exchange.send(members[i], part_for(i));
  }
  RANNC_TRY(exchange.finish());
  return sum_in_order(parts);
}

/// Sends `own` to all members and stores member i's part at `place_of(i)`.
Result<void> gather(std::span<const DeviceId> members, size_t self, const at::Tensor& own, const PartOf& place_of,
                    SumExchange& exchange) {
  for (size_t i = 0; i < members.size(); ++i) {
    if (i == self) {
      place_of(i).copy_(own);
    } else {
      exchange.receive(members[i], place_of(i));
      exchange.send(members[i], own);
    }
  }
  return exchange.finish();
}

}  // namespace

Result<at::Tensor> ordered_sum(std::span<const DeviceId> members, DeviceId self, const at::Tensor& tensor,
                               const BeginExchange& begin) {
  const auto position = static_cast<size_t>(std::find(members.begin(), members.end(), self) - members.begin());
  RANNC_CHECK(position < members.size()) << "a device takes part in the sums that it is a member of";
  if (tensor.numel() == 0) return tensor;
  const at::Tensor own = tensor.contiguous().view(-1);
  if (static_cast<int64_t>(own.nbytes()) <= kWholeTermBytes) {
    RANNC_ASSIGN(const at::Tensor sum, sum_of_parts(
                                           members, position, [&](size_t) { return own; }, *begin()));
    return sum.view(tensor.sizes());
  }
  const auto count = static_cast<int64_t>(members.size());
  const auto part_of = [count](const at::Tensor& whole, size_t member) {
    const auto i = static_cast<int64_t>(member);
    return whole.slice(0, i * whole.numel() / count, (i + 1) * whole.numel() / count);
  };
  RANNC_ASSIGN(const at::Tensor part,
               sum_of_parts(
                   members, position, [&](size_t member) { return part_of(own, member); }, *begin()));
  const at::Tensor sum = at::empty_like(own);
  RANNC_TRY(gather(
      members, position, part, [&](size_t member) { return part_of(sum, member); }, *begin()));
  return sum.view(tensor.sizes());
}

}  // namespace rannc::runtime
