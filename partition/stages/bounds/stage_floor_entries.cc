// Which part of a message a replica must wait for: replica r of n has the samples [⌊B r / n⌋, ⌊B (r + 1) / n⌋) of B, so
// the last one has ⌈B / n⌉ in every micro-batch, and the last replicas of two stages share the last sample.
//   1 All messages of a mini-batch to the last replica pass its port: ⌈B / n⌉ samples a micro-batch.
//   2 A first forward pass waits for its own samples alone, at least ⌊B / n⌋ of them, from a replica that has finished
//     a forward pass; a last gradient likewise takes that long to leave.
//   3 The last replicas of two stages exchange the samples that both have, in both directions.
// The judge of whole stages counts a micro-batch of B samples as B / L of the largest one, of L, which never takes
// longer.
#include "partition/stages/bounds/stage_floor_entries.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partition/stages/covers/cover.h"
#include "partition/stages/pricing/stage_sums.h"
#include "partition/transfers.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kOneByOne = 16;      ///< replica counts up to here are distinguished
constexpr double kReplicaStep = 1.125;  ///< larger counts within this factor count as one
constexpr double kSteps = 8e6;          ///< of a query, if larger device units suffice to reach it
constexpr uint64_t kPricingSteps = 32;  ///< cost of pricing an entry
constexpr double kUnitSlack = 1e-6;     ///< of a unit, against rounding

Link faster(const Link& a, const Link& b) {
  return {std::max(a.bytes_per_second, b.bytes_per_second), std::min(a.latency_ns, b.latency_ns)};
}

/// Replaces each time by the least time among its own and larger sizes: parts of monotone times need not be monotone.
void lower_to_monotone(std::vector<std::vector<double>>& rows) {
  for (size_t i = rows.size(); i-- > 1;) {
    for (size_t b = 0; b < rows[i].size(); ++b) rows[i - 1][b] = std::min(rows[i - 1][b], rows[i][b]);
  }
}

/// Copies the parts of a problem that prices need, for micro-batches of `samples`.
StageProblem timed(const StageProblem& problem, uint64_t samples, bool inputs_alone) {
  StageProblem part;
  part.blocks = problem.blocks;
  part.times = problem.times;
  part.mini_batch = samples;
  part.in_flight = InFlight::kOne;
  part.recompute = problem.recompute;
  for (TimeTable& table : part.times) {
    if (!inputs_alone || table.weight_gradient.empty()) continue;
    for (size_t i = 0; i < table.backward.size(); ++i) {
      for (size_t b = 0; b < table.backward[i].size(); ++b) table.backward[i][b] -= table.weight_gradient[i][b];
    }
    lower_to_monotone(table.backward);
  }
  return part;
}

double replica_counts(uint32_t devices) {
  return std::min<double>(devices,
                          kOneByOne + std::log(std::max(1.0, devices / double{kOneByOne})) / std::log(kReplicaStep));
}

/// Number of devices that count as one, so that a query stays within kSteps.
uint32_t device_unit(const StageProblem& problem) {
  const uint32_t devices = problem.cluster.size();
  const double ranges = 0.5 * problem.blocks * problem.blocks * replica_counts(devices);
  const double units = std::clamp(kSteps / ranges, 16.0, 256.0);
  return static_cast<uint32_t>(std::ceil(devices / units));
}

uint32_t devices_of(const StageProblem& problem) { return problem.cluster.size(); }

struct Pass {
  double forward = kInfinity, backward = kInfinity;
};

/// Times of the blocks [a, b), each pass on the kind of device that runs it fastest.
Pass least(const StagePrices& prices, uint32_t a, uint32_t b, size_t share, size_t kinds) {
  Pass pass;
  for (uint32_t kind = 0; kind < kinds; ++kind) {
    pass.forward = std::min(pass.forward, prices.forward(a, b, share, kind));
    pass.backward = std::min(pass.backward, prices.backward(a, b, share, kind));
  }
  return pass;
}

/// Returns the share of `replicas`, or the smallest one.
size_t share_at(const StagePrices& prices, uint64_t replicas) {
  return std::min(prices.share_of(static_cast<uint32_t>(replicas)), prices.shares().size() - 1);
}

}  // namespace

BestLinks::BestLinks(const Cluster& cluster) {
  bool some = false, between = false;
  const auto take = [](Link& best, bool& first, const Link& link) {
    best = first ? faster(best, link) : link;
    first = true;
  };
  if (cluster.nodes.size() > 1) take(between_, between, cluster.between);
  for (const auto& [ends, link] : cluster.node_links) take(between_, between, link);
  for (const auto& [ends, link] : cluster.device_links) take(between_, between, link);
  if (between) take(any_, some, between_);
  for (const ClusterNode& node : cluster.nodes) {
    largest_node_ = std::max<uint64_t>(largest_node_, node.devices.size());
    if (node.devices.size() > 1) take(any_, some, node.inside);
  }
}

