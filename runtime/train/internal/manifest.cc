#include "runtime/train/internal/manifest.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ir/base/mapped_file.h"
#include "runtime/internal/digest.h"

namespace rannc::runtime {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Format versions. Optimizer states may be stored in slices, which older programs must not read as whole tensors.
constexpr uint64_t kWhole = 2, kSliced = 3, kDigested = 4, kDigestedSliced = 5;
constexpr const char* kDigest = "digest";

Diagnostic file_error(const std::string& path, const std::string& what) { return error({path, 0, 0, {}}, what); }

json to_json(const TrainingSettings& settings) {
  const OptimizerOptions& optimizer = settings.optimizer;
  return {{"optimizer", std::string(str(optimizer.kind))},
          {"learning_rate", optimizer.learning_rate},
          {"momentum", optimizer.momentum},
          {"weight_decay", optimizer.weight_decay},
          {"beta1", optimizer.beta1},
          {"beta2", optimizer.beta2},
          {"epsilon", optimizer.epsilon},
          {"warmup_steps", optimizer.warmup_steps},
          {"decay_steps", optimizer.decay_steps},
          {"decay_to", optimizer.decay_to},
          {"clip_norm", settings.clip_norm},
          {"seed", settings.seed},
          {"kept_checkpoints", settings.kept_checkpoints}};
}

/// Reads the fields of an object. The first fault is kept; later fields then have their defaults.
class Fields {
 public:
  Fields(const json& object, std::string_view name, std::string& fault) : object_(object), fault_(fault) {
    if (!object.is_object()) fail(name, object, "an object");
  }

  void read(const char* key, uint64_t& into) {
    const json* const found = find(key);
    if (found && !found->is_number_unsigned()) return fail(key, *found, "a whole number that is not negative");
    if (found) into = found->get<uint64_t>();
  }
  void read(const char* key, double& into) {
    const json* const found = find(key);
    if (found && !found->is_number()) return fail(key, *found, "a number");
    if (found) into = found->get<double>();
  }
  void read(const char* key, std::string& into) {
    const json* const found = find(key);
    if (found && !found->is_string()) return fail(key, *found, "a string");
    if (found) into = found->get<std::string>();
  }
  template <typename T>
  void read_if_present(const char* key, T& into) {
    if (object_.contains(key)) read(key, into);
  }
  Fields object(const char* key) {
    static const json kNone = json::object();
    const json* const found = find(key);
    return {found ? *found : kNone, key, fault_};
  }
  const json* find(const char* key) {
    if (const auto found = object_.find(key); found != object_.end()) return &*found;
    if (fault_.empty()) fault_ = fmt::format("has no field '{}'", key);
    return nullptr;
  }
  void fail(std::string_view key, const json& found, std::string_view expected) {
    constexpr size_t kShown = 40;
    if (fault_.empty())
      fault_ = fmt::format("field '{}' is {}, expected {}", key, found.dump().substr(0, kShown), expected);
  }

 private:
  const json& object_;
  std::string& fault_;
};

void read_settings(Fields fields, TrainingSettings& settings, std::string& fault) {
  OptimizerOptions& optimizer = settings.optimizer;
  std::string kind;
  fields.read("optimizer", kind);
  if (!fault.empty()) return;
  const auto known = parse_optimizer(kind);
  if (!known.ok()) {
    fault = "field 'optimizer': " + known.diagnostic().message;
    return;
  }
  optimizer.kind = *known;
  fields.read("learning_rate", optimizer.learning_rate);
  fields.read("momentum", optimizer.momentum);
  fields.read("weight_decay", optimizer.weight_decay);
  fields.read("beta1", optimizer.beta1);
  fields.read("beta2", optimizer.beta2);
  fields.read("epsilon", optimizer.epsilon);
  fields.read("warmup_steps", optimizer.warmup_steps);
  fields.read("decay_steps", optimizer.decay_steps);
  fields.read("decay_to", optimizer.decay_to);
  fields.read("clip_norm", settings.clip_norm);
  fields.read("seed", settings.seed);
  fields.read_if_present("kept_checkpoints", settings.kept_checkpoints);
}

void read_files(Fields& fields, std::vector<std::string>& files) {
  const json* const listed = fields.find("files");
  if (listed == nullptr) return;
  if (!listed->is_array()) return fields.fail("files", *listed, "a list");
  for (const json& name : *listed) {
    const bool is_name =
        name.is_string() && !name.get<std::string>().empty() && name.get<std::string>().find('/') == std::string::npos;
    if (!is_name) return fields.fail("files", name, "names of files in this folder");
    files.push_back(name);
  }
}

/// The step in a folder's name `step-<n>`, or `otherwise`.
uint64_t named_step(const std::string& folder, uint64_t otherwise) {
  const auto named = step_of_checkpoint(fs::absolute(folder).lexically_normal().filename().string());
  return named.value_or(otherwise);
}

}  // namespace

