// Implements search and score of the released program, over cut states.
#include "partition/stages/papers/dapple_released.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace rannc::partition {
namespace {

using Devices = std::vector<uint32_t>;

/// Devices in use per machine. Every policy takes the first free ones of a machine.
using Occupied = std::vector<uint32_t>;

/// The program's view of the machines: it determines whether a group spans machines from its smallest and largest
/// device alone.
class Machines {
 public:
  explicit Machines(const ReleasedOptions& options) : sizes_(options.machines), links_(options.links) {
    for (uint32_t machine = 0; machine < sizes_.size(); ++machine) {
      first_.push_back(static_cast<uint32_t>(machine_of_.size()));
      machine_of_.insert(machine_of_.end(), sizes_[machine], machine);
    }
  }

  uint32_t devices() const { return static_cast<uint32_t>(machine_of_.size()); }
  Occupied none() const { return Occupied(sizes_.size(), 0); }

  double all_reduce_s(const Devices& on, double bytes) const {
    const double n = static_cast<double>(on.size());
    if (on.size() == 1) return 0;
    const double moved = 2 * bytes * (n - 1) / n;
    return spans(on) ? moved / links_.collective : moved / links_.inside / static_cast<double>(on.size() / 2);
  }

  double transfer_s(const Devices& from, const Devices& to, double bytes) const {
    if (spans(to)) return bytes / (spans(from, to) ? links_.collective : links_.inside);
    const auto afar = std::count_if(from.begin(), from.end(), [&](uint32_t device) { return spans({device}, to); });
    if (afar == 0) return bytes / links_.inside;
    return bytes / static_cast<double>(from.size()) * static_cast<double>(afar) / links_.point_to_point;
  }

  /// Returns the sets that the three policies offer, without duplicates: Fresh First, Append First, Scatter First.
  std::vector<Devices> offers(const Occupied& occupied, uint32_t count) const {
    std::vector<Devices> sets;
    for (auto& set : {fill(occupied, count, true), fill(occupied, count, false), scatter(occupied, count)}) {
      if (!set.empty() && std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(set);
    }
    return sets;
  }

  void occupy(Occupied& occupied, const Devices& set) const {
    for (const uint32_t device : set) ++occupied[machine_of_[device]];
  }

 private:
  bool spans(const Devices& set) const { return machine_of_[set.front()] != machine_of_[set.back()]; }
  bool spans(const Devices& a, const Devices& b) const {
    return machine_of_[std::min(a.front(), b.front())] != machine_of_[std::max(a.back(), b.back())];
  }

  /// Takes from fresh machines only, or from used ones only. Empty if they do not suffice.
  Devices fill(const Occupied& occupied, uint32_t count, bool fresh) const {
    Devices set;
    for (size_t machine = 0; machine < sizes_.size(); ++machine) {
      if ((occupied[machine] == 0) != fresh) continue;
      for (uint32_t at = occupied[machine]; at < sizes_[machine] && set.size() < count; ++at) {
        set.push_back(first_[machine] + at);
      }
    }
    return set.size() == count ? set : Devices();
  }

  Devices scatter(Occupied occupied, uint32_t count) const {
    Devices set;
    for (size_t before = 1; set.size() < count && set.size() != before;) {
      before = set.size();
      for (size_t machine = 0; machine < sizes_.size() && set.size() < count; ++machine) {
        if (occupied[machine] < sizes_[machine]) set.push_back(first_[machine] + occupied[machine]++);
      }
      if (set.empty()) break;
    }
    std::sort(set.begin(), set.end());
    return set.size() == count ? set : Devices();
  }

  std::vector<uint32_t> sizes_, first_, machine_of_;
  ReleasedLinks links_;
};

class ReleasedSearch {
 public:
  ReleasedSearch(const CutStates& states, const ReleasedOptions& options)
      : states_(states),
        options_(options),
        machines_(options),
        scale_(static_cast<double>(options.mini_batch) / static_cast<double>(options.profile_batch)) {}

  std::vector<ReleasedPlan> run() {
    for (uint32_t i = 2; i <= machines_.devices(); ++i) one_stage(i);
    const uint32_t devices = machines_.devices();
    if (devices > 2 && devices % 2 == 0) straight_pair();
    if (devices >= 2) straight();
    two_stages();
    std::stable_sort(plans_.begin(), plans_.end(),
                     [](const ReleasedPlan& a, const ReleasedPlan& b) { return a.speedup > b.speedup; });
    return std::move(plans_);
  }

 private:
  uint32_t states() const { return states_.size(); }
  /// Time of states [from, to] on one device for the whole mini-batch.
  double compute_s(uint32_t from, uint32_t to) const {
    return scale_ * (states_.compute_s[to] - (from == 0 ? 0 : states_.compute_s[from - 1]));
  }
  double parameters(uint32_t from, uint32_t to) const {
    return states_.parameter_bytes[to] - (from == 0 ? 0 : states_.parameter_bytes[from - 1]);
  }
  double total_s() const { return compute_s(0, states() - 1); }

