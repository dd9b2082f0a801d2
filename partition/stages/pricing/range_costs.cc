#include "partition/stages/pricing/range_costs.h"

#include <algorithm>
#include <cstdint>

namespace rannc::partition {
namespace {

/// An amount and the number of its parts. Sums of added and removed amounts may leave a rounding error when no part is
/// left.
struct Counted {
  Affine amount;
  int32_t fixed = 0, per_sample = 0;

  void add(const Affine& more, int32_t sign) {
    amount.fixed += sign * more.fixed;
    amount.per_sample += sign * more.per_sample;
    fixed += more.fixed > 0 ? sign : 0;
    per_sample += more.per_sample > 0 ? sign : 0;
  }
  Counted& operator+=(const Counted& other) {
    amount.fixed += other.amount.fixed;
    amount.per_sample += other.amount.per_sample;
    fixed += other.fixed;
    per_sample += other.per_sample;
    return *this;
  }
  Affine left() const {
    return {fixed > 0 ? std::max(0.0, amount.fixed) : 0, per_sample > 0 ? std::max(0.0, amount.per_sample) : 0};
  }
};

/// Adds to rectangles of (a, b), then sums once.
class Rectangles {
 public:
  explicit Rectangles(uint32_t blocks) : side_(blocks + 2), cells_(static_cast<size_t>(side_) * side_) {}

  /// a in [a0, a1), b in [b0, b1).
  void add(uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1, const Affine& amount) {
    if (a0 >= a1 || b0 >= b1) return;
    at(a0, b0).add(amount, 1);
    at(a1, b0).add(amount, -1);
    at(a0, b1).add(amount, -1);
    at(a1, b1).add(amount, 1);
  }

  /// Adds to ranges with at least one of the ascending `blocks`, the first of which is above `before`.
  void add_ranges_with(const std::vector<uint32_t>& blocks, int64_t before, const Affine& amount) {
    for (const uint32_t block : blocks) {
      // The range starts after the block before, so that `block` is the first of them in it.
      add(static_cast<uint32_t>(before + 1), block + 1, block + 1, side_ - 1, amount);
      before = block;
    }
  }

  std::vector<Affine> sum(uint32_t blocks) {
    for (uint32_t a = 0; a < side_; ++a) {
      for (uint32_t b = 1; b < side_; ++b) at(a, b) += at(a, b - 1);
    }
    for (uint32_t a = 1; a < side_; ++a) {
      for (uint32_t b = 0; b < side_; ++b) at(a, b) += at(a - 1, b);
    }
    std::vector<Affine> result(static_cast<size_t>(blocks + 1) * (blocks + 1));
    for (uint32_t a = 0; a <= blocks; ++a) {
      for (uint32_t b = 0; b <= blocks; ++b) result[static_cast<size_t>(a) * (blocks + 1) + b] = at(a, b).left();
    }
    return result;
  }

 private:
  Counted& at(uint32_t a, uint32_t b) { return cells_[static_cast<size_t>(a) * side_ + b]; }

