#include "partition/cost/profile_database.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "ir/base/replacement.h"
#include "partition/text_digest.h"

namespace rannc::partition {
namespace {

template <class Outer>
auto find_entry(const Outer& outer, const std::string& environment, const std::string& key) {
  const auto keys = outer.find(environment);
  using Entry = typename Outer::mapped_type::mapped_type;
  if (keys == outer.end()) return static_cast<const Entry*>(nullptr);
  const auto entry = keys->second.find(key);
  return entry == keys->second.end() ? nullptr : &entry->second;
}

template <class Outer>
size_t count_entries(const Outer& outer, const std::string& environment) {
  const auto keys = outer.find(environment);
  return keys == outer.end() ? 0 : keys->second.size();
}

template <class Outer>
void copy_environment(const Outer& from, const std::string& environment, Outer& to) {
  const auto keys = from.find(environment);
  if (keys != from.end()) to.insert(*keys);
}

// Ratios outside these limits do not compare the same work.
constexpr double kMostFusion = 100;

double ratio(double measured, double summed) {
  return measured > 0 && summed > 0 ? std::clamp(measured / summed, 1 / kMostFusion, kMostFusion) : 1;
}

// Interpolates linearly between two sample counts, constant beyond them.
Fusion at_samples(const std::map<uint64_t, Fusion>& curve, uint64_t samples) {
  if (curve.empty()) return {};
  const auto high = curve.lower_bound(samples);
  if (high == curve.end()) return curve.rbegin()->second;
  if (high == curve.begin() || high->first == samples) return high->second;
  const auto low = std::prev(high);
  const double w = static_cast<double>(samples - low->first) / static_cast<double>(high->first - low->first);
  const auto mix = [&](double Fusion::*part) { return (1 - w) * low->second.*part + w * high->second.*part; };
  return {mix(&Fusion::forward), mix(&Fusion::backward), mix(&Fusion::saved), mix(&Fusion::rebuild)};
}

class Measured final : public CostModel {
 public:
  Measured(ProfileDatabase database, const KindEnvironments& environments, std::shared_ptr<const CostModel> fallback)
      : database_(std::move(database)), fallback_(std::move(fallback)) {
    for (const auto& [kind, environment] : environments) kinds_[kind] = {environment, database_.fusion(environment)};
  }

  Result<TaskCost> price(const TaskFacts& facts, uint64_t samples, const DeviceKind& device) const override {
    const auto kind = kinds_.find(device.name);
    if (kind != kinds_.end()) {
      if (const SizeCurve* curve = database_.find(kind->second.environment, facts.key)) {
        return fused(partition::at_samples(*curve, samples), at_samples(kind->second.fusion, samples));
      }
    }
    if (fallback_ != nullptr) return fallback_->price(facts, samples, device);
    if (kind == kinds_.end()) return error(fmt::format("device kind '{}' was never measured", device.name));
    return error(fmt::format("{} was never measured in environment '{}' (key '{}')", facts.what,
                             kind->second.environment, facts.key));
  }

  std::string fingerprint() const override {
    std::set<std::string> parts;
    for (const auto& [name, kind] : kinds_) parts.insert(database_.fingerprint(kind.environment));
    return fmt::format("{}", fmt::join(parts, ""));
  }

 private:
  static TaskCost fused(TaskCost cost, const Fusion& fusion) {
    cost.forward_ns *= fusion.forward;
    cost.recompute_ns *= fusion.rebuild;
    cost.input_gradient_ns *= fusion.backward;
    cost.weight_gradient_ns *= fusion.backward;
    cost.together_ns *= fusion.backward;
    cost.saved_bytes *= fusion.saved;
    return cost;
  }

  struct Kind {
    std::string environment;
    std::map<uint64_t, Fusion> fusion;
  };