double FloorEntries::steps(const StageProblem& problem) {
  const uint32_t devices = problem.cluster.size();
  return 0.5 * problem.blocks * problem.blocks * replica_counts(devices) * std::ceil(devices / device_unit(problem));
}

FloorEntries::FloorEntries(const StageProblem& problem, const RangeCosts& ranges, const BestLinks& links,
                           uint64_t micro_batches)
    : problem_(problem),
      ranges_(ranges),
      links_(links),
      micro_batches_(micro_batches),
      more_(problem.mini_batch % micro_batches),
      small_(timed(problem, problem.mini_batch / micro_batches, false), ranges, 1, devices_of(problem), 1),
      large_(timed(problem, problem.mini_batch / micro_batches + (more_ > 0), false), ranges, 1, devices_of(problem),
             1),
      inputs_(timed(problem, problem.mini_batch / micro_batches, true), ranges, 1, devices_of(problem), 1),
      entries_(problem.blocks),
      priced_(problem.blocks, 0),
      hulls_(problem) {
  unit_ = device_unit(problem);
  units_ = (devices_of(problem) + unit_ - 1) / unit_;
  for (uint32_t d = 0; d < devices_of(problem); ++d) memory_ = std::max(memory_, memory_of(problem, DeviceId(d)));
  for (const DeviceKind& kind : problem.cluster.kinds) rate_ = std::max(rate_, kind.bytes_per_second);
  add_groups();
  add_spread();
  add_late_sums();
  add_joints();
}

void FloorEntries::add_groups() {
  const uint64_t samples = problem_.mini_batch / micro_batches_;
  const uint64_t most = std::min<uint64_t>(devices_of(problem_), samples + (more_ > 0));
  for (uint64_t from = 1, to; from <= most; from = to + 1) {
    to = from < kOneByOne ? from : std::min(most, static_cast<uint64_t>(static_cast<double>(from) * kReplicaStep));
    Group group{from, to, static_cast<uint16_t>(from / unit_), share_at(small_, to), share_at(large_, to)};
    group.largest = static_cast<double>((samples + (more_ > 0) + to - 1) / to);
    group.busiest = last_share(to);
    group.any = std::min(group.busiest, static_cast<double>(std::max<uint64_t>(1, samples / to)));
    const uint64_t before = std::clamp<uint64_t>(devices_of(problem_) - from, 1, most);
    group.common = std::min(group.busiest, last_share(before));
    groups_.push_back(group);
  }
}

double FloorEntries::last_share(uint64_t replicas) const {
  const uint64_t samples = problem_.mini_batch / micro_batches_, largest = samples + (more_ > 0);
  const auto part = [replicas](uint64_t of) { return static_cast<double>((of + replicas - 1) / replicas); };
  return std::min(part(samples), part(largest) * static_cast<double>(samples) / static_cast<double>(largest));
}

double FloorEntries::message_bytes(const Affine& bytes, double samples) const {
  const double largest = static_cast<double>(problem_.mini_batch / micro_batches_ + (more_ > 0));
  return (bytes.per_sample + bytes.fixed / largest) * samples;
}

void FloorEntries::add_spread() {
  spread_.assign(problem_.blocks + 1, 0);
  for (uint32_t b = 0; b < problem_.blocks; ++b) {
    double spread = kInfinity;
    for (const Group& group : groups_) {
      const Pass pass = least(small_, b, b + 1, group.share, problem_.times.size());
      spread = std::min(spread, group.units * (pass.forward + pass.backward));
    }
    spread_[b + 1] = spread_[b] + spread * micro_batches();
  }
}

void FloorEntries::add_late_sums() {
  std::vector<double> with_shared(problem_.blocks);
  for (uint32_t b = 0; b < problem_.blocks; ++b) with_shared[b] = gradient_bytes(problem_, b);
  for (const SharedHolding& holding : problem_.shared) {
    if (holding.kind != SharedHolding::Kind::kParameter) continue;
    for (const uint32_t b : holding.blocks) with_shared[b] += holding.gradient_bytes();
  }
  const size_t kinds = problem_.overlap_sums ? problem_.times.size() : 0;
  for (size_t g = 0; kinds > 0 && g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const double replicas = static_cast<double>(group.least), halves = problem_.sharded ? 1 : 2;
    const double per_byte = halves * (replicas - 1) / replicas * 1e9 / links_.of_group(group.least).bytes_per_second;
    double sums = 0, passes = 0;
    late_.emplace_back();
    late_before_.emplace_back();
    for (uint32_t b = 0; b < problem_.blocks; ++b) {
      late_before_.back().push_back(sums - passes);
      double longest = 0;
      for (uint32_t kind = 0; kind < kinds; ++kind) {
        longest = std::max(longest, small_.backward(b, b + 1, group.share, kind));
        if (more_ > 0) longest = std::max(longest, large_.backward(b, b + 1, group.larger_share, kind));
      }
      // The first of its sums and all that follow, or the last one. With shared parameters it may have more.
      const double own = per_byte * gradient_bytes(problem_, b), part = 1 / sums_of_block(problem_, b, with_shared[b]);
      late_.back().push_back(sums - passes + std::max(own - (1 - part) * longest, part * own));
      sums += own;
      passes += longest;
    }
  }
}

