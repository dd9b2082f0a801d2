#include "partition/formats/stage_plan_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace rannc::partition {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormat = "rannc-stage-plan";
constexpr uint64_t kVersion = 1;
constexpr double kMostDevices = 1 << 20, kMostBlocks = 4e9, kMostMicroBatches = 1 << 24, kMost = 1e300;

OrderedJson stage_json(const PlannedStage& stage, const std::vector<std::string>& block_names) {
  OrderedJson devices = OrderedJson::array();
  for (const DeviceId device : stage.devices) devices.push_back(device.index());
  OrderedJson json{{"first", stage.first},
                   {"end", stage.end},
                   {"devices", std::move(devices)},
                   {"recompute", stage.recompute},
                   {"forward_ns", stage.forward_ns},
                   {"backward_ns", stage.backward_ns},
                   {"all_reduce_ns", stage.all_reduce_ns},
                   {"exposed_ns", stage.exposed_ns},
                   {"peak_bytes", stage.peak_bytes}};
  if (!block_names.empty()) {
    json["blocks"] = std::vector<std::string>(block_names.begin() + stage.first, block_names.begin() + stage.end);
  }
  return json;
}

class StagePlanReader {
 public:
  explicit StagePlanReader(const std::string& file) : file_(file) {}

  Result<SavedStagePlan> read(const OrderedJson& root) {
    if (!root.is_object()) return fail("", "the file is not a JSON object");
    RANNC_ASSIGN(const std::string format, text(root, "format"));
    if (format != kFormat) return fail("format", "'" + format + "' where '" + kFormat + "' was expected");
    RANNC_ASSIGN(const double version, number(root, "version", 0, kMost));
    if (version != static_cast<double>(kVersion)) return fail("version", "only version 1 is supported");
    StagePlan plan;
    RANNC_ASSIGN(plan.planner, text(root, "planner"));
    RANNC_ASSIGN(plan.schedule, text(root, "schedule"));
    RANNC_ASSIGN(plan.objective_name, text(root, "objective_name"));
    RANNC_ASSIGN(plan.bound_name, text(root, "bound"));
    RANNC_ASSIGN(plan.bottleneck, text(root, "bottleneck"));
    RANNC_ASSIGN(plan.objective, number(root, "objective", 0, kMost));
    RANNC_ASSIGN(plan.step_ns, number(root, "step_ns", 0, kMost));
    RANNC_ASSIGN(plan.lower_bound, number(root, "lower_bound", 0, kMost));
    RANNC_ASSIGN(plan.micro_batches, whole(root, "micro_batches", 1, kMostMicroBatches));
    RANNC_ASSIGN(const OrderedJson* depths, list(root, "warm_up"));
    for (const OrderedJson& depth : *depths) {
      RANNC_ASSIGN(const uint64_t value, whole(depth, "warm_up", 1, kMostMicroBatches));
      plan.warm_up.push_back(static_cast<uint32_t>(value));
    }
    RANNC_TRY(read_pattern(root, plan));
    RANNC_ASSIGN(const OrderedJson* stages, list(root, "stages"));
    for (const OrderedJson& stage : *stages) RANNC_TRY(read_stage(stage, plan));
    RANNC_ASSIGN(const OrderedJson* others, list(root, "runners_up"));
    for (const OrderedJson& other : *others) RANNC_TRY(read_runner_up(other, plan));
    RANNC_ASSIGN(const OrderedJson* notes, list(root, "notes"));
    for (const OrderedJson& note : *notes) {
      if (!note.is_string()) return fail("notes", "an entry is not a string");
      plan.notes.push_back(note.get<std::string>());
    }
    RANNC_ASSIGN(StagePlanOrigin origin, read_origin(root));
    return SavedStagePlan{std::move(plan), std::move(origin)};
  }

 private:
  Diagnostic fail(const std::string& field, const std::string& message) const {
    return error(Location{file_, 0, 0, field}, message);
  }

  Result<const OrderedJson*> member(const OrderedJson& object, const char* key) const {
    if (!object.is_object()) return fail(key, "an object with this field was expected");
    const auto found = object.find(key);
    if (found == object.end()) return fail(key, "the field is missing");
    return &*found;
  }

  Result<std::string> text(const OrderedJson& object, const char* key) const {
    RANNC_ASSIGN(const OrderedJson* value, member(object, key));
    if (!value->is_string()) return fail(key, "the field is not a string");
    return value->get<std::string>();
  }

  Result<const OrderedJson*> list(const OrderedJson& object, const char* key) const {
    RANNC_ASSIGN(const OrderedJson* value, member(object, key));
    if (!value->is_array()) return fail(key, "the field is not a list");
    return value;
  }

  /// Returns the number itself, or the field of that name of the object.
  Result<double> number(const OrderedJson& from, const char* key, double low, double high) const {
    const OrderedJson* value = &from;
    if (from.is_object()) {
      RANNC_ASSIGN(value, member(from, key));
    }
    if (!value->is_number()) return fail(key, "the field is not a number");
    const double read = value->get<double>();
    if (!(read >= low && read <= high)) return fail(key, value->dump() + " is out of range");
    return read;
  }