std::string manifest_path(const std::string& folder) { return fs::path(folder) / "manifest.json"; }

bool has_manifest(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(manifest_path(folder), ignored);
}

Result<void> write_manifest(const std::string& folder, const Manifest& manifest) {
  const CheckpointState& state = manifest.state;
  json written{{"version", state.sliced ? kDigestedSliced : kDigested},
               {"step", state.step},
               {"updates", state.updates},
               {"loss_scale", {{"scale", state.loss_scale.scale}, {"finite_steps", state.loss_scale.finite_steps}}},
               {"model", state.model_digest},
               {"settings", to_json(state.settings)},
               {"data", state.data_state},
               {"files", manifest.files}};
  written[kDigest] = digest_of(written.dump());
  const std::string path = manifest_path(folder);
  std::ofstream file(path, std::ios::trunc);
  file << written.dump(1) << '\n';
  if (!file.flush()) return file_error(path, std::string("cannot be written: ") + std::strerror(errno));
  return {};
}

Result<Manifest> read_manifest(const std::string& folder) {
  constexpr uint64_t kMostBytes = 64 << 20;
  const std::string path = manifest_path(folder);
  const auto bytes = MappedFile::open(path, kMostBytes);
  if (!bytes.ok())
    return file_error(path, bytes.diagnostic().message + ": the checkpoint does not exist or is incomplete");
  json object = json::parse(bytes->bytes(), nullptr, false);
  if (!object.is_object()) return file_error(path, "is not a JSON object");
  std::string fault;
  Fields fields(object, "manifest", fault);
  uint64_t version = 0;
  fields.read("version", version);
  if (fault.empty() && (version < kWhole || version > kDigestedSliced))
    return file_error(
        path, fmt::format("has format version {}, this program reads {} to {}", version, kWhole, kDigestedSliced));
  Manifest read;
  read.has_digests = version >= kDigested;
  if (read.has_digests && fault.empty()) {
    std::string digest;
    fields.read(kDigest, digest);
    json others = object;
    others.erase(kDigest);
    if (fault.empty() && digest != digest_of(others.dump()))
      return file_error(path, "is damaged: its content differs from its digest");
  }
  CheckpointState& state = read.state;
  state.sliced = version == kSliced || version == kDigestedSliced;
  fields.read("step", state.step);
  state.updates = state.step;  // older files have neither
  fields.read_if_present("updates", state.updates);
  fields.read("model", state.model_digest);
  fields.read("data", state.data_state);
  read_settings(fields.object("settings"), state.settings, fault);
  if (object.contains("loss_scale")) {
    Fields scale = fields.object("loss_scale");
    scale.read("scale", state.loss_scale.scale);
    scale.read("finite_steps", state.loss_scale.finite_steps);
  }
  read_files(fields, read.files);
  if (!fault.empty()) return file_error(path, fault);
  const uint64_t step = named_step(folder, state.step);
  if (state.step != step || state.updates > state.step)
    return file_error(
        path, fmt::format("is of step {} with {} updates, in a folder of step {}", state.step, state.updates, step));
  if (const double scale = state.loss_scale.scale; !(scale >= LossScale::kLeast && scale <= LossScale::kMost))
    return file_error(
        path, fmt::format("has a loss scale of {}, expected {} to {}", scale, LossScale::kLeast, LossScale::kMost));
  return read;
}

}  // namespace rannc::runtime
