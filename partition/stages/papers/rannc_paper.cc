// Implements RaNNC III.C, Algorithms 1 and 2 exactly as printed, for comparison with `rannc`.
//
// Known defects, kept on purpose:
//   1 V[0,b,d] = 0 for all b, d lets the first stage start anywhere.
//   2 d_min is never reset between stage counts.
//   3 One (tf, tb) per state is not optimal for max tf + max tb.
//   4 Shares are rounded down, so a replica may get no sample and cost nothing.
// Algorithm 2 stops at the first S that has a solution. O(S k^2 D^2) per (S, MB, n).
#include "partition/stages/papers/rannc_paper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/planner.h"
#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {
namespace {

constexpr double kMostCells = 4e9;  ///< steps of Algorithm 1, all calls together
/// `profile(U, samples)` of the printed algorithm. The first kind of device represents all.
class Profile {
 public:
  Profile(const StageProblem& problem, const RangeCosts& ranges) : problem_(problem), ranges_(ranges) {
    const ClusterNode& node = problem.cluster.nodes.front();
    if (node.devices.size() > 1)
      link_ = node.inside;
    else if (problem.cluster.size() > 1)
      link_ = problem.cluster.link(DeviceId(0), DeviceId(1));
  }

  StageNeed need(uint32_t a, uint32_t b, uint64_t samples, bool recompute) {
    const auto& [forward, backward] = sums(samples);
    const double compute = forward[b] - forward[a];
    // Footnote 3: sending the outputs is priced by the bandwidth inside a node.
    const double send = link_.transfer_ns(ranges_.sent(a, b).at(static_cast<double>(samples)));
    return {compute + send, backward[b] - backward[a] + (recompute ? compute : 0)};
  }

  double memory(uint32_t a, uint32_t b, uint64_t samples, uint64_t micro_batches, bool recompute) const {
    const double n = static_cast<double>(samples), held = static_cast<double>(micro_batches);
    const double stash = ranges_.stashed_per_sample(a, b) * n;
    const double kept = recompute ? ranges_.received(a, b).at(n) * held + stash : stash * held;
    return ranges_.resident(a, b) + ranges_.temporary(a, b).at(n) + kept;
  }

 private:
  using Sums = std::pair<std::vector<double>, std::vector<double>>;

  const Sums& sums(uint64_t samples) {
    const auto [entry, fresh] = known_.try_emplace(samples);
    if (!fresh) return entry->second;
    const TimeTable& table = problem_.times[problem_.cluster.devices.front().kind];
    const TimeTable::Blend blend = table.blend(samples);
    auto& [forward, backward] = entry->second;
    forward.assign(1, 0);
    backward.assign(1, 0);
    const auto mix = [&](const auto& rows, uint32_t b) {
      return samples == 0 ? 0 : blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b];
    };
    for (uint32_t b = 0; b < problem_.blocks; ++b) {
      forward.push_back(forward.back() + mix(table.forward, b));
      backward.push_back(backward.back() + mix(table.backward, b));
    }
    return entry->second;
  }

  const StageProblem& problem_;
  const RangeCosts& ranges_;
  Link link_{1, 0};
  std::map<uint64_t, Sums> known_;
};

struct Cell {
  double v = kInfinity, forward = 0, backward = 0;
  uint32_t before_block = 0, before_device = 0;
};

/// Algorithm 1; numbers are lines of the printed text.
class FormStageDp {
 public:
  FormStageDp(const StageProblem& problem, Profile& profile, const PaperArguments& arguments, PaperReading reading)
      : problem_(problem),
        profile_(profile),
        in_(arguments),
        reading_(reading),
        cells_(static_cast<size_t>(in_.stages + 1) * (problem.blocks + 1) * (in_.devices + 1)) {}

