/// Defines the contiguous split: ordered units on devices with the least largest load.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partition/dag.h"

namespace rannc::partition {

/// Units 0 … n-1, numbered topologically, with values between them. A split assigns each unit a device such that no
/// precedence goes to a lower device. The load of a device is the work of its units plus the cost of each value that
/// has pins on it and elsewhere, counted once.
struct SplitProblem {
  std::vector<double> work;            ///< per unit
  std::vector<uint64_t> bytes;         ///< per unit
  std::vector<double> cost;            ///< per value, > 0
  Csr pins;                            ///< per value: producer, then distinct readers; at least two
  Csr values;                          ///< per unit: values with a pin on it
  Csr before, after;                   ///< per unit: distinct predecessors, successors, ascending
  uint64_t memory_limit = UINT64_MAX;  ///< bytes per device
  std::vector<uint32_t> unit_of;       ///< per task or node of the source: its unit

  uint32_t units() const { return static_cast<uint32_t>(work.size()); }
  double total_work() const;
};

/// Input of `make_split_problem`. Ids need no order.
struct SplitSource {
  struct Value {
    uint32_t producer;
    std::vector<uint32_t> readers;
    double cost;
  };
  std::vector<double> work;
  std::vector<uint64_t> bytes;
  std::vector<uint32_t> group;                       ///< per node: nodes of a group share a device (colour classes)
  std::vector<Value> values;                         ///< need not follow the order: backward values only cost
  std::vector<std::pair<uint32_t, uint32_t>> order;  ///< the first one's group must not come after the second's
  uint64_t memory_limit = UINT64_MAX;
};

/// Contracts groups, fuses groups that `order` makes strongly connected, drops free values and values inside one unit,
/// merges values with equal pins, and numbers units topologically. Errors: X1 for invalid costs.
Result<SplitProblem> make_split_problem(const SplitSource& source);

/// Creates one unit per task. Every value orders its readers after its producer.
Result<SplitProblem> split_problem_of(const Dag& dag);

/// Returns the load of each device 0 … devices-1.
std::vector<double> split_loads(const SplitProblem& problem, std::span<const uint32_t> device_of, uint32_t devices);

/// True iff no precedence goes to a lower device and every device is within memory.
bool split_is_legal(const SplitProblem& problem, std::span<const uint32_t> device_of, uint32_t devices);

/// Folds units without work and bytes into a neighbour if that never raises a load: a source or sink with one
/// neighbour; a unit with one producer whose values only it reads, if it sends no more than it receives; a unit with
/// one reader, if it receives no more than it sends. If the memory limit cannot bind, bytes are ignored.
SplitProblem fold_free_units(const SplitProblem& problem);

/// Fuses units that no split with a largest load < `bound` can separate: a value stays on one device if cost + work of
/// a unit on either side >= bound. Valid only for searches below `bound`.
SplitProblem fuse_inseparable(const SplitProblem& problem, double bound);

}  // namespace rannc::partition
