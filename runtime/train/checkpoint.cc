#include "runtime/train/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "ir/base/replacement.h"
#include "runtime/bundle/safetensors.h"
#include "runtime/bundle/state_dict.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/internal/slice_name.h"

namespace rannc::runtime {

namespace {

namespace fs = std::filesystem;
constexpr int kVersion = 2;        // whole tensors
constexpr int kSlicedVersion = 3;  // optimizer states may be stored in slices
constexpr const char* kManifest = "manifest.json";
constexpr int kRemovals = 100;  // attempts

std::string part_name(uint32_t device) { return fmt::format("device{}.safetensors", device); }
fs::path partial(const std::string& folder) { return partial_checkpoint(folder); }

Diagnostic file_error(const fs::path& path, const std::string& what) { return error({path.string(), 0, 0, {}}, what); }

Result<nlohmann::json> read_manifest(const std::string& folder) {
  const fs::path path = fs::path(folder) / kManifest;
  std::ifstream file(path);
  if (!file) return file_error(path, "cannot be opened: the checkpoint does not exist or is incomplete");
  nlohmann::json manifest = nlohmann::json::parse(file, nullptr, false);
  if (!manifest.is_object()) return file_error(path, "is not a JSON object");
  if (const int version = manifest.value("version", 0); version != kVersion && version != kSlicedVersion) {
    return file_error(
        path, fmt::format("has format version {}, this program reads {} and {}", version, kVersion, kSlicedVersion));
  }
  return manifest;
}

nlohmann::json to_json(const TrainingSettings& settings) {
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

// Exceptions of the JSON reader pass through.
Result<TrainingSettings> settings_from(const nlohmann::json& entry) {
  TrainingSettings settings;
  OptimizerOptions& optimizer = settings.optimizer;
  RANNC_ASSIGN(optimizer.kind, parse_optimizer(entry.at("optimizer").get<std::string>()));
  optimizer.learning_rate = entry.at("learning_rate");
  optimizer.momentum = entry.at("momentum");
  optimizer.weight_decay = entry.at("weight_decay");
  optimizer.beta1 = entry.at("beta1");
  optimizer.beta2 = entry.at("beta2");
  optimizer.epsilon = entry.at("epsilon");
  optimizer.warmup_steps = entry.at("warmup_steps");
  optimizer.decay_steps = entry.at("decay_steps");
  optimizer.decay_to = entry.at("decay_to");
  settings.clip_norm = entry.at("clip_norm");
  settings.seed = entry.at("seed");
  settings.kept_checkpoints = entry.value("kept_checkpoints", uint64_t{0});  // absent in older checkpoints
  return settings;
}

using StoredEntry = std::pair<size_t, const SafetensorsFile::Entry*>;  // file

struct StoredSlice {
  int64_t first = 0, last = 0;
  StoredEntry stored;
};

// The opened files of a checkpoint with an index of all their tensors.
struct Parts {
  std::vector<SafetensorsFile> files;
  std::vector<std::string> missing;  // listed, but not in the folder
  std::map<std::string, StoredEntry, std::less<>> index;
  std::map<std::string, std::vector<StoredSlice>, std::less<>> slices;  // by key of the whole tensor
};

int64_t elements_of(const TensorSpec& spec) {
  int64_t elements = 1;
  for (const int64_t extent : spec.shape) elements *= extent;
  return elements;
}

Result<void> add_to_index(Parts& parts, size_t file, const SafetensorsFile::Entry& entry) {
  parts.index.emplace(entry.name, std::pair(file, &entry));
  if (!is_slice_key(entry.name)) return {};
  const auto name = parse_slice(entry.name);
  if (!name || entry.spec.shape != std::vector<int64_t>{name->last - name->first})
    return error(fmt::format("tensor '{}' is not a slice of the size in its name", entry.name));
  parts.slices[name->key].push_back({name->first, name->last, {file, &entry}});
  return {};
}

Result<Parts> open_parts(const std::string& folder) {
  RANNC_ASSIGN(const nlohmann::json manifest, read_manifest(folder));
  Parts parts;
  if (!manifest.contains("files") || !manifest["files"].is_array()) {
    return file_error(fs::path(folder) / kManifest, "lists no files");
  }
  for (const auto& name : manifest["files"]) {
    if (!name.is_string() || name.get<std::string>().find('/') != std::string::npos) {
      return file_error(fs::path(folder) / kManifest, "lists a file outside of the folder");
    }
    const fs::path path = fs::path(folder) / name.get<std::string>();
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      parts.missing.push_back(name.get<std::string>());
      continue;
    }
    RANNC_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path.string()));
    parts.files.push_back(std::move(file));
  }
  for (size_t i = 0; i < parts.files.size(); ++i) {
    for (const auto& entry : parts.files[i].entries()) {
      if (const Result<void> added = add_to_index(parts, i, entry); !added.ok())
        return file_error(folder, added.diagnostic().message);
    }
  }
  return parts;
}