  std::optional<PaperSolution> run() {
    const uint32_t k = problem_.blocks, S = in_.stages, D = in_.devices;
    if (S > k || S > D) return std::nullopt;
    for (uint32_t b = 0; b <= k; ++b) {  // 6, 7
      for (uint32_t d = 0; d <= D; ++d) {
        if (reading_ == PaperReading::kPrinted || (b == 0 && d == 0)) cell(0, b, d).v = 0;
      }
    }
    uint32_t least = 1;                                                 // 6
    for (uint32_t s = 1; s <= S; ++s) {                                 // 8
      for (uint32_t b = s; b <= k - S + s; ++b) {                       // 9
        for (uint32_t d = D - (S - s); d >= std::max(least, s); --d) {  // 10
          relax(s, b, d);                                               // 11 - 29
          if (cell(s, b, d).v == kInfinity) {                           // 30
            if (reading_ == PaperReading::kPrinted) least = d + 1;      // 31
            break;                                                      // 32
          }
        }
      }
    }
    if (cell(S, k, D).v == kInfinity) return std::nullopt;  // 37
    return trace();                                         // 40
  }

 private:
  Cell& cell(uint32_t s, uint32_t b, uint32_t d) {
    return cells_[(static_cast<size_t>(s) * (problem_.blocks + 1) + b) * (in_.devices + 1) + d];
  }

  void relax(uint32_t s, uint32_t b, uint32_t d) {
    const double memory = memory_of(problem_, DeviceId(0));
    Cell& here = cell(s, b, d);
    for (uint32_t b0 = s - 1; b0 < b; ++b0) {
      for (uint32_t d0 = s - 1; d0 < d; ++d0) {
        const Cell& before = cell(s - 1, b0, d0);
        if (before.v == kInfinity) continue;
        const uint64_t samples = in_.batch / in_.copies / in_.micro_batches / (d - d0);  // 17
        if (samples == 0 && reading_ == PaperReading::kAnchored) continue;
        if (profile_.memory(b0, b, samples, in_.micro_batches, in_.recompute) > memory) continue;  // 18
        const StageNeed need = profile_.need(b0, b, samples, in_.recompute);
        const double forward = std::max(before.forward, need.forward_ns);                         // 21
        const double backward = std::max(before.backward, need.backward_ns);                      // 22
        if (forward + backward < here.v) here = {forward + backward, forward, backward, b0, d0};  // 23 - 27
      }
    }
  }

  PaperSolution trace() {
    PaperSolution solution;
    uint32_t b = problem_.blocks, d = in_.devices;
    solution.v = cell(in_.stages, b, d).v;
    for (uint32_t s = in_.stages; s > 0; --s) {
      const Cell& here = cell(s, b, d);
      solution.ends.insert(solution.ends.begin(), b);
      solution.replicas.insert(solution.replicas.begin(), (d - here.before_device));
      b = here.before_block;
      d = here.before_device;
    }
    solution.first_block = b;
    return solution;
  }

  const StageProblem& problem_;
  Profile& profile_;
  PaperArguments in_;
  PaperReading reading_;
  std::vector<Cell> cells_;
};

class RanncPaperPlanner final : public StagePlanner {
 public:
  explicit RanncPaperPlanner(PaperReading reading) : reading_(reading) {}
  std::string name() const override { return reading_ == PaperReading::kPrinted ? "rannc-paper" : "rannc-anchored"; }

 private:
  struct Best {
    PaperSolution solution;
    PaperArguments arguments;
    double estimate = kInfinity;
  };

  StageOutcome search(const StageProblem& problem, std::stop_token /*stop*/) const override {
    const RangeCosts ranges(problem);
    Profile profile(problem, ranges);
    const uint32_t nodes = static_cast<uint32_t>(problem.cluster.nodes.size());
    const uint32_t per_node = problem.cluster.size() / nodes;
    double left = kMostCells;
    for (uint32_t n = 1; n <= nodes; n *= 2) {
      for (uint32_t s = per_node * (n - 1) + 1; s <= per_node * n; ++s) {
        const double k = problem.blocks, d = per_node * n;
        left -= s * k * k * d * d / 4 * std::log2(static_cast<double>(problem.mini_batch) + 2);
        if (left < 0) {
          return Infeasible{"Algorithm 1 as printed takes O(S k^2 D^2) steps: too many here", 0, "planner rannc"};
        }
        const Best best = best_of(problem, profile, {s, per_node * n, problem.mini_batch, nodes / n, 1, false});
        if (best.estimate < kInfinity) return finish(problem, ranges, profile, best);
      }
    }
    return Infeasible{"Algorithm 2 as printed finds no stage count with a solution", 0,
                      "planner rannc, which searches all stage counts and resets d_min"};
  }

