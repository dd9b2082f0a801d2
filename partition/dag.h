/// Defines the weighted task graph that partitioners and planners work on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::partition {

/// Compressed rows: `row(i)` lists what belongs to i.
struct Csr {
  std::vector<uint32_t> offsets;  ///< size rows + 1
  std::vector<uint32_t> items;
  uint32_t rows() const { return offsets.empty() ? 0 : static_cast<uint32_t>(offsets.size() - 1); }
  std::span<const uint32_t> row(uint32_t i) const { return {items.data() + offsets[i], items.data() + offsets[i + 1]}; }
};

/// Tasks (atoms, layers or nodes of a published profile) and the values that pass between them.
/// Task ids are dense, but *not necessarily topological* (`topological_order` returns an order).
/// A value has one producer and any number of readers. It is priced once per receiving device, never once per reader.
/// Times are finite, >= 0 and in the unit of the source: ns for our own graphs, ms for published profiles.
struct Dag {
  std::vector<double> forward;           ///< per task: time of the forward pass of one micro-batch
  std::vector<double> backward;          ///< per task: time of the backward pass; 0 for inference
  std::vector<uint64_t> resident_bytes;  ///< per task: parameters, gradients, optimizer state
  std::vector<uint64_t> stashed_bytes;   ///< per task: kept from forward to backward, per micro-batch in flight
  std::vector<uint32_t> value_producer;  ///< per value
  std::vector<uint64_t> value_bytes;     ///< per value
  std::vector<double> value_cost;        ///< per value: time to move it once over the reference link
  Csr value_readers;                     ///< per value: distinct reading tasks, ascending
  Csr task_outputs;                      ///< per task: values it produces, ascending
  Csr task_inputs;                       ///< per task: distinct values it reads, ascending
  std::vector<std::string> names;        ///< per task, for messages; may be empty

  uint32_t tasks() const { return static_cast<uint32_t>(forward.size()); }
  uint32_t values() const { return static_cast<uint32_t>(value_producer.size()); }
  double work(uint32_t task) const { return forward[task] + backward[task]; }
};

/// Fills `task_outputs` and `task_inputs` from `value_producer` and `value_readers`; O(size).
void index_tasks(Dag& dag);

/// Returns a deterministic topological order (depth first, smallest id first), or a diagnostic that names a cycle.
Result<std::vector<uint32_t>> topological_order(const Dag& dag);

/// Rejects graphs that cannot be priced: cycles, NaN, infinite or negative costs, ids out of range. [A1 … rules in
/// dag.cc]
Result<void> validate(const Dag& dag);

/// Same as `validate` followed by `topological_order`, at the cost of one of them.
Result<std::vector<uint32_t>> validated_order(const Dag& dag);

}  // namespace rannc::partition
