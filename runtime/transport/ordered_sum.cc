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

/// `sum_in_order` into memory that exists and may be that of a term. Uses up the memory of the first term.
void add_into(const at::Tensor& sum, std::span<const at::Tensor> terms) {
  const c10::NoGradGuard no_grad;
  if (terms.size() < 2 || sum_type(sum.scalar_type()) != sum.scalar_type()) {
    sum.copy_(sum_in_order(terms));
    return;
  }
  // No later term is overwritten before it is added.
  const bool later =
      std::any_of(terms.begin() + 2, terms.end(), [&](const at::Tensor& term) { return term.is_same(sum); });
  at::Tensor out = later ? terms[0] : sum;
  at::add_out(out, terms[0], terms[1]);
  for (const at::Tensor& term : terms.subspan(2)) out.add_(term);
  if (later) sum.copy_(out);
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

std::vector<at::Tensor> like(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> made;
  for (const at::Tensor& tensor : tensors) made.push_back(at::empty_like(tensor));
  return made;
}

}  // namespace

OrderedSum::OrderedSum(std::span<const DeviceId> members, DeviceId self, TensorsByMember terms,
                       std::vector<at::Tensor> places, const BeginExchange& begin)
    : members_(members.begin(), members.end()),
      position_(position_in(members, self)),
      places_(std::move(places)),
      results_(places_),
      terms_exchange_(begin(SumPhase::kTerms)) {
  const std::vector<at::Tensor>& own = terms[position_];
  terms_.resize(own.size());
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t k = 0; k < own.size(); ++k) {
      terms_[k].push_back(i == position_ ? own[k] : at::empty_like(own[k]));
      if (i != position_ && own[k].numel() > 0) terms_exchange_->receive(members[i], terms_[k].back());
    }
    for (const at::Tensor& term : i == position_ ? std::vector<at::Tensor>() : terms[i]) {
      if (term.numel() > 0) terms_exchange_->send(members[i], term);
    }
  }
}

OrderedSum OrderedSum::all_reduce(std::span<const DeviceId> members, DeviceId self,
                                  const std::vector<at::Tensor>& terms, const BeginExchange& begin) {
  std::vector<at::Tensor> own;
  size_t bytes = 0;
  for (const at::Tensor& term : terms) {
    own.push_back(term.contiguous().view(-1));
    bytes += term.nbytes();
  }
  const bool whole = static_cast<int64_t>(bytes) <= kWholeTermBytes;
  std::vector<at::Tensor> results = like(own);
  const TensorsByMember places = whole ? TensorsByMember() : equal_parts(results, members.size());
  const size_t position = position_in(members, self);
  OrderedSum sum(members, self, whole ? TensorsByMember(members.size(), own) : equal_parts(own, members.size()),
                 whole ? results : places[position], begin);
  sum.results_ = std::move(results);
  for (const at::Tensor& term : terms) sum.shapes_.push_back(term.sizes().vec());
  if (!whole) {
    sum.totals_exchange_ = begin(SumPhase::kTotals);
    receive_from_others(*sum.totals_exchange_, members, position, places);
  }
  return sum;
}

OrderedSum OrderedSum::reduce_scatter(std::span<const DeviceId> members, DeviceId self, TensorsByMember terms,
                                      const BeginExchange& begin) {
  std::vector<at::Tensor> places = terms[position_in(members, self)];
  return {members, self, std::move(terms), std::move(places), begin};
}

Result<void> OrderedSum::add() {
  RANNC_TRY(terms_exchange_->finish());
  for (size_t k = 0; k < terms_.size(); ++k) add_into(places_[k], terms_[k]);
  terms_exchange_.reset();
  terms_.clear();
  if (totals_exchange_ != nullptr) send_to_others(*totals_exchange_, members_, position_, places_);
  return {};
}

Result<std::vector<at::Tensor>> OrderedSum::finish() {
  if (totals_exchange_ != nullptr) RANNC_TRY(totals_exchange_->finish());
  for (size_t i = 0; i < shapes_.size(); ++i) results_[i] = results_[i].view(shapes_[i]);
  return std::move(results_);
}

Result<std::vector<at::Tensor>> OrderedSum::run() {
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
