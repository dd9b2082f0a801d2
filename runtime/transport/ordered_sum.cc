// Every member receives all terms, or adds a part of them and receives the other parts.
#include "runtime/transport/internal/ordered_sum.h"

#include <algorithm>

#include "runtime/internal/torch_value.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

namespace {

// Terms of up to this size together are sent to every member. Larger ones are split into parts, and each member adds
// one part. For two members, the former sends the same bytes in one exchange instead of two.
constexpr int64_t kWholeTermBytes = 32 << 10;

/// Lays flat tensors end to end and returns an equal part for each member, as slices.
TensorsByMember equal_parts(const std::vector<at::Tensor>& tensors, size_t members) {
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.numel();
  const auto cut = [&](size_t member) { return static_cast<int64_t>(member) * total / static_cast<int64_t>(members); };
  TensorsByMember parts(members);
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    const int64_t end = begin + tensor.numel();
    for (size_t i = 0; i < members; ++i) {
      const int64_t first = std::max(begin, cut(i)), last = std::min(end, cut(i + 1));
      if (first < last) parts[i].push_back(tensor.slice(0, first - begin, last - begin));
    }
    begin = end;
  }
  return parts;
}

}  // namespace

Result<std::vector<at::Tensor>> ordered_sums(std::span<const DeviceId> members, DeviceId self,
                                             const std::vector<at::Tensor>& terms, const BeginExchange& begin) {
  std::vector<at::Tensor> own;
  size_t bytes = 0;
  for (const at::Tensor& term : terms) {
    own.push_back(term.contiguous().view(-1));
    bytes += term.nbytes();
  }
  std::vector<at::Tensor> sums;
  if (static_cast<int64_t>(bytes) <= kWholeTermBytes) {
    RANNC_ASSIGN(sums, scattered_sums(members, self, TensorsByMember(members.size(), own), begin));
  } else {
    RANNC_ASSIGN(const auto part, scattered_sums(members, self, equal_parts(own, members.size()), begin));
    for (const at::Tensor& term : own) sums.push_back(at::empty_like(term));
    const TensorsByMember places = equal_parts(sums, members.size());
    const auto& own_places = places[position_in(members, self)];
    for (size_t k = 0; k < part.size(); ++k) own_places[k].copy_(part[k]);
    RANNC_TRY(gather_parts(members, self, places, begin));
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i].view(terms[i].sizes());
  return sums;
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