  ProfileDatabase database_;
  std::shared_ptr<const CostModel> fallback_;
  std::map<std::string, Kind> kinds_;
};

}  // namespace

Result<ProfileDatabase> ProfileDatabase::read(const std::string& path) {
  RANNC_ASSIGN(const std::string text, read_file(path));
  return parse(text, path);
}

Result<void> ProfileDatabase::write(const std::string& path) const { return write_file(path, print()); }

void ProfileDatabase::describe(const std::string& environment, std::map<std::string, std::string> facts) {
  environments_[environment] = std::move(facts);
}

std::vector<std::string> ProfileDatabase::environments() const {
  std::set<std::string> names;
  const auto collect = [&names](const auto& section) {
    for (const auto& [name, members] : section) names.insert(name);
  };
  collect(environments_);
  collect(tasks_);
  collect(blocks_);
  collect(runs_);
  collect(exchanges_);
  return {names.begin(), names.end()};
}

void ProfileDatabase::add(const std::string& environment, const std::string& key, uint64_t samples,
                          const TaskCost& cost) {
  tasks_[environment][key][samples] = cost;
}

void ProfileDatabase::set(const std::string& environment, const std::string& key, SizeCurve curve) {
  RANNC_CHECK(!curve.empty()) << "an entry without a measurement";
  tasks_[environment][key] = std::move(curve);
}

const SizeCurve* ProfileDatabase::find(const std::string& environment, const std::string& key) const {
  return find_entry(tasks_, environment, key);
}

size_t ProfileDatabase::entries(const std::string& environment) const { return count_entries(tasks_, environment); }

void ProfileDatabase::add_block(const std::string& environment, const std::string& key, uint64_t samples,
                                const BlockCost& cost) {
  blocks_[environment][key][samples] = cost;
}

const BlockCurve* ProfileDatabase::find_block(const std::string& environment, const std::string& key) const {
  return find_entry(blocks_, environment, key);
}

size_t ProfileDatabase::blocks(const std::string& environment) const { return count_entries(blocks_, environment); }

std::map<uint64_t, Fusion> ProfileDatabase::fusion(const std::string& environment) const {
  std::map<uint64_t, BlockCost> totals;
  const auto keys = blocks_.find(environment);
  if (keys == blocks_.end()) return {};
  for (const auto& [key, curve] : keys->second) {
    for (const auto& [samples, cost] : curve) {
      BlockCost& total = totals[samples];
      const auto add = [](TaskCost& to, const TaskCost& from) {
        to.forward_ns += from.forward_ns;
        to.together_ns += from.backward_ns();
        to.saved_bytes += from.saved_bytes;
        to.recompute_ns += from.recompute_ns;
      };
      add(total.measured, cost.measured);
      add(total.summed, cost.summed);
    }
  }
  std::map<uint64_t, Fusion> learnt;
  for (const auto& [samples, total] : totals) {
    Fusion& fusion = learnt[samples];
    fusion = {ratio(total.measured.forward_ns, total.summed.forward_ns),
              ratio(total.measured.together_ns, total.summed.together_ns),
              ratio(total.measured.saved_bytes, total.summed.saved_bytes)};
    const bool rebuilt = total.measured.recompute_ns > 0 && total.summed.recompute_ns > 0;
    fusion.rebuild = rebuilt ? ratio(total.measured.recompute_ns, total.summed.recompute_ns) : fusion.forward;
  }
  return learnt;
}

void ProfileDatabase::add_run(const std::string& environment, const std::string& key, RunTimes times) {
  RANNC_CHECK(!times.empty()) << "a run without a measurement";
  runs_[environment][key] = std::move(times);
}

const RunTimes* ProfileDatabase::find_run(const std::string& environment, const std::string& key) const {
  return find_entry(runs_, environment, key);
}

void ProfileDatabase::add_exchange(const std::string& environment, const std::string& name, ExchangeTable table) {
  RANNC_CHECK(!table.empty()) << "an exchange without a measurement";
  exchanges_[environment][name] = std::move(table);
}

const ExchangeTable* ProfileDatabase::find_exchange(const std::string& environment, const std::string& name) const {
  return find_entry(exchanges_, environment, name);
}

std::string ProfileDatabase::fingerprint(const std::string& environment) const {
  ProfileDatabase part;
  copy_environment(tasks_, environment, part.tasks_);
  copy_environment(blocks_, environment, part.blocks_);
  const std::string text = part.print();
  return text_digest(text);
}

std::unique_ptr<CostModel> measured_costs(ProfileDatabase database, const KindEnvironments& environments,
                                          std::shared_ptr<const CostModel> fallback) {
  return std::make_unique<Measured>(std::move(database), environments, std::move(fallback));
}

}  // namespace rannc::partition
