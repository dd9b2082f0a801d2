/// The contiguous split: units in order over devices so that the largest load is least.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partition/dag.h"

namespace rannc::partition {

/// Units 0 … n-1, numbered topologically, with values between them. A split gives every unit a device such that no
/// precedence goes to a lower device; the load of a device is the work of its units plus, for every value with pins on
/// it and elsewhere, the value's cost once if the producer or any reader is there.
struct SplitProblem {
  std::vector<double> work;            ///< per unit
  std::vector<uint64_t> bytes;         ///< per unit
  std::vector<double> cost;            ///< per value, > 0
  Csr pins;                            ///< per value: producer, then distinct readers; at least two
  Csr values;                          ///< per unit: values it has a pin on
  Csr before, after;                   ///< per unit: distinct predecessors, successors, ascending
  uint64_t memory_limit = UINT64_MAX;  ///< bytes per device
  std::vector<uint32_t> unit_of;       ///< per task or node of the source: its unit

  uint32_t units() const { return static_cast<uint32_t>(work.size()); }
  double total_work() const;
};

/// What a source is made of; ids need no order.
struct SplitSource {
  struct Value {
    uint32_t producer;
    std::vector<uint32_t> readers;
    double cost;
  };
  std::vector<double> work;
  std::vector<uint64_t> bytes;
  std::vector<uint32_t> group;                       ///< per node: nodes of one group share a device (colour classes)
  std::vector<Value> values;                         ///< need not agree with the order: a backward value only costs
  std::vector<std::pair<uint32_t, uint32_t>> order;  ///< first's group not after second's
  uint64_t memory_limit = UINT64_MAX;
};

/// Contracts groups, fuses those that `order` makes strongly connected, drops free values and those inside one unit,
/// merges values with equal pins, numbers units topologically. Errors: X1 for what cannot be priced.
Result<SplitProblem> make_split_problem(const SplitSource& source);

/// One unit per task; every value orders its readers after its producer.
Result<SplitProblem> split_problem_of(const Dag& dag);

/// The load of each device 0 … devices-1.
std::vector<double> split_loads(const SplitProblem& problem, std::span<const uint32_t> device_of, uint32_t devices);

/// True iff no precedence goes down and every device is within memory.
bool split_is_legal(const SplitProblem& problem, std::span<const uint32_t> device_of, uint32_t devices);

/// Folds units without work and bytes into a neighbour where that never raises a load: a source or sink with one
/// neighbour; a unit with one producer whose values only it reads and that sends no more than it gets; a unit with one
/// reader that gets no more than it sends. Where the memory limit cannot bind, bytes do not matter.
SplitProblem fold_free_units(const SplitProblem& problem);

/// Fuses units that no split with a largest load < `bound` can part: a value with cost + work of a unit on either side
/// >= bound stays on one device. Valid only for searching below `bound`.
SplitProblem fuse_inseparable(const SplitProblem& problem, double bound);

}  // namespace rannc::partition
