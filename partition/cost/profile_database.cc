#include "partition/cost/profile_database.h"

#include <xxhash.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rannc::partition {
namespace {

using Json = nlohmann::json;

struct Field {
  const char* name;
  double TaskCost::*member;
  bool may_be_negative;
};
constexpr Field kFields[] = {
    {"forward_ns", &TaskCost::forward_ns, false},
    {"input_gradient_ns", &TaskCost::input_gradient_ns, false},
    {"weight_gradient_ns", &TaskCost::weight_gradient_ns, false},
    {"recompute_ns", &TaskCost::recompute_ns, false},
    {"saved_bytes", &TaskCost::saved_bytes, false},
    {"pending_bytes", &TaskCost::pending_bytes, true},
    {"temporary_bytes", &TaskCost::temporary_bytes, false},
};

Diagnostic at(const std::string& file, std::string node, std::string message) {
  return error(Location{file, 0, 0, std::move(node)}, std::move(message));
}

Result<TaskCost> read_cost(const Json& json, const std::string& file, const std::string& key) {
  if (!json.is_object()) return at(file, key, "a measurement must be an object");
  TaskCost cost;
  for (const auto& [name, value] : json.items()) {
    const Field* field = nullptr;
    for (const Field& known : kFields) {
      if (name == known.name) field = &known;
    }
    if (field == nullptr) return at(file, key, fmt::format("unknown quantity '{}'", name));
    if (!value.is_number()) return at(file, key, fmt::format("'{}' must be a number", name));
    const double number = value.get<double>();
    if (!std::isfinite(number) || (number < 0 && !field->may_be_negative)) {
      return at(file, key, fmt::format("'{}' is {}, allowed is a finite number >= 0", name, number));
    }
    cost.*field->member = number;
  }
  return cost;
}

Result<uint64_t> read_samples(const std::string& text, const std::string& file, const std::string& key) {
  uint64_t samples = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), samples);
  if (failure != std::errc() || end != text.data() + text.size() || samples == 0) {
    return at(file, key, fmt::format("'{}' is not a number of samples", text));
  }
  return samples;
}

Result<SizeCurve> read_curve(const Json& json, const std::string& file, const std::string& key) {
  if (!json.is_object() || json.empty()) return at(file, key, "an entry maps numbers of samples to measurements");
  SizeCurve curve;
  for (const auto& [text, value] : json.items()) {
    RANNC_ASSIGN(const uint64_t samples, read_samples(text, file, key));
    RANNC_ASSIGN(curve[samples], read_cost(value, file, key));
  }
  return curve;
}

class Measured final : public CostModel {
 public:
  Measured(ProfileDatabase database, std::string environment, std::shared_ptr<const CostModel> fallback)
      : database_(std::move(database)), environment_(std::move(environment)), fallback_(std::move(fallback)) {}

  Result<TaskCost> price(const TaskFacts& facts, uint64_t samples, const DeviceKind& device) const override {
    if (const SizeCurve* curve = database_.find(environment_, facts.key)) return at_samples(*curve, samples);
    if (fallback_ != nullptr) return fallback_->price(facts, samples, device);
    return error(fmt::format("{} was never measured in environment '{}' (key '{}')", facts.what, environment_, facts.key));
  }

  std::string fingerprint() const override { return database_.fingerprint(environment_); }

 private:
  ProfileDatabase database_;
  std::string environment_;
  std::shared_ptr<const CostModel> fallback_;
};

}  // namespace

Result<ProfileDatabase> ProfileDatabase::parse(std::string_view text, const std::string& file) {
  const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return at(file, "", "not a complete JSON document");
  if (!root.is_object() || !root.contains("rannc_profile")) return at(file, "", "not a profile database of rannc");
  const Json& version = root["rannc_profile"];
  if (!version.is_number_integer() || version.get<int64_t>() != kVersion) {
    return at(file, "rannc_profile", fmt::format("version {} of the format, this program reads {}", version.dump(), kVersion));
  }
  ProfileDatabase database;
  const Json environments = root.value("environments", Json::object());
  if (!environments.is_object()) return at(file, "environments", "must be an object");
  for (const auto& [name, facts] : environments.items()) {
    if (!facts.is_object()) return at(file, name, "an environment must be an object");
    for (const auto& [fact, value] : facts.items()) {
      database.environments_[name][fact] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  const Json entries = root.value("entries", Json::object());
  if (!entries.is_object()) return at(file, "entries", "must be an object");
  for (const auto& [environment, keys] : entries.items()) {
    if (!keys.is_object()) return at(file, environment, "must map keys to measurements");
    for (const auto& [key, curve] : keys.items()) {
      RANNC_ASSIGN(database.entries_[environment][key], read_curve(curve, file, key));
    }
  }
  return database;
}

Result<ProfileDatabase> ProfileDatabase::read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return at(path, "", "cannot read the profile database");
  std::ostringstream text;
  text << stream.rdbuf();
  return parse(text.str(), path);
}

std::string ProfileDatabase::print() const {
  Json root = {{"rannc_profile", kVersion}, {"environments", environments_}, {"entries", Json::object()}};
  for (const auto& [environment, keys] : entries_) {
    Json& target = root["entries"][environment] = Json::object();
    for (const auto& [key, curve] : keys) {
      for (const auto& [samples, cost] : curve) {
        Json& measurement = target[key][std::to_string(samples)] = Json::object();
        for (const Field& field : kFields) {
          if (cost.*field.member != 0) measurement[field.name] = cost.*field.member;
        }
      }
    }
  }
  return root.dump(1) + "\n";
}

Result<void> ProfileDatabase::write(const std::string& path) const {
  const std::string temporary = path + ".part";
  std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
  stream << print();
  stream.close();
  if (!stream || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    return at(path, "", "cannot write the profile database");
  }
  return {};
}

void ProfileDatabase::describe(const std::string& environment, std::map<std::string, std::string> facts) {
  environments_[environment] = std::move(facts);
}

void ProfileDatabase::add(const std::string& environment, const std::string& key, uint64_t samples,
                          const TaskCost& cost) {
  entries_[environment][key][samples] = cost;
}

const SizeCurve* ProfileDatabase::find(const std::string& environment, const std::string& key) const {
  const auto keys = entries_.find(environment);
  if (keys == entries_.end()) return nullptr;
  const auto curve = keys->second.find(key);
  return curve == keys->second.end() ? nullptr : &curve->second;
}

size_t ProfileDatabase::entries(const std::string& environment) const {
  const auto keys = entries_.find(environment);
  return keys == entries_.end() ? 0 : keys->second.size();
}

std::string ProfileDatabase::fingerprint(const std::string& environment) const {
  ProfileDatabase part;
  const auto keys = entries_.find(environment);
  if (keys != entries_.end()) part.entries_.insert(*keys);
  const std::string text = part.print();
  return fmt::format("{:016x}", XXH64(text.data(), text.size(), 0));
}

std::unique_ptr<CostModel> measured_costs(ProfileDatabase database, std::string environment,
                                          std::shared_ptr<const CostModel> fallback) {
  return std::make_unique<Measured>(std::move(database), std::move(environment), std::move(fallback));
}

}  // namespace rannc::partition
