/// Solves the formal problem of pipelined model parallelism exactly on small instances, as an oracle for planners.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace rannc::partition {

/// A chain of layers on equal devices (Beaumont, Eyraud-Dubois, Shilova 2021, 3.2: "Formal optimization problem").
struct PeriodProblem {
  std::vector<uint32_t> forward, backward;     ///< by layer, u_F and u_B: from 1 to 15, at most 8 layers
  std::vector<uint32_t> weights, activations;  ///< by layer, W and a; in any unit
  uint32_t devices = 1;                        ///< P, at most 8
  uint32_t memory = 0;                         ///< M of each device
  /// Batches between their first forward pass and the end of their last backward pass, at most 15. The activations of
  /// the first layer limit them too, if it has any; otherwise schedules with more are not considered.
  uint32_t most_in_flight = 8;
  enum class Allocations : uint8_t { kAny, kContiguous } allocations = Allocations::kAny;
  enum class Peak : uint8_t {
    kOfLayers,  ///< the paper's: each layer counts NCA activations, the most that it ever holds
    kOfDevice   ///< what a device holds at once; never more
  } peak = Peak::kOfLayers;
};

/// A pass of the pattern. In period n it starts at `start` + n·T and processes batch `batch` + n·k.
struct PatternPass {
  uint32_t layer = 0;
  bool backward = false;
  uint32_t start = 0, batch = 0;
};

/// An optimal solution: a k-periodic schedule of period T.
struct ExactPeriod {
  uint64_t time = 0, batches = 0;   ///< T and k; 0 batches: no allocation fits
  std::vector<uint32_t> device_of;  ///< by layer
  std::vector<PatternPass> pattern;

  bool exists() const { return batches > 0; }
  double normalized() const { return static_cast<double>(time) / static_cast<double>(batches); }
};

/// Returns a solution with the least T/k over all allocations, all schedules and all k. None after more than `states`
/// states of one allocation.
///
/// A state of an allocation counts the batches that wait before each pass, and holds the pass of each device with the
/// time that is left. Times are integers and a pass of a best schedule starts when another one ends, so the states
/// within memory are finite. A k-periodic schedule is a cycle of them, and the least T/k is the least ratio of time to
/// batches over all cycles. States that cannot be drained are excluded: those of a periodic schedule can. Exponential;
/// 8 layers on 3 devices take up to a second. Messages take no time.
std::optional<ExactPeriod> exact_period(const PeriodProblem& problem, uint64_t states = 2'000'000);

}  // namespace rannc::partition
