/// Measured costs in a file, keyed by structure: equal tasks and equal blocks of a model share one entry.
///
/// JSON: { "rannc_profile": 2,
///         "environments": { "<name>": { "<fact>": "<text>" } },
///         "tasks":     { "<name>": { "<structural key>": { "<samples>": COST } } },
///         "blocks":    { "<name>": { "<structural key>": { "<samples>": { "measured": COST, "summed": COST } } } },
///         "exchanges": { "<name>": { "<transport>.<message|all-reduce|all-gather>": { "<devices>": { "<bytes>": ns } }
///         } } }
/// COST: { "forward_ns", "input_gradient_ns", "weight_gradient_ns", "together_ns", "recompute_ns", "saved_bytes",
///         "pending_bytes", "temporary_bytes" }; an absent number is 0.
/// An environment names all that changes a time beside the task: device, library, threads; element types are part of
/// the key. Keys carry no names, so 96 equal layers are one entry.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partition/cost/exchange_table.h"
#include "partition/cost/size_curve.h"

namespace rannc::partition {

/// A run of tasks, measured as one program, beside the sum of its tasks measured apart.
struct BlockCost {
  TaskCost measured, summed;
  bool operator==(const BlockCost&) const = default;
};
/// By samples.
using BlockCurve = std::map<uint64_t, BlockCost>;

/// What running tasks in one program makes of the sum of their costs: measured / summed. Below 1 where calls cost more
/// than they do, above 1 where a task alone finds its operands in a cache.
struct Fusion {
  double forward = 1, backward = 1, saved = 1;
  bool operator==(const Fusion&) const = default;
};

class ProfileDatabase {
 public:
  static constexpr int kVersion = 2;

  /// Reads the text of a database; located errors for foreign, older, newer, truncated or mutated ones, members that
  /// occur twice, and numbers that are no time or size.
  static Result<ProfileDatabase> parse(std::string_view text, const std::string& file);
  static Result<ProfileDatabase> read(const std::string& path);
  /// Sorted by key: the same entries give the same bytes.
  std::string print() const;
  /// Writes beside the file, then renames.
  Result<void> write(const std::string& path) const;

  /// Facts about an environment, for people: `device`, `library` …
  void describe(const std::string& environment, std::map<std::string, std::string> facts);
  /// Names of all environments that something was measured in or is said of.
  std::vector<std::string> environments() const;

  /// Adds or replaces one measurement of a task.
  void add(const std::string& environment, const std::string& key, uint64_t samples, const TaskCost& cost);
  /// Replaces all measurements of a task.
  void set(const std::string& environment, const std::string& key, SizeCurve curve);
  /// The curve of a key, or null.
  const SizeCurve* find(const std::string& environment, const std::string& key) const;
  /// Number of keys measured in an environment.
  size_t entries(const std::string& environment) const;

  void add_block(const std::string& environment, const std::string& key, uint64_t samples, const BlockCost& cost);
  const BlockCurve* find_block(const std::string& environment, const std::string& key) const;
  size_t blocks(const std::string& environment) const;
  /// Per number of samples what the measured blocks of an environment teach: sums over all blocks, so that long ones
  /// weigh more. Empty where none was measured.
  std::map<uint64_t, Fusion> fusion(const std::string& environment) const;

  /// `name` is `<transport>.<what>`, as `gloo.all-reduce`.
  void add_exchange(const std::string& environment, const std::string& name, ExchangeTable table);
  const ExchangeTable* find_exchange(const std::string& environment, const std::string& name) const;

  /// Digest over all measurements of an environment.
  std::string fingerprint(const std::string& environment) const;
  bool operator==(const ProfileDatabase&) const = default;

 private:
  template <class Entry>
  using ByEnvironment = std::map<std::string, std::map<std::string, Entry>>;
  ByEnvironment<std::string> environments_;
  ByEnvironment<SizeCurve> tasks_;
  ByEnvironment<BlockCurve> blocks_;
  ByEnvironment<ExchangeTable> exchanges_;
};

/// Prices from measurements made in `environment`, by `fallback` where a key was never measured; without a fallback
/// that is an error. Measured times and saved bytes are multiplied by what the blocks of the environment teach of sums
/// (`ProfileDatabase::fusion`), linear between sample counts. `fallback` may be null and is shared.
std::unique_ptr<CostModel> measured_costs(ProfileDatabase database, std::string environment,
                                          std::shared_ptr<const CostModel> fallback);

}  // namespace rannc::partition
