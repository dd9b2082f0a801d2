/// The planner program that DAPPLE's authors released, for reproduction: another algorithm than the paper's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partition/stages/papers/pipedream.h"
#include "partition/stages/planner.h"

namespace rannc::partition {

/// Rates in bytes per second. The program has these constants built in; the authors' tables need others per row.
struct ReleasedLinks {
  double point_to_point = 1e9;  ///< between machines
  double collective = 3e9;      ///< all-reduce, or a transfer to several machines
  double inside = 25e9;         ///< within a machine
};

struct ReleasedOptions {
  std::vector<uint32_t> machines;  ///< devices of each, numbered one machine after the other
  ReleasedLinks links;
  uint64_t profile_batch = 1;  ///< samples that the states were measured at
  uint64_t mini_batch = 1;     ///< samples of a step
  uint64_t micro_batch = 1;    ///< samples; a pipeline of `copies` takes mini_batch / copies / micro_batch of them
};

/// States [from, to) on the devices listed, ascending.
struct ReleasedStage {
  uint32_t from = 0, to = 0;
  std::vector<uint32_t> devices;
  bool operator==(const ReleasedStage&) const = default;
};

struct ReleasedPlan {
  std::string kind;  ///< `one stage`, `straight`, `two stages`
  std::vector<ReleasedStage> stages;
  uint64_t micro_batches = 1;
  double speedup = 0;  ///< against one device, by the program's estimate
};

/// The program's candidates, the best first; among equals the earlier of the list below.
/// 1. One stage on i * floor(G / i) devices, for i = 2 … G. (The program runs a DP for up to i stages here that
/// minimises
///    the largest of compute and transfer; one stage on all its devices attains the least value there is and wins
///    ties.)
/// 2. Straight pipelines: two stages of G / 2 devices each (even G > 2), and G stages of one device, by the same DP;
///    O(G * states^2).
/// 3. Two stages: every cut, every split of the devices, every pair of placements.
/// Each is scored by (M - 1) block + total / (copies M) + one way of every cut + the largest all-reduce not hidden
/// behind the blocks of the stages before; as in the program, a stage's parameters include the first state after it.
std::vector<ReleasedPlan> released_plans(const CutStates& states, const ReleasedOptions& options);

/// What the program's data-parallel baseline knows of memory; by these it accumulates gradients in steps.
struct ReleasedMemory {
  double device_bytes = 16e9;
  double parameter_copies = 1;       ///< parameters, gradients and optimizer state in multiples of the parameters
  double activation_per_sample = 1;  ///< bytes kept for the backward pass, > 0; the program's default: all outputs
};

/// Speedup of data parallelism over all devices, without overlap.
double released_data_parallel(const CutStates& states, const ReleasedOptions& options);

/// The same where all-reduces run beside the backward pass of the last accumulation step.
double released_data_parallel_overlapped(const CutStates& states, const ReleasedOptions& options,
                                         const ReleasedMemory& memory);

/// The program on a block chain, run for the micro-batch size of every candidate count. Its best structure that fits,
/// and data parallelism, are timed for every count under P_A and P_B, since the program's own counts share single
/// samples among replicas; the least simulated time wins. `links`: the cluster's own rates when absent.
std::unique_ptr<StagePlanner> dapple_released_planner(std::optional<ReleasedLinks> links = std::nullopt);

}  // namespace rannc::partition
