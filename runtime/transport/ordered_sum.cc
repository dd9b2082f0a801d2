// Every member receives all terms, or adds a part of them and receives the other parts.
#include "runtime/transport/internal/ordered_sum.h"

#include <algorithm>

#include "runtime/aten/torch_types.h"
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

/// `sum_in_order` into `places`, which may be the terms at `own`, with one kernel per member where the device has one
/// for many tensors. `terms`: by member. Uses up the terms of the first member if `own` is behind the second: places
/// must keep their terms until these are added.
void add_into(std::vector<at::Tensor>& places, TensorsByMember& terms, size_t own) {
  const c10::NoGradGuard no_grad;
  if (places.empty()) return;
  const auto same = [](const at::Tensor& a, const at::Tensor& b) { return a.data_ptr() == b.data_ptr(); };
  const bool in_place = std::equal(places.begin(), places.end(), terms[own].begin(), same);
  std::vector<at::Tensor>& sums = own > 1 ? terms[0] : places;
  if (own < 2 && !in_place) at::_foreach_copy_(sums, terms[own]);
  if (terms.size() < 2) return;
  at::_foreach_add_(sums, terms[own == 1 ? 0 : 1]);
  for (size_t i = 2; i < terms.size(); ++i) at::_foreach_add_(sums, terms[i]);
  if (own > 1) at::_foreach_copy_(places, sums);
}

void add_narrow(const std::vector<at::Tensor>& places, const TensorsByMember& terms) {
  for (size_t k = 0; k < places.size(); ++k) {
    std::vector<at::Tensor> own;
    for (const auto& of_member : terms) own.push_back(of_member[k]);
    places[k].copy_(sum_in_order(own));
  }
}

void send_to_others(SumExchange& exchange, std::span<const DeviceId> members, size_t position,
                    const std::vector<at::Tensor>& tensors) {
  for (size_t i = 0; i < members.size(); ++i) {
    for (const at::Tensor& tensor : tensors) {
      if (i != position && tensor.numel() > 0) exchange.send(members[i], tensor);
    }
  }
}

void receive_from_others(SumExchange& exchange, std::span<const DeviceId> members, size_t position,
                         const TensorsByMember& into) {
  for (size_t i = 0; i < members.size(); ++i) {
    for (const at::Tensor& tensor : into[i]) {
      if (i != position && tensor.numel() > 0) exchange.receive(members[i], tensor);
    }
  }
}

}  // namespace

OrderedSum::OrderedSum(std::span<const DeviceId> members, DeviceId self, const TensorsByMember& terms,
                       std::vector<at::Tensor> places, const BeginExchange& begin)
    : members_(members.begin(), members.end()),
      position_(position_in(members, self)),
      places_(std::move(places)),
      terms_exchange_(begin(SumPhase::kTerms)) {
  for (size_t i = 0; i < members.size(); ++i) {
    std::vector<at::Tensor>& into = terms_.emplace_back();
    for (const at::Tensor& own : terms[position_]) into.push_back(i == position_ ? own : at::empty_like(own));
    if (i == position_) continue;
    for (const at::Tensor& tensor : into) {
      if (tensor.numel() > 0) terms_exchange_->receive(members[i], tensor);
    }
    for (const at::Tensor& term : terms[i]) {
      if (term.numel() > 0) terms_exchange_->send(members[i], term);
    }
  }
}

OrderedSum OrderedSum::all_reduce(std::span<const DeviceId> members, DeviceId self,
                                  const std::vector<at::Tensor>& terms, const std::vector<at::Tensor>& sums,
                                  const BeginExchange& begin) {
  size_t bytes = 0;
  std::vector<at::Tensor> own, places;
  for (size_t i = 0; i < terms.size(); ++i) {
    own.push_back(terms[i].view(-1));
    places.push_back(sums[i].is_same(terms[i]) ? own.back() : sums[i].view(-1));
    bytes += terms[i].nbytes();
  }
  if (static_cast<int64_t>(bytes) <= kWholeTermBytes)
    return {members, self, TensorsByMember(members.size(), own), std::move(places), begin};
  const TensorsByMember parts = equal_parts(own, members.size()), totals = equal_parts(places, members.size());
  const size_t position = position_in(members, self);
  OrderedSum sum(members, self, parts, totals[position], begin);
  sum.totals_exchange_ = begin(SumPhase::kTotals);
  receive_from_others(*sum.totals_exchange_, members, position, totals);
  return sum;
}

OrderedSum OrderedSum::reduce_scatter(std::span<const DeviceId> members, DeviceId self, TensorsByMember terms,
                                      const BeginExchange& begin) {
  std::vector<at::Tensor> places = terms[position_in(members, self)];
  return {members, self, terms, std::move(places), begin};
}

Result<void> OrderedSum::add() {
  RANNC_TRY(terms_exchange_->finish());
  const bool narrow = std::any_of(places_.begin(), places_.end(), [](const at::Tensor& place) {
    return sum_type(place.scalar_type()) != place.scalar_type();
  });
  narrow ? add_narrow(places_, terms_) : add_into(places_, terms_, position_);
  terms_exchange_.reset();
  terms_.clear();
  if (totals_exchange_ != nullptr) send_to_others(*totals_exchange_, members_, position_, places_);
  return {};
}

Result<void> OrderedSum::finish() { return totals_exchange_ != nullptr ? totals_exchange_->finish() : Result<void>(); }

Result<void> OrderedSum::run() {
  RANNC_TRY(add());
  return finish();
}

Result<void> gather_parts(std::span<const DeviceId> members, DeviceId self, const TensorsByMember& parts,
                          const BeginExchange& begin) {
  const size_t position = position_in(members, self);
  const auto exchange = begin(SumPhase::kTotals);
  receive_from_others(*exchange, members, position, parts);
  send_to_others(*exchange, members, position, parts[position]);
  return exchange->finish();
}

}  // namespace rannc::runtime
