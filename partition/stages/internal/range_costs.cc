#include "partition/stages/internal/range_costs.h"

#include <algorithm>

namespace rannc::partition {
namespace {

Affine& operator+=(Affine& a, const Affine& b) {
  a.fixed += b.fixed;
  a.per_sample += b.per_sample;
  return a;
}

Affine operator-(const Affine& a) { return {-a.fixed, -a.per_sample}; }

/// Adds to rectangles of (a, b), then sums once.
class Rectangles {
 public:
  explicit Rectangles(uint32_t blocks) : side_(blocks + 2), cells_(static_cast<size_t>(side_) * side_) {}

  /// a in [a0, a1), b in [b0, b1).
  void add(uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1, const Affine& amount) {
    if (a0 >= a1 || b0 >= b1) return;
    at(a0, b0) += amount;
    at(a1, b0) += -amount;
    at(a0, b1) += -amount;
    at(a1, b1) += amount;
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
      for (uint32_t b = 0; b <= blocks; ++b) result[static_cast<size_t>(a) * (blocks + 1) + b] = rounded(at(a, b));
    }
    return result;
  }

 private:
  Affine& at(uint32_t a, uint32_t b) { return cells_[static_cast<size_t>(a) * side_ + b]; }
  /// Sums of added and removed amounts may leave a rounding error where nothing is left.
  static Affine rounded(const Affine& x) {
    return {x.fixed < 1e-6 ? 0 : x.fixed, x.per_sample < 1e-6 ? 0 : x.per_sample};
  }

  uint32_t side_;
  std::vector<Affine> cells_;
};

std::vector<double> prefix(const std::vector<double>& items) {
  std::vector<double> sums(items.size() + 1, 0);
  for (size_t i = 0; i < items.size(); ++i) sums[i + 1] = sums[i] + items[i];
  return sums;
}

}  // namespace

RangeCosts::RangeCosts(const StageProblem& problem) : blocks_(problem.blocks) {
  const uint32_t k = blocks_;
  Rectangles received(k), returned(k), sent(k);
  for (const BlockValue& value : problem.values) {
    const Affine bytes{value.bytes, value.bytes_per_sample};
    uint32_t before = value.producer;
    for (const uint32_t reader : value.readers) {
      // The range starts behind the reader before (or the producer), so `reader` is its first reader.
      received.add(before + 1, reader + 1, reader + 1, k + 1, bytes);
      if (value.gradient) returned.add(before + 1, reader + 1, reader + 1, k + 1, bytes);
      before = reader;
    }
    if (!value.readers.empty()) sent.add(0, value.producer + 1, value.producer + 1, value.readers.back() + 1, bytes);
  }
  received_ = received.sum(k);
  returned_ = returned.sum(k);
  sent_ = sent.sum(k);

  std::vector<double> resident(k);
  for (uint32_t b = 0; b < k; ++b) {
    resident[b] = problem.parameter_bytes[b] * (2 + problem.optimizer_factor) +
                  (problem.buffer_bytes.empty() ? 0 : problem.buffer_bytes[b]);
  }
  parameters_ = prefix(problem.parameter_bytes);
  resident_ = prefix(resident);
  stashed_ = prefix(problem.stashed_bytes_per_sample);
  if (!problem.temporary_bytes_per_sample.empty()) {
    temporary_.assign(static_cast<size_t>(k + 1) * (k + 1), 0);
    for (uint32_t a = 0; a < k; ++a) {
      double largest = 0;
      for (uint32_t b = a + 1; b <= k; ++b) {
        largest = std::max(largest, problem.temporary_bytes_per_sample[b - 1]);
        temporary_[index(a, b)] = largest;
      }
    }
  }
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

}  // namespace rannc::partition