  Result<uint64_t> whole(const OrderedJson& from, const char* key, double low, double high) const {
    RANNC_ASSIGN(const double value, number(from, key, low, high));
    if (value != std::floor(value)) return fail(key, "the field is not a whole number");
    return static_cast<uint64_t>(value);
  }

  Result<void> read_pattern(const OrderedJson& root, StagePlan& plan) const {
    if (!root.contains("pattern")) return {};
    RANNC_ASSIGN(const std::string written, text(root, "pattern"));
    auto pattern = parse_pattern(written);
    if (!pattern.ok()) {
      const Diagnostic& fault = pattern.diagnostic();
      return fail("pattern", fmt::format("at column {}: {}", fault.where.column, fault.message));
    }
    plan.pattern = *std::move(pattern);
    return {};
  }

  Result<StagePlanOrigin> read_origin(const OrderedJson& root) const {
    StagePlanOrigin origin;
    if (root.contains("profile_digest")) {
      RANNC_ASSIGN(origin.profile_digest, text(root, "profile_digest"));
    }
    if (root.contains("cluster_digest")) {
      RANNC_ASSIGN(origin.cluster_digest, text(root, "cluster_digest"));
    }
    return origin;
  }

  Result<void> read_stage(const OrderedJson& from, StagePlan& plan) const {
    PlannedStage stage;
    if (!from.is_object()) return fail("stages", "each stage must be an object");
    RANNC_ASSIGN(const uint64_t first, whole(from, "first", 0, kMostBlocks));
    RANNC_ASSIGN(const uint64_t end, whole(from, "end", 0, kMostBlocks));
    stage.first = static_cast<uint32_t>(first);
    stage.end = static_cast<uint32_t>(end);
    RANNC_ASSIGN(const OrderedJson* devices, list(from, "devices"));
    for (const OrderedJson& device : *devices) {
      RANNC_ASSIGN(const uint64_t value, whole(device, "devices", 0, kMostDevices - 1));
      stage.devices.push_back(DeviceId::from(value));
    }
    RANNC_ASSIGN(const OrderedJson* recompute, member(from, "recompute"));
    if (!recompute->is_boolean()) return fail("recompute", "the field is neither true nor false");
    stage.recompute = recompute->get<bool>();
    RANNC_ASSIGN(stage.forward_ns, number(from, "forward_ns", 0, kMost));
    RANNC_ASSIGN(stage.backward_ns, number(from, "backward_ns", 0, kMost));
    RANNC_ASSIGN(stage.all_reduce_ns, number(from, "all_reduce_ns", 0, kMost));
    stage.exposed_ns = stage.all_reduce_ns;
    if (from.contains("exposed_ns")) {
      RANNC_ASSIGN(stage.exposed_ns, number(from, "exposed_ns", 0, kMost));
    }
    RANNC_ASSIGN(stage.peak_bytes, number(from, "peak_bytes", 0, kMost));
    plan.stages.push_back(std::move(stage));
    return {};
  }

  Result<void> read_runner_up(const OrderedJson& from, StagePlan& plan) const {
    RunnerUp other;
    if (!from.is_object()) return fail("runners_up", "each entry must be an object");
    RANNC_ASSIGN(other.what, text(from, "what"));
    RANNC_ASSIGN(other.objective, number(from, "objective", 0, kMost));
    RANNC_ASSIGN(other.why, text(from, "why"));
    plan.runners_up.push_back(std::move(other));
    return {};
  }

  const std::string& file_;
};

}  // namespace

std::string write_stage_plan(const StagePlan& plan, const std::vector<std::string>& block_names,
                             const StagePlanOrigin& origin) {
  OrderedJson stages = OrderedJson::array(), others = OrderedJson::array();
  for (const PlannedStage& stage : plan.stages) stages.push_back(stage_json(stage, block_names));
  for (const RunnerUp& other : plan.runners_up) {
    others.push_back({{"what", other.what}, {"objective", other.objective}, {"why", other.why}});
  }
  OrderedJson json{{"format", kFormat}, {"version", kVersion}};
  if (!origin.profile_digest.empty()) json["profile_digest"] = origin.profile_digest;
  if (!origin.cluster_digest.empty()) json["cluster_digest"] = origin.cluster_digest;
  json.update(OrderedJson{{"planner", plan.planner},
                          {"objective_name", plan.objective_name},
                          {"objective", plan.objective},
                          {"step_ns", plan.step_ns},
                          {"lower_bound", plan.lower_bound},
                          {"bound", plan.bound_name},
                          {"bottleneck", plan.bottleneck},
                          {"micro_batches", plan.micro_batches},
                          {"schedule", plan.schedule},
                          {"warm_up", plan.warm_up}});
  if (!plan.pattern.empty()) json["pattern"] = to_string(plan.pattern);
  json.update(OrderedJson{{"stages", std::move(stages)}, {"runners_up", std::move(others)}, {"notes", plan.notes}});
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

Result<SavedStagePlan> read_stage_plan(std::string_view text, const std::string& file) {
  const OrderedJson root = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return error(Location{file, 0, 0, {}}, "the file is not JSON");
  return StagePlanReader(file).read(root);
}

}  // namespace rannc::partition