double FloorEntries::late_sums(uint32_t a, uint32_t b, uint16_t group) {
  Latest& latest = latest_[group];
  for (latest.end = std::max(latest.end, a); latest.end < b; ++latest.end) {
    latest.most = std::max(latest.most, late_[group][latest.end] - late_before_[group][a]);
  }
  return latest.most;
}

void FloorEntries::add_joints() {
  joints_.assign(problem_.blocks * groups_.size(), {});
  const Link& link = links_.any();
  for (const BlockValue& value : problem_.values) {
    if (value.readers.empty() || value.readers.front() != value.producer + 1) continue;
    for (size_t group = 0; group < groups_.size(); ++group) {
      const Affine bytes{value.bytes, value.bytes_per_sample};
      Joint& joint = joints_[value.readers.front() * groups_.size() + group];
      joint.follows = true;
      joint.there += message_bytes(bytes, groups_[group].any);
      joint.joined += message_bytes(bytes, groups_[group].busiest);
      if (value.gradient) joint.back += message_bytes(bytes, groups_[group].any);
      joint.returns |= value.gradient;
    }
  }
  for (size_t i = 0; i < joints_.size(); ++i) {
    Joint& joint = joints_[i];
    const Group& group = groups_[i % groups_.size()];
    const double common = group.common / group.any;
    joint.both = link.transfer_ns(joint.there * common) + link.transfer_ns(joint.back * common);
    joint.joined *= micro_batches() * 1e9 / link.bytes_per_second;
    joint.there = link.transfer_ns(joint.there);
    joint.back = link.transfer_ns(joint.back);
  }
}

FloorEntries::Band FloorEntries::band(double limit) const {
  const auto units_for = [limit](double spread) { return std::max(0.0, std::ceil(spread / limit - kUnitSlack)); };
  Band band;
  for (uint32_t a = 0; a <= problem_.blocks; ++a) {
    const double before = units_for(spread_[a]), after = units_for(spread_.back() - spread_[a]);
    const bool some = before + after <= units_;
    band.least.push_back(some ? static_cast<uint32_t>(before) : 1);
    band.most.push_back(some ? units_ - static_cast<uint32_t>(after) : 0);
  }
  return band;
}

std::span<const FloorEntry> FloorEntries::from(uint32_t a, double limit, BoundBudget& budget) {
  if (limit > built_) {
    built_ = limit;
    built_band_ = band(limit);
    std::fill(priced_.begin(), priced_.end(), 0);
    for (auto& entries : entries_) entries = {};
    trades_.clear();
  }
  if (!priced_[a]) {
    if (!budget.take(1)) return {};
    spent_ = 0;
    price(a);
    if (!budget.take(spent_)) return {};
    priced_[a] = 1;
  }
  return entries_[a];
}

void FloorEntries::price(uint32_t a) {
  entries_[a].clear();
  latest_.assign(groups_.size(), {});
  const uint32_t least_here = built_band_.least[a], most_here = built_band_.most[a];
  if (least_here > most_here) return;
  const uint32_t least_units = groups_.front().units, most_units = groups_.back().units;
  for (uint32_t b = a + 1; b <= problem_.blocks; ++b) {
    ++spent_;
    const uint32_t least_there = built_band_.least[b], most_there = built_band_.most[b];
    if (least_there > most_there || most_there < least_here + least_units) continue;
    if (least_there > most_here + most_units) continue;
    if (b < problem_.blocks && !ranges_.cut_allowed(b)) continue;
    points_.clear();
    bool any_in_time = false;
    const auto groups = static_cast<uint16_t>(groups_.size());  // some hundreds
    for (uint16_t group = 0; group < groups; ++group) {
      const uint32_t units = groups_[group].units;
      if (least_here + units > most_there || most_here + units < least_there) {
        any_in_time = true;
        continue;
      }
      any_in_time |= add(a, b, group);
    }
    if (!any_in_time) break;  // more blocks take longer still
  }
}