  uint32_t side_;
  std::vector<Counted> cells_;
};

/// Two buckets, or one beside a gradient that is larger. A bucket has at least one gradient. 0 if gradients are not
/// known one by one.
double bytes_of_two_buckets(const StageProblem& problem) {
  double largest = 0, least = kInfinity;
  for (const double bytes : problem.largest_gradients) {
    largest = std::max(largest, bytes);
    if (bytes > 0) least = std::min(least, bytes);
  }
  if (largest == 0) return 0;
  const double limit = std::min(static_cast<double>(problem.bucket_bytes), ir::kLargestGradients * largest);
  return std::max(limit, least) + std::max(limit, largest);
}

std::vector<double> prefix(const std::vector<double>& items) {
  std::vector<double> sums(items.size() + 1, 0);
  for (size_t i = 0; i < items.size(); ++i) sums[i + 1] = sums[i] + items[i];
  return sums;
}

}  // namespace

RangeCosts::RangeCosts(const StageProblem& problem) : blocks_(problem.blocks), divides_(problem.sharded) {
  const uint32_t k = blocks_;
  Rectangles received(k), returned(k), sent(k), answered(k), kept(k), crossing(k);
  for (const BlockValue& value : problem.values) {
    const Affine bytes{value.bytes, value.bytes_per_sample};
    received.add_ranges_with(value.readers, value.producer, bytes);
    if (value.gradient) returned.add_ranges_with(value.readers, value.producer, bytes);
    if (value.readers.empty()) continue;
    const auto add_sent = [&](Rectangles& to) {
      to.add(0, value.producer + 1, value.producer + 1, value.readers.back() + 1, bytes);
    };
    add_sent(sent);
    if (value.gradient) add_sent(answered);
    if (value.kept == ValueKept::kNever) continue;
    kept.add_ranges_with(value.readers, value.producer, bytes);
    crossing.add_ranges_with(value.readers, value.producer, bytes);
    if (value.kept == ValueKept::kWhereItCrosses) add_sent(crossing);
  }
  for (const SharedHolding& holding : problem.shared) {
    if (holding.kind != SharedHolding::Kind::kInput) continue;
    for (Rectangles* of : {&kept, &crossing}) {
      of->add_ranges_with(holding.blocks, -1, {holding.bytes, holding.bytes_per_sample});
    }
  }
  received_ = received.sum(k);
  returned_ = returned.sum(k);
  sent_ = sent.sum(k);
  answered_ = answered.sum(k);
  kept_ = kept.sum(k);
  crossing_ = crossing.sum(k);
  add_shared(problem);

  if (!divides_) two_buckets_ = bytes_of_two_buckets(problem);
  std::vector<double> resident(k), gradients(k), states(k);
  for (uint32_t b = 0; b < k; ++b) {
    gradients[b] = gradient_bytes(problem, b);
    states[b] = state_bytes(problem, b);
    resident[b] = trained_bytes(problem, b) + (problem.buffer_bytes.empty() ? 0 : problem.buffer_bytes[b]);
  }
  for (const SharedHolding& holding : problem.shared) {
    if (holding.kind != SharedHolding::Kind::kParameter) continue;
    for (const uint32_t block : holding.blocks) resident[block] += holding.gradient_bytes();
  }
  parameters_ = prefix(problem.parameter_bytes);
  gradients_ = prefix(gradients);
  states_ = prefix(states);
  resident_ = prefix(resident);
  stashed_ = prefix(problem.stashed_bytes_per_sample);
  if (!problem.pending_bytes_per_sample.empty()) pending_ = prefix(problem.pending_bytes_per_sample);
  add_temporaries(problem);
  cut_allowed_.assign(k + 1, 1);
  for (const uint32_t cut : problem.constraints.forbidden_cuts) cut_allowed_[cut] = 0;
  const auto& pins = problem.constraints.pins;
  if (pins.empty()) return;
  stages_ = *problem.constraints.stages;
  pins_.resize(k + 1);
  size_t next = pins.size();
  for (uint32_t b = k; b-- > 0;) {
    pins_[b] = pins_[b + 1];
    if (next == 0 || pins[next - 1].block != b) continue;
    --next;
    const PinnedStages& after = pins_[b + 1];
    const bool other = after.next_block != UINT32_MAX && after.stage != pins[next].stage;
    pins_[b] = {b, pins[next].stage, other ? after.next_block : after.next_other};
  }
}

void RangeCosts::add_temporaries(const StageProblem& problem) {
  const std::vector<double>&growing = problem.temporary_bytes_per_sample, &fixed = problem.temporary_bytes;
  if (growing.empty() && fixed.empty()) return;
  const auto largest = [&](auto&& absent) {
    std::vector<Affine> found(static_cast<size_t>(blocks_ + 1) * (blocks_ + 1));
    for (uint32_t a = 0; a < blocks_; ++a) {
      Affine most;
      for (uint32_t b = a; b < blocks_; ++b) {
        most.per_sample = std::max(growing.empty() ? 0 : growing[b], most.per_sample - absent(b));
        if (!fixed.empty()) most.fixed = std::max(most.fixed, fixed[b]);
        found[index(a, b + 1)] = most;
      }
    }
    return found;
  };
  const auto stashed = [&](uint32_t b) { return problem.stashed_bytes_per_sample[b]; };
  temporary_ = largest(stashed);
  if (!problem.parts_backward || problem.pending_bytes_per_sample.empty()) return;
  parted_temporary_ =
      largest([&](uint32_t b) { return std::max(0.0, stashed(b) - problem.pending_bytes_per_sample[b]); });
}

void RangeCosts::add_shared(const StageProblem& problem) {
  const auto grows_with_samples = [](const SharedHolding& holding) {
    return holding.kind == SharedHolding::Kind::kInput;
  };
  if (std::all_of(problem.shared.begin(), problem.shared.end(), grows_with_samples)) return;
  Rectangles parameters(blocks_), gradients(blocks_), states(blocks_), resident(blocks_);
  for (const SharedHolding& holding : problem.shared) {
    if (grows_with_samples(holding)) continue;
    const bool trained = holding.kind == SharedHolding::Kind::kParameter;
    // The gradients of its readers are summed separately: one for each block.
    const double state = trained ? state_bytes(problem, holding) : 0;
    resident.add_ranges_with(holding.blocks, -1, {holding.bytes + state, 0});
    if (!trained) continue;
    states.add_ranges_with(holding.blocks, -1, {state, 0});
    parameters.add_ranges_with(holding.blocks, -1, {holding.bytes, 0});
    gradients.add_ranges_with(holding.blocks, -1, {holding.gradient_bytes(), 0});
  }
  shared_parameters_ = parameters.sum(blocks_);
  shared_gradients_ = gradients.sum(blocks_);
  shared_states_ = states.sum(blocks_);
  shared_resident_ = resident.sum(blocks_);
}

}  // namespace rannc::partition