// What to do about parts that are not in the folder.
std::string about_missing(const Parts& parts) {
  if (parts.missing.empty()) return {};
  return fmt::format("; {} {} not in this folder: copy {} from the host that wrote {}", fmt::join(parts.missing, ", "),
                     parts.missing.size() == 1 ? "is" : "are", parts.missing.size() == 1 ? "it" : "them",
                     parts.missing.size() == 1 ? "it" : "them");
}

// A part of a stored tensor, and its place in a tensor of the run. In elements.
struct Piece {
  StoredEntry stored;
  int64_t from = 0, to = 0, size = 0;
};

// Returns the pieces of elements [first, last) of the tensor `key`, or an error about those that the checkpoint lacks.
Result<std::vector<Piece>> pieces_of(const Parts& parts, const SliceName& wanted, ir::DType dtype) {
  std::vector<StoredSlice> sources;
  if (const auto whole = parts.index.find(wanted.key); whole != parts.index.end())
    sources.push_back({0, elements_of(whole->second.second->spec), whole->second});
  if (const auto found = parts.slices.find(wanted.key); found != parts.slices.end())
    sources.insert(sources.end(), found->second.begin(), found->second.end());
  std::sort(sources.begin(), sources.end(),
            [](const StoredSlice& a, const StoredSlice& b) { return a.first < b.first; });
  std::vector<Piece> pieces;
  int64_t done = wanted.first;
  for (const StoredSlice& source : sources) {
    if (done >= wanted.last || source.first > done) break;
    if (source.last <= done) continue;
    if (source.stored.second->spec.dtype != dtype)
      return error(
          fmt::format("checkpoint's tensor '{}' has another type than the model's", source.stored.second->name));
    const int64_t last = std::min(source.last, wanted.last);
    pieces.push_back({source.stored, done - source.first, done - wanted.first, last - done});
    done = last;
  }
  if (done >= wanted.last) return pieces;
  if (sources.empty()) return error(fmt::format("checkpoint has no tensor '{}'{}", wanted.key, about_missing(parts)));
  return error(
      fmt::format("checkpoint has no slice of '{}' with element {}{}", wanted.key, done, about_missing(parts)));
}

Result<std::vector<Piece>> pieces_of(const Parts& parts, const std::string& key, const Value& value) {
  const TensorSpec spec = value->spec();
  if (const auto found = parts.index.find(key); found != parts.index.end()) {
    if (!(found->second.second->spec == spec))
      return error("checkpoint's tensor '" + key + "' has another type or shape than the model's");
    return std::vector<Piece>{{found->second, 0, 0, elements_of(spec)}};
  }
  SliceName wanted{key, 0, elements_of(spec)};
  if (auto slice = parse_slice(key)) wanted = *std::move(slice);
  return pieces_of(parts, wanted, spec.dtype);
}

