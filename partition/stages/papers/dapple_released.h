/// Reproduces the planner program that DAPPLE's authors released, whose algorithm differs from the paper's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partition/stages/papers/pipedream.h"
#include "partition/stages/planner.h"

namespace rannc::partition {

/// Rates in bytes per second. The program hard-codes these; the authors' tables need different values per row.
struct ReleasedLinks {
  double point_to_point = 1e9;  ///< between machines
  double collective = 3e9;      ///< all-reduce, or a transfer to several machines
  double inside = 25e9;         ///< within a machine
};

struct ReleasedOptions {
  std::vector<uint32_t> machines;  ///< devices of each machine, numbered machine by machine
  ReleasedLinks links;
  uint64_t profile_batch = 1;  ///< samples that the states were measured at
  uint64_t mini_batch = 1;     ///< samples of a step
  uint64_t micro_batch = 1;    ///< samples; a pipeline of `copies` takes mini_batch / copies / micro_batch of them
};

/// States [from, to) on `devices`, ascending.
struct ReleasedStage {
  uint32_t from = 0, to = 0;
  std::vector<uint32_t> devices;
  bool operator==(const ReleasedStage&) const = default;
};

struct ReleasedPlan {
  std::string kind;  ///< `one stage`, `straight`, `two stages`
  std::vector<ReleasedStage> stages;
  uint64_t micro_batches = 1;
  double speedup = 0;  ///< relative to one device, by the program's estimate
};

/// Returns the program's candidates, the best first. Ties keep the order of this list:
/// 1. One stage on i * floor(G / i) devices, for i = 2 … G. The program runs a DP for up to i stages here that
///    minimises the largest of compute and transfer. One stage on all its devices attains the minimum and wins ties.
/// 2. Straight pipelines: two stages of G / 2 devices each (even G > 2), and G stages of one device, by the same DP;
///    O(G * states^2).
/// 3. Two stages: every cut, every split of the devices, every pair of placements.
/// The score is (M - 1) block + total / (copies M) + one direction of every cut + the largest all-reduce that is not
/// hidden behind the blocks of the stages before. As in the program, a stage's parameters include the first state after
/// it.
std::vector<ReleasedPlan> released_plans(const CutStates& states, const ReleasedOptions& options);

/// Memory model of the program's data-parallel baseline, which determines its gradient accumulation steps.
struct ReleasedMemory {
  double device_bytes = 16e9;
  double parameter_copies = 1;       ///< parameters, gradients and optimizer state in multiples of the parameters
  double activation_per_sample = 1;  ///< bytes kept for the backward pass, > 0; the program's default: all outputs
};

/// Speedup of data parallelism over all devices, without overlap.
double released_data_parallel(const CutStates& states, const ReleasedOptions& options);

/// The same, with all-reduces that overlap the backward pass of the last accumulation step.
double released_data_parallel_overlapped(const CutStates& states, const ReleasedOptions& options,
                                         const ReleasedMemory& memory);

/// Planner that runs the program on a block chain for the micro-batch size of every candidate count. Its best structure
/// that fits, and data parallelism, are simulated for every count under P_A and P_B, because the program's own counts
/// divide single samples among replicas. The least simulated time wins. `links`: the cluster's own rates if absent.
std::unique_ptr<StagePlanner> dapple_released_planner(std::optional<ReleasedLinks> links = std::nullopt);

}  // namespace rannc::partition