  /// Scores a candidate; `bottleneck` is the largest compute or transfer time of a mini-batch.
  ReleasedPlan scored(const char* kind, std::vector<ReleasedStage> stages, uint32_t copies, double bottleneck) const {
    ReleasedPlan plan{kind, std::move(stages), options_.mini_batch / copies / options_.micro_batch, 0};
    if (plan.micro_batches == 0) return plan;
    const double m = static_cast<double>(plan.micro_batches), block = bottleneck / m;
    double length = block * (m - 1) + total_s() / copies / m, late = 0;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const ReleasedStage& stage = plan.stages[s];
      if (s + 1 < plan.stages.size()) {
        const double bytes = scale_ * states_.output_bytes[stage.to - 1] / copies / m;
        length += machines_.transfer_s(stage.devices, plan.stages[s + 1].devices, bytes);
      }
      const double bytes = parameters(stage.from, std::min(stage.to, states() - 1));
      late = std::max(late, machines_.all_reduce_s(stage.devices, bytes) - static_cast<double>(s) * block);
    }
    plan.speedup = total_s() / (length + late);
    return plan;
  }

  void one_stage(uint32_t parts) {
    const uint32_t copies = machines_.devices() / parts;
    Devices set = machines_.offers(machines_.none(), parts * copies).front();
    plans_.push_back(scored("one stage", {{0, states(), std::move(set)}}, copies, total_s() / parts / copies));
  }

  /// Returns two stages of half the devices each, at the cut with the least bottleneck.
  void straight_pair() {
    const uint32_t half = machines_.devices() / 2;
    const Devices first = machines_.offers(machines_.none(), half).front();
    Devices second(machines_.devices());
    std::iota(second.begin(), second.end(), 0);
    std::erase_if(second, [&](uint32_t device) { return std::binary_search(first.begin(), first.end(), device); });
    double best = std::numeric_limits<double>::infinity();
    uint32_t cut = 0;
    for (const uint32_t k : states_.before.back()) {
      const double transfer = machines_.transfer_s(first, second, 2 * scale_ * states_.output_bytes[k]);
      const double bottleneck = std::max({compute_s(0, k) / half, compute_s(k + 1, states() - 1) / half, transfer});
      if (bottleneck >= best) continue;
      best = bottleneck;
      cut = k + 1;
    }
    if (cut > 0) plans_.push_back(scored("straight", {{0, cut, first}, {cut, states(), second}}, half, best));
  }

  /// Returns one device per stage. A search node is the devices taken, and the last one.
  struct Node {
    Occupied occupied;
    uint32_t device = 0;
    std::vector<double> bottleneck;                   ///< per state
    std::vector<std::pair<uint32_t, uint32_t>> from;  ///< per state: node of the stage before, last state in it
  };

  void straight() {
    const uint32_t devices = machines_.devices(), last = states() - 1;
    const auto infinity = std::numeric_limits<double>::infinity();
    std::vector<std::vector<Node>> layers(1);
    Node& begin = layers[0].emplace_back();
    begin.occupied = machines_.none();
    begin.device = machines_.offers(begin.occupied, 1).front().front();
    machines_.occupy(begin.occupied, {begin.device});
    for (uint32_t j = 0; j <= last; ++j) begin.bottleneck.push_back(compute_s(0, j));
    begin.from.resize(states());
    for (uint32_t m = 1; m < devices; ++m) {
      std::map<std::pair<Occupied, uint32_t>, size_t> known;
      layers.emplace_back();
      for (uint32_t n = 0; n < layers[m - 1].size(); ++n) {
        const Node& node = layers[m - 1][n];
        for (const Devices& offer : machines_.offers(node.occupied, 1)) {
          Occupied occupied = node.occupied;
          machines_.occupy(occupied, offer);
          const auto [entry, fresh] = known.try_emplace({occupied, offer.front()}, layers[m].size());
          if (fresh) {
            layers[m].push_back({occupied, offer.front(), std::vector<double>(states(), infinity), {}});
            layers[m].back().from.resize(states());
          }
          extend(node, n, layers[m][entry->second]);
        }
      }
    }
    uint32_t at = 0;
    for (uint32_t n = 0; n < layers.back().size(); ++n) {
      if (layers.back()[n].bottleneck[last] < layers.back()[at].bottleneck[last]) at = n;
    }
    const double best = layers.back()[at].bottleneck[last];
    if (best == infinity) return;  // fewer states than devices
    std::vector<ReleasedStage> stages;
    uint32_t end = last;
    for (uint32_t m = devices; m-- > 0;) {
      const Node& node = layers[m][at];
      const auto [before, k] = node.from[end];
      stages.push_back({m == 0 ? 0 : k + 1, end + 1, {node.device}});
      at = before;
      end = k;
    }
    std::reverse(stages.begin(), stages.end());
    plans_.push_back(scored("straight", std::move(stages), 1, best));
  }