Result<void> read_pieces(const Parts& parts, const std::vector<Piece>& pieces, const Value& value) {
  const auto size = static_cast<int64_t>(ir::byte_size(value->spec().dtype));
  const at::Tensor flat = to_tensor(value).detach().view(-1);
  for (const auto& [stored, from, to, count] : pieces) {
    RANNC_ASSIGN(const std::vector<std::byte> bytes, parts.files[stored.first].data(*stored.second).read());
    overwrite(flat.narrow(0, to, count),
              std::span(bytes).subspan(static_cast<size_t>(from * size), static_cast<size_t>(count * size)));
  }
  return {};
}

}  // namespace

std::string partial_checkpoint(const std::string& folder) { return folder + ".partial"; }

Result<void> write_checkpoint_part(const std::string& folder, uint32_t device, const CheckpointTensors& tensors,
                                   const std::function<void()>& before_flush) {
  std::error_code failed;
  fs::create_directories(partial(folder), failed);
  if (failed) return file_error(partial(folder), "cannot be created: " + failed.message());
  std::vector<SafetensorsTensor> list;
  std::vector<at::Tensor> kept;
  kept.reserve(tensors.size());
  for (const auto& [key, value] : tensors) {
    kept.push_back(on_host(value));
    const at::Tensor& tensor = kept.back();
    list.push_back({key, value->spec(), [&tensor]() -> Result<std::span<const std::byte>> {
                      return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
                    }});
  }
  return write_safetensors((partial(folder) / part_name(device)).string(), std::move(list), {}, before_flush);
}

Result<void> finish_checkpoint(const std::string& folder, const std::vector<uint32_t>& devices,
                               const CheckpointState& state) {
  nlohmann::json manifest{
      {"version", state.sliced ? kSlicedVersion : kVersion},
      {"step", state.step},
      {"updates", state.updates},
      {"loss_scale", {{"scale", state.loss_scale.scale}, {"finite_steps", state.loss_scale.finite_steps}}},
      {"model", state.model_digest},
      {"settings", to_json(state.settings)},
      {"data", state.data_state},
      {"files", nlohmann::json::array()}};
  for (const uint32_t device : devices) manifest["files"].push_back(part_name(device));
  const fs::path path = partial(folder) / kManifest;
  {
    std::ofstream file(path, std::ios::trunc);
    file << manifest.dump(1) << '\n';
    if (!file.flush()) return file_error(path, std::string("cannot be written: ") + std::strerror(errno));
  }
  return move_into_place(partial(folder).string(), folder);
}

void discard_checkpoint(const std::string& folder) {
  // Another worker may remove the same files at the same time: then the rest is still to be removed.
  std::error_code failed = std::make_error_code(std::errc::no_such_file_or_directory);
  for (int i = 0; i < kRemovals && failed == std::errc::no_such_file_or_directory; ++i)
    fs::remove_all(partial(folder), failed);
}

Result<CheckpointState> read_checkpoint_state(const std::string& folder) {
  RANNC_ASSIGN(const nlohmann::json manifest, read_manifest(folder));
  try {
    RANNC_ASSIGN(const TrainingSettings settings, settings_from(manifest.at("settings")));
    CheckpointState state{.step = manifest.at("step"),
                          .settings = settings,
                          .model_digest = manifest.at("model"),
                          .data_state = manifest.at("data")};
    state.updates = manifest.value("updates", state.step);  // older files have neither
    if (const auto scale = manifest.find("loss_scale"); scale != manifest.end()) {
      state.loss_scale = {.scale = scale->at("scale"), .finite_steps = scale->at("finite_steps")};
    }
    return state;
  } catch (const nlohmann::json::exception& failure) {
    return file_error(fs::path(folder) / kManifest, failure.what());
  }
}

Result<void> check_model(const CheckpointState& state, const std::string& folder, const ir::Plan& plan) {
  if (state.model_digest == plan.model_digest) return {};
  return file_error(folder, fmt::format("checkpoint belongs to another model: its digest is {}, the bundle's is {}",
                                        state.model_digest, plan.model_digest));
}