  Best best_of(const StageProblem& problem, Profile& profile, PaperArguments arguments) const {
    Best best;
    arguments.recompute = problem.recompute != RecomputeRule::kNever && arguments.stages > 1;
    for (uint64_t count = 1; count <= arguments.batch / arguments.copies; count *= 2) {
      arguments.micro_batches = count;
      const auto solution = FormStageDp(problem, profile, arguments, reading_).run();
      if (!solution) continue;
      const double estimate = static_cast<double>(count + arguments.stages - 1) * solution->v;
      if (estimate < best.estimate) best = {*solution, arguments, estimate};
    }
    return best;
  }

  StageOutcome finish(const StageProblem& problem, const RangeCosts& ranges, Profile& profile, const Best& best) const {
    if (best.solution.first_block > 0) {
      return Infeasible{
          fmt::format("Algorithm 1 as printed assigns blocks 0 to {} to no stage: V[0,b,d] = 0 for all b, d",
                      best.solution.first_block - 1),
          0, "planner rannc, where only V[0,0,0] is 0"};
    }
    const uint32_t copies = best.arguments.copies;
    const uint64_t samples = (problem.mini_batch + best.arguments.micro_batches - 1) / best.arguments.micro_batches;
    Cover cover;
    uint32_t block = 0, device = 0;
    for (size_t s = 0; s < best.solution.ends.size(); ++s) {
      const uint32_t end = best.solution.ends[s], replicas = best.solution.replicas[s];
      if (static_cast<uint64_t>(replicas) * copies > samples) {
        return Infeasible{
            fmt::format("Algorithm 1 as printed assigns {} replicas to stage {}, but a micro-batch has {} samples",
                        replicas * copies, s, samples),
            0, "planner rannc, which prices the largest share"};
      }
      const uint64_t share = best.arguments.batch / copies / best.arguments.micro_batches / replicas;
      cover.stages.push_back({block, end, device, device + replicas, best.arguments.recompute,
                              profile.need(block, end, share, best.arguments.recompute)});
      block = end;
      device += replicas;
    }
    StagePlan plan =
        plan_of_cover(problem, ranges, cover, best.arguments.micro_batches, best.arguments.devices, copies);
    for (const PlannedStage& stage : plan.stages) {
      double offered = memory_of(problem, stage.devices.front());
      for (const DeviceId device : stage.devices) offered = std::min(offered, memory_of(problem, device));
      if (stage.peak_bytes > offered) {
        return Infeasible{
            fmt::format("the printed plan needs {:.0f} bytes on a device of {:.0f}: its memory model ignores "
                        "communication buffers and uneven shares",
                        stage.peak_bytes, offered),
            stage.peak_bytes - offered, "planner rannc"};
      }
    }
    if (!keeps_constraints(problem, plan)) {
      return Infeasible{"the printed algorithms know no constraints, and their plan breaks one", 0, "planner rannc"};
    }
    plan.objective_name = "(micro-batches + stages - 1) * V of Algorithm 1, ns";
    plan.objective = best.estimate;
    plan.bound_name = "none";
    plan.notes.push_back("as printed: not exact, first stage count with a solution");
    return plan;
  }

  PaperReading reading_;
};

}  // namespace

std::optional<PaperSolution> form_stage_dp(const StageProblem& problem, const PaperArguments& arguments,
                                           PaperReading reading) {
  const RangeCosts ranges(problem);
  Profile profile(problem, ranges);
  return FormStageDp(problem, profile, arguments, reading).run();
}

std::unique_ptr<StagePlanner> rannc_paper_planner(PaperReading reading) {
  return std::make_unique<RanncPaperPlanner>(reading);
}

}  // namespace rannc::partition
