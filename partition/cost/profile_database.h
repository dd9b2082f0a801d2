/// Stores measured costs in a file, keyed by structure: equal tasks and equal blocks of a model share one entry.
///
/// JSON: { "rannc_profile": 2,
///         "environments": { "<name>": { "<fact>": "<text>" } },
///         "tasks":     { "<name>": { "<structural key>": { "<samples>": COST } } },
///         "blocks":    { "<name>": { "<structural key>": { "<samples>": { "measured": COST, "summed": COST } } } },
///         "runs":      { "<name>": { "<key>": { "<name of a list>": [ns] } } },
///         "exchanges": { "<name>": { "<transport>.<message|all-reduce|all-gather>": { "<devices>": { "<bytes>": ns } }
///         } } }
/// COST: { "forward_ns", "input_gradient_ns", "weight_gradient_ns", "together_ns", "recompute_ns", "saved_bytes",
///         "pending_bytes", "temporary_bytes" }; an absent number is 0.
/// An environment names everything besides the task that affects a time: device, library, threads. Element types are
/// part of the key. Keys contain no names, so 96 equal layers are one entry.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partition/cost/exchange_table.h"
#include "partition/cost/size_curve.h"

namespace rannc::partition {

/// Cost of a run of tasks measured as one program, and the sum of its tasks measured separately.
struct BlockCost {
  TaskCost measured, summed;
  bool operator==(const BlockCost&) const = default;
};
/// Times of a whole plan that was run, ns: lists by name, whose meaning the key's maker knows.
using RunTimes = std::map<std::string, std::vector<int64_t>>;

/// Block costs by number of samples.
using BlockCurve = std::map<uint64_t, BlockCost>;

/// Ratio measured / summed for tasks that run in one program. Below 1 if call overhead dominates, above 1 if a task
/// measured alone finds its operands in a cache.
struct Fusion {
  double forward = 1, backward = 1, saved = 1;
  double rebuild = 1;  ///< of R
  bool operator==(const Fusion&) const = default;
};

class ProfileDatabase {
 public:
  static constexpr int kVersion = 2;

  /// Parses the text of a database. Returns located errors for foreign, older, newer, truncated or modified files,
  /// duplicate members, and numbers that are not a valid time or size.
  static Result<ProfileDatabase> parse(std::string_view text, const std::string& file);
  static Result<ProfileDatabase> read(const std::string& path);
  /// Returns the text, sorted by key: equal entries give equal bytes.
  std::string print() const;
  /// Writes atomically: to a temporary file beside `path`, which is then renamed.
  Result<void> write(const std::string& path) const;

  /// Sets human-readable facts about an environment: `device`, `library` …
  void describe(const std::string& environment, std::map<std::string, std::string> facts);
  /// Names of all environments with measurements or facts.
  std::vector<std::string> environments() const;

  /// Adds or replaces one measurement of a task.
  void add(const std::string& environment, const std::string& key, uint64_t samples, const TaskCost& cost);
  /// Replaces all measurements of a task.
  void set(const std::string& environment, const std::string& key, SizeCurve curve);
  /// Returns the curve of a key, or null.
  const SizeCurve* find(const std::string& environment, const std::string& key) const;
  /// Number of keys measured in an environment.
  size_t entries(const std::string& environment) const;

  void add_block(const std::string& environment, const std::string& key, uint64_t samples, const BlockCost& cost);
  const BlockCurve* find_block(const std::string& environment, const std::string& key) const;
  size_t blocks(const std::string& environment) const;
  /// Fusion ratios by number of samples, from sums over all measured blocks of an environment, so that long blocks
  /// weigh more. Empty if no block was measured.
  std::map<uint64_t, Fusion> fusion(const std::string& environment) const;

  void add_run(const std::string& environment, const std::string& key, RunTimes times);
  const RunTimes* find_run(const std::string& environment, const std::string& key) const;

  /// `name` is `<transport>.<operation>`, such as `gloo.all-reduce`.
  void add_exchange(const std::string& environment, const std::string& name, ExchangeTable table);
  const ExchangeTable* find_exchange(const std::string& environment, const std::string& name) const;

  /// Digest of all measurements of an environment.
  std::string fingerprint(const std::string& environment) const;
  bool operator==(const ProfileDatabase&) const = default;

 private:
  template <class Entry>
  using ByEnvironment = std::map<std::string, std::map<std::string, Entry>>;
  ByEnvironment<std::string> environments_;
  ByEnvironment<SizeCurve> tasks_;
  ByEnvironment<BlockCurve> blocks_;
  ByEnvironment<RunTimes> runs_;
  ByEnvironment<ExchangeTable> exchanges_;
};

/// Environments in which kinds of devices were measured, by the name of the kind (`DeviceKind::name`).
using KindEnvironments = std::map<std::string, std::string>;

/// Returns a cost model that prices a device by the measurements of its kind's environment. Devices of other kinds and
/// unmeasured keys are priced by `fallback`, which is shared; if it is null they are errors. Measured times and saved
/// bytes are scaled by the environment's `ProfileDatabase::fusion` ratios, interpolated linearly between sample counts.
std::unique_ptr<CostModel> measured_costs(ProfileDatabase database, const KindEnvironments& environments,
                                          std::shared_ptr<const CostModel> fallback);

}  // namespace rannc::partition
