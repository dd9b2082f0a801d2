#include "tests/partition/stages/support/oracle.h"

#include <algorithm>

namespace rannc::partition::testing {
namespace {

/// Time at `samples` by the definition of a time table.
double time_at(const TimeTable& table, const std::vector<std::vector<double>>& rows, uint32_t block, uint64_t samples) {
  const double n = static_cast<double>(samples);
  for (size_t i = 0; i < table.sizes.size(); ++i) {
    if (table.sizes[i] == samples) return rows[i][block];
  }
  if (samples < table.sizes.front()) return rows.front()[block] * n / static_cast<double>(table.sizes.front());
  if (samples > table.sizes.back()) return rows.back()[block] * n / static_cast<double>(table.sizes.back());
  size_t high = 0;
  while (table.sizes[high] < samples) ++high;
  const double x0 = static_cast<double>(table.sizes[high - 1]), x1 = static_cast<double>(table.sizes[high]);
  return rows[high - 1][block] + (rows[high][block] - rows[high - 1][block]) * (n - x0) / (x1 - x0);
}

class Oracle {
 public:
  Oracle(const StageProblem& problem, uint64_t micro_batches, uint32_t devices, uint32_t copies,
         const OracleVisit& visit)
      : p_(problem), micro_batches_(micro_batches), devices_(devices), copies_(copies), visit_(visit) {}

  void run() { extend(0, 0); }

 private:
  bool reads(const BlockValue& value, uint32_t a, uint32_t b) const {
    return std::any_of(value.readers.begin(), value.readers.end(), [&](uint32_t r) { return r >= a && r < b; });
  }

  void extend(uint32_t a, uint32_t from) {
    if (a == p_.blocks) {
      finish();
      return;
    }
    const auto& forbidden = p_.constraints.forbidden_cuts;
    for (uint32_t b = a + 1; b <= p_.blocks; ++b) {
      if (b < p_.blocks && std::find(forbidden.begin(), forbidden.end(), b) != forbidden.end()) continue;
      for (uint32_t to = from + 1; to <= devices_; ++to) {
        for (const bool recompute : {false, true}) {
          if (p_.recompute == RecomputeRule::kNever && recompute) continue;
          if (p_.recompute == RecomputeRule::kAlways && !recompute) continue;
          stages_.push_back({a, b, from, to, recompute, 0, 0});
          extend(b, to);
          stages_.pop_back();
        }
      }
    }
  }

  void finish() {
    const auto& given = p_.constraints;
    if (given.max_stages && stages_.size() > *given.max_stages) return;
    if (given.stages && stages_.size() != *given.stages) return;
    for (const StagePin& pin : given.pins) {
      if (pin.block < stages_[pin.stage].first || pin.block >= stages_[pin.stage].end) return;
    }
    const uint64_t samples = (p_.mini_batch + micro_batches_ - 1) / micro_batches_;
    for (size_t s = 0; s < stages_.size(); ++s) {
      OracleStage& stage = stages_[s];
      const uint64_t replicas = static_cast<uint64_t>(stage.to - stage.from) * copies_;
      if (!given.replicas.empty() && given.replicas[s] != replicas) return;
      if (replicas > samples) return;
      const uint64_t share = (samples + replicas - 1) / replicas;
      price(stage, share);
      for (uint32_t d = stage.from; d < stage.to; ++d) {
        if (memory(stage, share, stages_.size() - s) > offered(d)) return;
      }
    }
    visit_(stages_, micro_batches_, copies_);
  }

  double offered(uint32_t device) const {
    const double own = static_cast<double>(p_.cluster.kind_of(DeviceId(device)).memory_bytes);
    return p_.constraints.memory_bytes ? std::min(own, static_cast<double>(*p_.constraints.memory_bytes)) : own;
  }

  void price(OracleStage& stage, uint64_t share) const {
    stage.forward = stage.backward = 0;
    double in = 0, back = 0;
    for (const BlockValue& value : p_.values) {
      if (value.producer >= stage.first || !reads(value, stage.first, stage.end)) continue;
      const double bytes = value.bytes + value.bytes_per_sample * static_cast<double>(share);
      in += bytes;
      if (value.gradient) back += bytes;
    }
    Link link{1, 0};
    if (stage.from > 0) link = p_.cluster.link(DeviceId(stage.from - 1), DeviceId(stage.from));
    const auto transfer = [&](double bytes) {
      return bytes > 0 ? link.latency_ns + bytes * 1e9 / link.bytes_per_second : 0;
    };
    for (uint32_t d = stage.from; d < stage.to; ++d) {
      const TimeTable& table = p_.times[p_.cluster.devices[d].kind];
      double forward = 0, backward = 0;
      for (uint32_t b = stage.first; b < stage.end; ++b) {
        forward += time_at(table, table.forward, b, share);
        backward += time_at(table, table.backward, b, share);
      }
      if (stage.recompute) backward += forward;
      stage.forward = std::max(stage.forward, forward + transfer(in));
      stage.backward = std::max(stage.backward, backward + transfer(back));
    }
  }

