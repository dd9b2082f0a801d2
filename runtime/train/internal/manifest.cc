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
#include "runtime/internal/json_fields.h"

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
  const ir::Grouping& grouping = optimizer.grouping;
  json groups = json::array();
  for (const ir::ParameterGroup& group : grouping.groups) groups.push_back(str(group));
  return {{"optimizer", std::string(str(optimizer.kind))},
          {"learning_rate", optimizer.learning_rate},
          {"momentum", optimizer.momentum},
          {"weight_decay", optimizer.weight_decay},
          {"beta1", optimizer.beta1},
          {"beta2", optimizer.beta2},
          {"epsilon", optimizer.epsilon},
          {"nesterov", optimizer.nesterov ? 1 : 0},
          {"amsgrad", optimizer.amsgrad ? 1 : 0},
          {"match_rms_adamw", optimizer.match_rms_adamw ? 1 : 0},
          {"groups", groups},
          {"no_decay", grouping.no_decay ? 1 : 0},
          {"no_decay_embeddings", grouping.no_decay_embeddings ? 1 : 0},
          {"average", grouping.average},
          {"warmup_steps", optimizer.warmup_steps},
          {"decay", std::string(str(optimizer.decay))},
          {"decay_from", optimizer.decay_from},
          {"decay_steps", optimizer.decay_steps},
          {"decay_to", optimizer.decay_to},
          {"clip_norm", settings.clip_norm},
          {"seed", settings.seed},
          {"kept_checkpoints", settings.kept_checkpoints}};
}

void read_flag(JsonFields& fields, const char* key, bool& into) {
  uint64_t number = into ? 1 : 0;
  fields.read_if_present(key, number, WholeRange{0, 1});
  into = number != 0;
}

void read_groups(JsonFields& fields, ir::Grouping& grouping, std::string& fault) {
  std::vector<std::string> texts;
  fields.read_if_present("groups", texts);
  for (const std::string& text : texts) {
    const Result<ir::ParameterGroup> group = ir::parse_group(text);
    if (group.ok()) {
      grouping.groups.push_back(*group);
    } else if (fault.empty()) {
      fault = fmt::format("field '{}': {}", fields.place("groups"), group.diagnostic().message);
    }
  }
}

void read_settings(JsonFields fields, TrainingSettings& settings, std::string& fault) {
  OptimizerOptions& optimizer = settings.optimizer;
  std::string kind, decay(str(Decay::kCosine));
  fields.read("optimizer", kind);
  fields.read_if_present("decay", decay);
  if (!fault.empty()) return;
  const auto take = [&](const char* field, const auto& known, auto& into) {
    if (known.ok()) {
      into = *known;
    } else if (fault.empty()) {
      fault = fmt::format("field '{}': {}", fields.place(field), known.diagnostic().message);
    }
  };
  take("optimizer", parse_optimizer(kind), optimizer.kind);
  take("decay", parse_decay(decay), optimizer.decay);
  if (!fault.empty()) return;
  read_flag(fields, "nesterov", optimizer.nesterov);
  read_flag(fields, "amsgrad", optimizer.amsgrad);
  read_flag(fields, "match_rms_adamw", optimizer.match_rms_adamw);
  read_groups(fields, optimizer.grouping, fault);
  read_flag(fields, "no_decay", optimizer.grouping.no_decay);
  read_flag(fields, "no_decay_embeddings", optimizer.grouping.no_decay_embeddings);
  constexpr NumberRange kNotNegative{.least = 0}, kDecay{.least = 0, .most = 1};
  fields.read("learning_rate", optimizer.learning_rate, kNotNegative);
  fields.read("momentum", optimizer.momentum, kDecay);
  fields.read("weight_decay", optimizer.weight_decay, kNotNegative);
  fields.read("beta1", optimizer.beta1, kDecay);
  fields.read("beta2", optimizer.beta2, kDecay);
  fields.read("epsilon", optimizer.epsilon, kNotNegative);
  fields.read_if_present("average", optimizer.grouping.average, kDecay);
  fields.read("warmup_steps", optimizer.warmup_steps);
  fields.read_if_present("decay_from", optimizer.decay_from);
  fields.read("decay_steps", optimizer.decay_steps);
  fields.read("decay_to", optimizer.decay_to, kNotNegative);
  fields.read("clip_norm", settings.clip_norm, kNotNegative);
  fields.read("seed", settings.seed, WholeRange{0, UINT64_MAX});
  fields.read_if_present("kept_checkpoints", settings.kept_checkpoints);
}

void read_files(JsonFields& fields, std::vector<std::string>& files) {
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

std::string print_manifest(const Manifest& manifest) {
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
  return written.dump(1) + '\n';
}

Result<void> write_manifest(const std::string& folder, const Manifest& manifest) {
  const std::string path = manifest_path(folder);
  std::ofstream file(path, std::ios::trunc);
  file << print_manifest(manifest);
  if (!file.flush()) return file_error(path, std::string("cannot be written: ") + std::strerror(errno));
  return {};
}

Result<Manifest> read_manifest(const std::string& folder) {
  const std::string path = manifest_path(folder);
  if (!has_manifest(folder)) return file_error(path, "is missing: the checkpoint does not exist or is incomplete");
  constexpr uint64_t kMostBytes = 64 << 20;
  RANNC_ASSIGN(const MappedFile file, MappedFile::open(path, kMostBytes));
  return parse_manifest(file.bytes(), folder);
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& folder) {
  const std::string path = manifest_path(folder);
  RANNC_ASSIGN(const json object, parse_json_object(text, path));
  std::string fault;
  JsonFields fields(object, "", fault);
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
    JsonFields scale = fields.object("loss_scale");
    scale.read("scale", state.loss_scale.scale, NumberRange{LossScale::kLeast, LossScale::kMost});
    scale.read("finite_steps", state.loss_scale.finite_steps);
  }
  read_files(fields, read.files);
  if (!fault.empty()) return file_error(path, fault);
  const uint64_t step = named_step(folder, state.step);
  if (state.step != step || state.updates > state.step)
    return file_error(
        path, fmt::format("is of step {} with {} updates, in a folder of step {}", state.step, state.updates, step));
  return read;
}

}  // namespace rannc::runtime
