/// Implements RaNNC's Algorithms 1 and 2 as printed, for reproduction; use `rannc` for planning.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

enum class PaperReading : uint8_t {
  kPrinted,   ///< literal, including defects
  kAnchored,  ///< V[0,0,0] = 0 only, d_min reset, no empty shares; still one (tf, tb) per state
};

/// The arguments of `form_stage_dp(B, S, D, BS, R, MB)`.
struct PaperArguments {
  uint32_t stages = 1;         ///< S
  uint32_t devices = 1;        ///< D, of one pipeline
  uint64_t batch = 1;          ///< BS
  uint32_t copies = 1;         ///< R
  uint64_t micro_batches = 1;  ///< MB
  bool recompute = false;
};

struct PaperSolution {
  double v = 0;                    ///< V[S, |B|, D]
  uint32_t first_block = 0;        ///< where the first stage starts; if > 0, the answer is not a partition
  std::vector<uint32_t> ends;      ///< b_i
  std::vector<uint32_t> replicas;  ///< d_i - d_(i-1), of one pipeline
};

/// Algorithm 1. Returns nothing for INFEASIBLE.
std::optional<PaperSolution> form_stage_dp(const StageProblem& problem, const PaperArguments& arguments,
                                           PaperReading reading);

/// Algorithm 2 on top of it. Invalid results (uncovered blocks, replicas without samples) are reported as `Infeasible`.
std::unique_ptr<StagePlanner> rannc_paper_planner(PaperReading reading = PaperReading::kPrinted);

}  // namespace rannc::partition
