/// Measured costs on disk: structural key to times and bytes at several micro-batch sizes.
///
/// JSON, version 1:
///   { "rannc_profile": 1,
///     "environments": { "<environment>": { "device": "v100", "library": "libtorch 2.11.0", "threads": 1 } },
///     "entries": { "<environment>": { "<key>": { "<samples>": { "forward_ns": …, "input_gradient_ns": …,
///        "weight_gradient_ns": …, "recompute_ns": …, "saved_bytes": …, "pending_bytes": …, "temporary_bytes": … } } } } }
/// An absent number is 0. An environment names all that changes a time beside the task: device, library, precision
/// switches, threads. Keys carry no names, so 96 equal layers are one entry.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "partition/cost/size_curve.h"

namespace rannc::partition {

class ProfileDatabase {
 public:
  static constexpr int kVersion = 1;

  /// Reads the text of a database; located errors for foreign, newer, truncated or mutated ones.
  static Result<ProfileDatabase> parse(std::string_view text, const std::string& file);
  static Result<ProfileDatabase> read(const std::string& path);
  /// Sorted by key: the same entries give the same bytes.
  std::string print() const;
  /// Writes beside the file, then renames.
  Result<void> write(const std::string& path) const;

  /// Facts about an environment, for people: `device`, `library` …
  void describe(const std::string& environment, std::map<std::string, std::string> facts);
  /// Adds or replaces one measurement.
  void add(const std::string& environment, const std::string& key, uint64_t samples, const TaskCost& cost);
  /// The curve of a key, or null.
  const SizeCurve* find(const std::string& environment, const std::string& key) const;
  /// Number of keys measured in an environment.
  size_t entries(const std::string& environment) const;
  /// Digest over all measurements of an environment.
  std::string fingerprint(const std::string& environment) const;
  bool operator==(const ProfileDatabase&) const = default;

 private:
  std::map<std::string, std::map<std::string, std::string>> environments_;
  std::map<std::string, std::map<std::string, SizeCurve>> entries_;
};

/// Prices from measurements made in `environment`, by `fallback` where a key was never measured; without a fallback
/// that is an error. `fallback` may be null and is shared.
std::unique_ptr<CostModel> measured_costs(ProfileDatabase database, std::string environment,
                                          std::shared_ptr<const CostModel> fallback);

}  // namespace rannc::partition