  double memory(const OracleStage& stage, uint64_t share, uint64_t from_end) const {
    const double n = static_cast<double>(share);
    uint64_t held = micro_batches_;
    if (p_.in_flight == InFlight::kOneFOneB) held = std::min(held, from_end);
    if (p_.in_flight == InFlight::kTwice) held = std::min(held, 2 * from_end - 1);
    double gradients = 0;  // there from the first backward pass on
    double resident = 0, stash = 0, temporary = 0, fixed_temporary = 0, in = 0, back = 0, out = 0, kept = 0;
    double behind = 0;  // stash of the blocks behind
    for (uint32_t b = stage.end; b-- > stage.first;) {
      const double sum = p_.gradient_bytes.empty() ? p_.parameter_bytes[b] : p_.gradient_bytes[b];
      resident += p_.parameter_bytes[b] * (1 + p_.optimizer_factor) + sum;
      gradients += sum;
      stash += p_.stashed_bytes_per_sample[b] * n;
      if (!p_.temporary_bytes_per_sample.empty())
        temporary = std::max(temporary, p_.temporary_bytes_per_sample[b] * n - behind);
      behind += p_.stashed_bytes_per_sample[b] * n;
      if (!p_.temporary_bytes.empty()) fixed_temporary = std::max(fixed_temporary, p_.temporary_bytes[b]);
    }
    temporary += fixed_temporary;
    for (const BlockValue& value : p_.values) {
      const double bytes = value.bytes + value.bytes_per_sample * n;
      if (value.producer < stage.first && reads(value, stage.first, stage.end)) {
        in += bytes;
        if (value.gradient) back += bytes;
        if (value.kept != ValueKept::kNever) kept += bytes;
      }
      const bool leaves = !value.readers.empty() && value.readers.back() >= stage.end;
      if (value.producer < stage.first || value.producer >= stage.end || !leaves) continue;
      out += bytes;
      if (value.kept == ValueKept::kWhereItCrosses) stash += bytes;
    }
    for (const SharedHolding& holding : p_.shared) {
      const auto inside = [&](uint32_t block) { return block >= stage.first && block < stage.end; };
      if (std::none_of(holding.blocks.begin(), holding.blocks.end(), inside)) continue;
      if (holding.kind == SharedHolding::Kind::kParameter) {
        const auto readers = std::count_if(holding.blocks.begin(), holding.blocks.end(), inside);
        const double sum = holding.sum_bytes.value_or(holding.bytes);
        resident += holding.bytes * (1 + p_.optimizer_factor) + sum * static_cast<double>(readers);
        gradients += sum;
      }
      if (holding.kind == SharedHolding::Kind::kBuffer) resident += holding.bytes;
      if (holding.kind == SharedHolding::Kind::kInput) kept += holding.bytes + holding.bytes_per_sample * n;
    }
    stash += kept;
    const double each = stage.recompute ? kept : stash;
    const double next = std::max(in, out);  // a message that waits
    const double most = resident + std::max(temporary, back) + next + out + static_cast<double>(held) * each +
                        (stage.recompute ? stash - kept : 0);
    return held < micro_batches_ ? most : std::max(most - gradients, most - each);
  }

  const StageProblem& p_;
  uint64_t micro_batches_;
  uint32_t devices_, copies_;
  const OracleVisit& visit_;
  std::vector<OracleStage> stages_;
};

}  // namespace

void for_each_plan(const StageProblem& problem, const OracleVisit& visit) {
  const uint32_t nodes = static_cast<uint32_t>(problem.cluster.nodes.size());
  const uint32_t per_node = problem.cluster.size() / nodes;  // test clusters have nodes of equal size
  bool alike = problem.cluster.node_links.empty() && problem.cluster.device_links.empty() &&
               problem.constraints.replicas.empty();
  for (uint32_t d = per_node; d < problem.cluster.size(); ++d) {
    alike &= problem.cluster.devices[d].kind == problem.cluster.devices[d - per_node].kind;
  }
  for (uint32_t n = 1; n <= nodes; ++n) {
    if (nodes % n != 0 || (n < nodes && !alike)) continue;
    for (const uint64_t micro_batches : micro_batch_candidates(problem)) {
      Oracle(problem, micro_batches, problem.cluster.size() / nodes * n, nodes / n, visit).run();
    }
  }
}

void for_each_roomy_plan(const StageProblem& problem, const std::function<void(StagePlan)>& visit) {
  StageProblem roomy = problem;
  roomy.in_flight = InFlight::kOneFOneB;
  for (DeviceKind& kind : roomy.cluster.kinds) kind.memory_bytes = 1ull << 60;
  for_each_plan(roomy, [&](const std::vector<OracleStage>& stages, uint64_t micro_batches, uint32_t copies) {
    if (copies > 1) return;
    StagePlan plan;
    plan.micro_batches = micro_batches;
    for (const OracleStage& from : stages) {
      PlannedStage stage;
      stage.first = from.first;
      stage.end = from.end;
      stage.recompute = from.recompute;
      for (uint32_t d = from.from; d < from.to; ++d) stage.devices.push_back(DeviceId(d));
      plan.stages.push_back(std::move(stage));
    }
    visit(std::move(plan));
  });
}

std::optional<double> least_fill_drain(const StageProblem& problem) {
  std::optional<double> least;
  for_each_plan(problem, [&](const std::vector<OracleStage>& stages, uint64_t micro_batches, uint32_t) {
    double forward = 0, backward = 0;
    for (const OracleStage& stage : stages) {
      forward = std::max(forward, stage.forward);
      backward = std::max(backward, stage.backward);
    }
    const double value = static_cast<double>(micro_batches + stages.size() - 1) * (forward + backward);
    if (!least || value < *least) least = value;
  });
  return least;
}

}  // namespace rannc::partition::testing