Result<std::map<std::string, ir::StoredTensor>> checkpoint_tensors(const std::string& folder) {
  RANNC_ASSIGN(const Parts parts, open_parts(folder));
  if (!parts.missing.empty()) return file_error(folder, "checkpoint is incomplete" + about_missing(parts));
  std::map<std::string, ir::StoredTensor> tensors;
  for (const SafetensorsFile& file : parts.files) tensors.merge(tensors_by_name(file));
  return tensors;
}

Result<void> read_checkpoint(const std::string& folder, const CheckpointTensors& into) {
  RANNC_ASSIGN(const Parts parts, open_parts(folder));
  std::vector<std::vector<Piece>> pieces;
  for (const auto& [key, value] : into) {
    auto found = pieces_of(parts, key, value);
    if (!found.ok()) return file_error(folder, found.diagnostic().message);
    pieces.push_back(*std::move(found));
  }
  size_t i = 0;
  for (const auto& [key, value] : into) RANNC_TRY(read_pieces(parts, pieces[i++], value));
  return {};
}

namespace {

/// Returns n of the name `step-<n>`.
std::optional<uint64_t> step_of(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  uint64_t step = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto [stop, status] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return status == std::errc() && stop == end ? std::optional(step) : std::nullopt;
}

/// The checkpoints in a folder by step.
struct Listing {
  std::map<uint64_t, fs::path> complete;
  std::map<uint64_t, fs::path> partial;  // without the suffix
};

Listing checkpoints_in(const fs::path& parent) {
  const std::string suffix = partial_checkpoint("");
  Listing found;
  std::error_code failed, ignored;
  for (fs::directory_iterator it(parent, failed), end; !failed && it != end; it.increment(failed)) {
    std::string name = it->path().filename().string();
    const bool partial = name.ends_with(suffix);
    if (partial) name.resize(name.size() - suffix.size());
    const std::optional<uint64_t> step = step_of(name);
    if (!step || (!partial && !fs::exists(it->path() / kManifest, ignored))) continue;
    (partial ? found.partial : found.complete).emplace(*step, it->path().parent_path() / name);
  }
  return found;
}

/// Waits until a file or the entries of a folder are on disk.
Result<void> flush(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool flushed = file >= 0 && ::fsync(file) == 0;
  const int reason = errno;
  if (file >= 0) ::close(file);
  return flushed ? Result<void>() : file_error(path, std::string("cannot be flushed: ") + std::strerror(reason));
}

}  // namespace

std::string latest_checkpoint(const std::string& parent) {
  const Listing found = checkpoints_in(parent);
  return found.complete.empty() ? std::string() : found.complete.rbegin()->second.string();
}

Result<void> remove_older_checkpoints(const std::string& folder, uint64_t kept) {
  const fs::path newest = fs::absolute(folder), parent = newest.parent_path();
  const std::optional<uint64_t> step = step_of(newest.filename().string());
  if (kept == 0 || !step) return {};
  Listing older = checkpoints_in(parent);
  older.complete.erase(older.complete.lower_bound(*step), older.complete.end());
  older.partial.erase(older.partial.lower_bound(*step), older.partial.end());
  for (const auto& [unused, path] : older.partial) discard_checkpoint(path.string());
  if (older.complete.size() < kept) return {};
  // Its tensors are on disk already.
  for (const fs::path& path : {newest / kManifest, newest, parent}) RANNC_TRY(flush(path));
  auto excess = older.complete.size() - (kept - 1);
  for (auto old = older.complete.begin(); excess > 0; ++old, --excess) {
    std::error_code failed;
    fs::rename(old->second, partial(old->second.string()), failed);
    if (!failed) fs::remove_all(partial(old->second.string()), failed);
    if (failed) return file_error(old->second, "the older checkpoint cannot be removed: " + failed.message());
  }
  return {};
}

}  // namespace rannc::runtime
