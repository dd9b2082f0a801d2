// Reads and prints profile databases.
#include <fmt/format.h>

#include <limits>

#include "ir/base/number_range.h"
#include "partition/cost/profile_database.h"
#include "partition/cost/strict_json.h"

namespace rannc::partition {
namespace {

using Json = nlohmann::json;

// ns or bytes: 31 years, an exabyte
constexpr NumberRange kCost{0, 1e18}, kSaving{-1e18, 1e18};

struct Field {
  const char* name;
  double TaskCost::*member;
  NumberRange range = kCost;
};
constexpr Field kFields[] = {
    {"forward_ns", &TaskCost::forward_ns},
    {"input_gradient_ns", &TaskCost::input_gradient_ns},
    {"weight_gradient_ns", &TaskCost::weight_gradient_ns},
    {"together_ns", &TaskCost::together_ns},
    {"recompute_ns", &TaskCost::recompute_ns},
    {"saved_bytes", &TaskCost::saved_bytes},
    {"pending_bytes", &TaskCost::pending_bytes, kSaving},
    {"temporary_bytes", &TaskCost::temporary_bytes},
};

/// A path in the document, such as `tasks/cpu/core.relu f32[B]/8`.
struct Place {
  std::string file, path;
  Place operator/(const std::string& member) const { return {file, path.empty() ? member : path + "/" + member}; }
  Diagnostic error(std::string message) const { return rannc::error({file, 0, 0, path}, std::move(message)); }
};

Result<double> read_number(const Json& json, const Place& place, const NumberRange& range = kCost) {
  if (!json.is_number()) return place.error("must be a number");
  const double number = json.get<double>();
  if (range.contains(number)) return number;
  return place.error(fmt::format("is {}, expected {}", number, range.str()));
}

/// Parses a member's name that is a count, in decimal without leading zeros.
template <class Count>
Result<Count> read_count(const std::string& text, const Place& place, uint64_t least, const char* what) {
  const auto count = parse_number(text, WholeRange{least, std::numeric_limits<uint32_t>::max()});
  if (count && text[0] != '0') return static_cast<Count>(*count);
  return place.error(fmt::format("'{}' is not a number of {}", text, what));
}

Result<TaskCost> read_cost(const Json& json, const Place& place) {
  if (!json.is_object()) return place.error("a measurement must be an object");
  TaskCost cost;
  for (const auto& [name, value] : json.items()) {
    const Field* field = nullptr;
    for (const Field& known : kFields) {
      if (name == known.name) field = &known;
    }
    if (field == nullptr) return place.error(fmt::format("unknown quantity '{}'", name));
    RANNC_ASSIGN(cost.*field->member, read_number(value, place / name, field->range));
  }
  return cost;
}

Result<BlockCost> read_block_cost(const Json& json, const Place& place) {
  if (!json.is_object() || json.size() != 2 || !json.contains("measured") || !json.contains("summed")) {
    return place.error("a block's measurement must contain 'measured' and 'summed'");
  }
  BlockCost cost;
  RANNC_ASSIGN(cost.measured, read_cost(json["measured"], place / "measured"));
  RANNC_ASSIGN(cost.summed, read_cost(json["summed"], place / "summed"));
  return cost;
}

// Reads { "<samples>": … } as a curve of either kind.
template <class Cost>
Result<std::map<uint64_t, Cost>> read_curve(const Json& json, const Place& place,
                                            Result<Cost> (*read)(const Json&, const Place&)) {
  if (!json.is_object() || json.empty()) return place.error("an entry maps numbers of samples to measurements");
  std::map<uint64_t, Cost> curve;
  for (const auto& [text, value] : json.items()) {
    RANNC_ASSIGN(const auto samples, read_count<uint64_t>(text, place, 1, "samples"));
    RANNC_ASSIGN(curve[samples], read(value, place / text));
  }
  return curve;
}

Result<ExchangeTable> read_exchange(const Json& json, const Place& place) {
  if (!json.is_object() || json.empty()) return place.error("an exchange maps numbers of devices to times by bytes");
  ExchangeTable table;
  for (const auto& [devices_text, times] : json.items()) {
    RANNC_ASSIGN(const auto devices, read_count<uint32_t>(devices_text, place, 2, "devices"));
    if (!times.is_object() || times.empty()) return (place / devices_text).error("must map bytes to nanoseconds");
    for (const auto& [bytes_text, time] : times.items()) {
      RANNC_ASSIGN(const auto bytes, read_count<uint64_t>(bytes_text, place / devices_text, 1, "bytes"));
      RANNC_ASSIGN(table[devices][bytes], read_number(time, place / devices_text / bytes_text));
    }
  }
  return table;
}

Result<RunTimes> read_run(const Json& json, const Place& place) {
  if (!json.is_object() || json.empty()) return place.error("a run maps names to lists of nanoseconds");
  RunTimes times;
  for (const auto& [name, list] : json.items()) {
    if (!list.is_array()) return (place / name).error("must be a list of nanoseconds");
    std::vector<int64_t>& to = times[name];
    for (const Json& number : list) {
      if (!number.is_number_integer()) return (place / name).error("must be a list of whole nanoseconds");
      RANNC_ASSIGN(const double ns, read_number(number, place / name));
      to.push_back(static_cast<int64_t>(ns));
    }
  }
  return times;
}

// Reads { "<environment>": { "<key>": … } }.
template <class Add>
Result<void> read_section(const Json& root, const char* section, const std::string& file, Add&& add) {
  const Place place{file, section};
  if (!root.contains(section)) return place.error("the section is missing");
  if (!root[section].is_object()) return place.error("must be an object");
  for (const auto& [environment, members] : root[section].items()) {
    if (!members.is_object()) return (place / environment).error("must be an object");
    for (const auto& [key, value] : members.items()) {
      RANNC_TRY(add(environment, key, value, place / environment / key));
    }
  }
  return {};
}

Json print_cost(const TaskCost& cost) {
  Json json = Json::object();
  for (const Field& field : kFields) {
    if (cost.*field.member != 0) json[field.name] = cost.*field.member;
  }
  return json;
}

Result<void> check_head(const Json& root, const std::string& file) {
  const Place place{file, {}};
  if (!root.is_object() || !root.contains("rannc_profile")) return place.error("not a profile database of rannc");
  const Json& version = root["rannc_profile"];
  if (!version.is_number_integer()) return (place / "rannc_profile").error("the version must be an integer");
  if (version != ProfileDatabase::kVersion) {
    return (place / "rannc_profile")
        .error(fmt::format("format version {} is not supported, this program reads version {}", version.dump(),
                           ProfileDatabase::kVersion));
  }
  for (const auto& [name, value] : root.items()) {
    if (name != "rannc_profile" && name != "environments" && name != "tasks" && name != "blocks" && name != "runs" &&
        name != "exchanges") {
      return (place / name).error("unknown section");
    }
  }
  return {};
}

}  // namespace

Result<ProfileDatabase> ProfileDatabase::parse(std::string_view text, const std::string& file) {
  RANNC_ASSIGN(const Json root, parse_strict_json(text, file));
  RANNC_TRY(check_head(root, file));
  ProfileDatabase database;
  using Text = std::string;
  RANNC_TRY(read_section(root, "environments", file,
                         [&](const Text& environment, const Text& fact, const Json& value, const Place& place) {
                           if (!value.is_string()) return Result<void>(place.error("must be a text"));
                           database.environments_[environment][fact] = value.get<Text>();
                           return Result<void>();
                         }));
  RANNC_TRY(read_section(
      root, "tasks", file,
      [&](const Text& environment, const Text& key, const Json& value, const Place& place) -> Result<void> {
        RANNC_ASSIGN(database.tasks_[environment][key], read_curve<TaskCost>(value, place, read_cost));
        return {};
      }));
  RANNC_TRY(read_section(
      root, "blocks", file,
      [&](const Text& environment, const Text& key, const Json& value, const Place& place) -> Result<void> {
        RANNC_ASSIGN(database.blocks_[environment][key], read_curve<BlockCost>(value, place, read_block_cost));
        return {};
      }));
  if (root.contains("runs")) {
    RANNC_TRY(read_section(
        root, "runs", file,
        [&](const Text& environment, const Text& key, const Json& value, const Place& place) -> Result<void> {
          RANNC_ASSIGN(database.runs_[environment][key], read_run(value, place));
          return {};
        }));
  }
  RANNC_TRY(read_section(
      root, "exchanges", file,
      [&](const Text& environment, const Text& key, const Json& value, const Place& place) -> Result<void> {
        RANNC_ASSIGN(database.exchanges_[environment][key], read_exchange(value, place));
        return {};
      }));
  return database;
}

std::string ProfileDatabase::print() const {
  Json root = {{"rannc_profile", kVersion}, {"environments", environments_}};
  for (const char* section : {"tasks", "blocks", "exchanges"}) root[section] = Json::object();
  for (const auto& [environment, keys] : tasks_) {
    for (const auto& [key, curve] : keys) {
      Json& target = root["tasks"][environment][key] = Json::object();
      for (const auto& [samples, cost] : curve) target[std::to_string(samples)] = print_cost(cost);
    }
  }
  for (const auto& [environment, keys] : blocks_) {
    for (const auto& [key, curve] : keys) {
      Json& target = root["blocks"][environment][key] = Json::object();
      for (const auto& [samples, cost] : curve) {
        target[std::to_string(samples)] = {{"measured", print_cost(cost.measured)},
                                           {"summed", print_cost(cost.summed)}};
      }
    }
  }
  for (const auto& [environment, keys] : runs_) {
    for (const auto& [key, times] : keys) root["runs"][environment][key] = times;
  }
  for (const auto& [environment, names] : exchanges_) {
    for (const auto& [name, table] : names) {
      Json& target = root["exchanges"][environment][name] = Json::object();
      for (const auto& [devices, times] : table) {
        for (const auto& [bytes, ns] : times) target[std::to_string(devices)][std::to_string(bytes)] = ns;
      }
    }
  }
  return root.dump(1) + "\n";
}

}  // namespace rannc::partition
