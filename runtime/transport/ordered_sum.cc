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

namespace {

size_t position_in(std::span<const DeviceId> members, DeviceId self) {
  const auto position = static_cast<size_t>(std::find(members.begin(), members.end(), self) - members.begin());
  RANNC_CHECK(position < members.size()) << "a device takes part in the sums that it is a member of";
  return position;
}

}  // namespace

Result<at::Tensor> ordered_sum(std::span<const DeviceId> members, DeviceId self, const at::Tensor& tensor,
                               const BeginExchange& begin) {
  const size_t position = position_in(members, self);
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

Result<std::vector<at::Tensor>> scattered_sums(std::span<const DeviceId> members, DeviceId self,
                                               const TensorsByMember& terms, const BeginExchange& begin) {
  const size_t position = position_in(members, self);
  const std::vector<at::Tensor>& own = terms[position];
  const auto exchange = begin();
  std::vector<std::vector<at::Tensor>> received(own.size());  // by sum, in the order of members
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t k = 0; k < own.size(); ++k) {
      received[k].push_back(i == position ? own[k] : at::empty_like(own[k]));
      if (i != position && own[k].numel() > 0) exchange->receive(members[i], received[k].back());
    }
    for (const at::Tensor& term : i == position ? std::vector<at::Tensor>() : terms[i]) {
      if (term.numel() > 0) exchange->send(members[i], term);
    }
  }
  RANNC_TRY(exchange->finish());
  std::vector<at::Tensor> sums;
  for (const std::vector<at::Tensor>& all : received) sums.push_back(sum_in_order(all));
  return sums;
}

Result<void> gather_parts(std::span<const DeviceId> members, DeviceId self, const TensorsByMember& parts,
                          const BeginExchange& begin) {
  const size_t position = position_in(members, self);
  const auto exchange = begin();
  for (size_t i = 0; i < members.size(); ++i) {
    if (i == position) continue;
    for (const at::Tensor& part : parts[i]) {
      if (part.numel() > 0) exchange->receive(members[i], part);
    }
    for (const at::Tensor& part : parts[position]) {
      if (part.numel() > 0) exchange->send(members[i], part);
    }
  }
  return exchange->finish();
}

}  // namespace rannc::runtime