bool FloorEntries::add(uint32_t a, uint32_t b, uint16_t index) {
  const size_t kinds = problem_.times.size();
  const Group& group = groups_[index];
  spent_ += kPricingSteps;
  const Pass pass = least(small_, a, b, group.share, kinds), larger = least(large_, a, b, group.larger_share, kinds);
  const double more = static_cast<double>(more_), even = micro_batches() - more;
  FloorEntry entry;
  entry.work = even * (pass.forward + pass.backward) + more * (larger.forward + larger.backward);
  if (entry.work > built_) return false;
  entry.bytes = fitting(entry, a, b, group.share);
  if (entry.bytes > memory_) return true;
  if (!hulls_.empty()) add_trades(entry, a, b, group.share);
  entry.end = b;
  entry.units = group.units;
  entry.replicas = index;
  entry.forward = pass.forward;
  entry.backward = least(inputs_, a, b, group.share, kinds).backward;
  const double again = problem_.recompute == RecomputeRule::kAlways ? larger.forward : 0;
  entry.full.work = micro_batches() * (larger.forward + again + larger.backward);
  add_messages(entry, a, b, group);
  const double gradients = ranges_.gradients(a, b), parameters = ranges_.parameters(a, b);
  const double divisor = problem_.sharded ? most_replicas() : 1;
  const double exchanged = problem_.sharded ? (gradients + parameters) / 2 : gradients;
  const Link& link = links_.of_group(group.least);
  entry.sums = all_reduce_ns(exchanged, group.least, link);
  entry.update = optimizer_pass_ns(parameters, gradients, ranges_.states(a, b), rate_) / divisor;
  // A gather follows the update: only the scatter before it runs beside the last backward pass.
  const double reduced =
      problem_.sharded ? std::min(entry.sums, all_reduce_ns(gradients, group.least, link) / 2) : entry.sums;
  double late = reduced;
  if (problem_.overlap_sums && group.least > 1) {
    const double last = std::max(pass.backward, more > 0 ? larger.backward : 0);
    late = std::min(reduced, std::max({0.0, reduced - last, late_sums(a, b, index)}));
  }
  entry.tail = entry.sums - reduced + late + entry.update;
  entries_[a].push_back(entry);
  return true;
}

void FloorEntries::add_messages(FloorEntry& entry, uint32_t a, uint32_t b, const Group& group) const {
  const Affine *in[] = {&ranges_.received(a, b), &ranges_.answered(a, b)},
               *out[] = {&ranges_.sent(a, b), &ranges_.returned(a, b)};
  const Link& link = links_.any();
  const auto ports = [&](const Affine* const(&messages)[2], double samples, double latency) {
    double time = 0;
    for (const Affine* bytes : messages)
      time += Link{link.bytes_per_second, latency}.transfer_ns(message_bytes(*bytes, samples));
    return micro_batches() * time;
  };
  entry.port = std::max(ports(in, group.busiest, 0), ports(out, group.busiest, 0));
  const double full_in = ports(in, group.largest, link.latency_ns),
               full_out = ports(out, group.largest, link.latency_ns);
  entry.full.port = std::max(full_in, full_out);
  entry.full.messages = full_in + full_out;
}

/// Fills the slots. Returns the least peak.
double FloorEntries::fitting(FloorEntry& entry, uint32_t a, uint32_t b, size_t share) const {
  double least = kInfinity;
  for (const bool recompute : recompute_choices(problem_.recompute)) {
    const StageBytes bytes = small_.least_bytes(a, b, share, recompute, most_replicas());
    least = std::min(least, bytes.peak(1, micro_batches()));
    (recompute ? entry.repeated_slots : entry.slots) = slots_of(bytes);
  }
  return least;
}

double FloorEntries::slots_of(const StageBytes& bytes) const {
  const double all = micro_batches();
  if (bytes.peak(1, all) > memory_) return 0;
  if (bytes.in_flight == 0 || bytes.peak(all, all) <= memory_) return kInfinity;
  return std::max(1.0, std::floor((memory_ - bytes.standing) / bytes.in_flight * (1 + 1e-9)));
}

/// Points of more bytes never leave more slots: a kept byte takes room for each micro-batch in flight and frees room in
/// one R. A mini-batch of one micro-batch is an exception, but then nothing is gained by recompute.
void FloorEntries::add_trades(FloorEntry& entry, uint32_t a, uint32_t b, size_t share) {
  if (entry.slots >= micro_batches() || entry.repeated_slots <= entry.slots) return;
  if (points_.empty()) points_ = hulls_.of(a, b);
  FloorTrades& trades = trades_.emplace_back();
  entry.trades = &trades;
  for (size_t i = 1; i < points_.size(); ++i) {
    const RebuildPoint& point = points_[i];
    const double part = (1 - point.share) * static_cast<double>(trades.size());
    FloorTrade& trade = trades[std::min(trades.size() - 1, static_cast<size_t>(part))];
    if (trade.slots == 0)
      trade.slots = slots_of(small_.least_bytes(a, b, share, true, most_replicas(), point.bytes_per_sample));
    trade.share = std::min(trade.share, point.share);
  }
}

}  // namespace rannc::partition