  void extend(const Node& node, uint32_t index, Node& next) const {
    const double rate = 2 * scale_ * machines_.transfer_s({node.device}, {next.device}, 1);
    for (uint32_t j = 1; j < states(); ++j) {
      for (const uint32_t k : states_.before[j]) {
        const double bottleneck = std::max({node.bottleneck[k], scale_ * (states_.compute_s[j] - states_.compute_s[k]),
                                            rate * states_.output_bytes[k]});
        if (bottleneck >= next.bottleneck[j]) continue;
        next.bottleneck[j] = bottleneck;
        next.from[j] = {index, k};
      }
    }
  }

  void two_stages() {
    const uint32_t devices = machines_.devices();
    ReleasedPlan best;
    for (uint32_t cut = 1; cut < states(); ++cut) {
      for (uint32_t g = 1; g < devices; ++g) {
        for (const Devices& first : machines_.offers(machines_.none(), g)) {
          Occupied occupied = machines_.none();
          machines_.occupy(occupied, first);
          for (const Devices& second : machines_.offers(occupied, devices - g)) {
            const double transfer = machines_.transfer_s(first, second, scale_ * states_.output_bytes[cut - 1]);
            const double bottleneck =
                std::max({compute_s(0, cut - 1) / g, compute_s(cut, states() - 1) / (devices - g), transfer});
            ReleasedPlan plan = scored("two stages", {{0, cut, first}, {cut, states(), second}}, 1, bottleneck);
            if (plan.speedup > best.speedup) best = std::move(plan);
          }
        }
      }
    }
    if (best.speedup > 0) plans_.push_back(std::move(best));
  }

  const CutStates& states_;
  const ReleasedOptions& options_;
  Machines machines_;
  double scale_;
  std::vector<ReleasedPlan> plans_;
};

Devices all_of(const ReleasedOptions& options) {
  Devices all(std::accumulate(options.machines.begin(), options.machines.end(), 0u));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Number of samples between two all-reduces: as many as a device holds, rounded down to a divisor of the mini-batch if
/// one is near.
uint64_t accumulation_step(const ReleasedOptions& options, double held) {
  const uint64_t all = options.mini_batch;
  if (held >= static_cast<double>(all)) return all;
  const uint64_t most = std::max<uint64_t>(1, held > 0 ? static_cast<uint64_t>(held) : 0);
  uint64_t steps = (all + most - 1) / most;
  while (steps < all / 2 + 1 && all % steps != 0) ++steps;
  return all / steps;
}

}  // namespace

std::vector<ReleasedPlan> released_plans(const CutStates& states, const ReleasedOptions& options) {
  RANNC_CHECK(states.size() > 0 && !options.machines.empty() && options.micro_batch > 0 && options.profile_batch > 0);
  return ReleasedSearch(states, options).run();
}

double released_data_parallel(const CutStates& states, const ReleasedOptions& options) {
  const Devices all = all_of(options);
  const double compute =
      states.compute_s.back() * static_cast<double>(options.mini_batch) / static_cast<double>(options.profile_batch);
  const double exchange = Machines(options).all_reduce_s(all, states.parameter_bytes.back());
  return compute / (compute / static_cast<double>(all.size()) + exchange);
}

double released_data_parallel_overlapped(const CutStates& states, const ReleasedOptions& options,
                                         const ReleasedMemory& memory) {
  const Devices all = all_of(options);
  const Machines machines(options);
  const double mini_batch = static_cast<double>(options.mini_batch);
  const double compute = states.compute_s.back() * mini_batch / static_cast<double>(options.profile_batch);
  const double held =
      (memory.device_bytes - memory.parameter_copies * states.parameter_bytes.back()) / memory.activation_per_sample;
  const double part = static_cast<double>(accumulation_step(options, held)) / mini_batch;
  // Walks from the first state to the last, against the order in which gradients become ready. `spare` is the time
  // between two gradients that all-reduces of earlier states may still use.
  double late = machines.all_reduce_s(all, states.parameter_bytes.front()), spare = 0;
  for (uint32_t s = 1; s < states.size(); ++s) {
    const double exchange = machines.all_reduce_s(all, states.parameter_bytes[s] - states.parameter_bytes[s - 1]);
    const double backward = (states.compute_s[s - 1] - (s > 1 ? states.compute_s[s - 2] : 0)) /
                            states.compute_s.back() * compute * part / 2;
    if (backward >= exchange) {
      spare += backward - exchange;
    } else if (exchange - backward < spare) {
      spare -= exchange - backward;
    } else {
      late += exchange - backward - spare;
      spare = 0;
    }
  }
  return compute / (compute / static_cast<double>(all.size()) + late);
}

}  // namespace rannc::partition
