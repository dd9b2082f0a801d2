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
#include "runtime/internal/digest.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/internal/manifest.h"
#include "runtime/train/internal/slice_name.h"

namespace rannc::runtime {

namespace {

namespace fs = std::filesystem;
constexpr int kRemovals = 100;               // attempts
constexpr const char* kDigests = "digests";  // metadata of a file: an object with a digest per tensor

std::string part_name(uint32_t device) { return fmt::format("device{}.safetensors", device); }
fs::path partial(const std::string& folder) { return partial_checkpoint(folder); }

Diagnostic file_error(const fs::path& path, const std::string& what) { return error({path.string(), 0, 0, {}}, what); }

using StoredEntry = std::pair<size_t, const SafetensorsFile::Entry*>;  // file

struct StoredSlice {
  int64_t first = 0, last = 0;
  StoredEntry stored;
};

using Digests = std::map<std::string, std::string, std::less<>>;  // by tensor

// The opened files of a checkpoint with an index of all their tensors.
struct Parts {
  std::vector<SafetensorsFile> files;
  std::vector<Digests> digests;      // of each file; empty if the checkpoint has an older format
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

// A digest for each tensor of the file.
Result<Digests> digests_in(const SafetensorsFile& file) {
  const auto found = file.metadata().find(kDigests);
  if (found == file.metadata().end()) return file_error(file.path(), "is damaged: it has no digests");
  const auto object = nlohmann::json::parse(found->second, nullptr, false);
  Digests digests;
  for (const auto& entry : file.entries()) {
    const auto digest = object.is_object() ? object.find(entry.name) : object.end();
    if (!object.is_object() || digest == object.end() || !digest->is_string())
      return file_error(file.path(), fmt::format("is damaged: it has no digest of tensor '{}'", entry.name));
    digests.emplace(entry.name, digest->get<std::string>());
  }
  return digests;
}

Result<Parts> open_parts(const std::string& folder) {
  RANNC_ASSIGN(const Manifest manifest, read_manifest(folder));
  Parts parts;
  for (const std::string& name : manifest.files) {
    const fs::path path = fs::path(folder) / name;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      parts.missing.push_back(name);
      continue;
    }
    RANNC_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path.string()));
    if (manifest.has_digests) {
      RANNC_ASSIGN(Digests digests, digests_in(file));
      parts.digests.push_back(std::move(digests));
    }
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

CheckpointEntry entry_of(const Parts& parts, const StoredEntry& stored) {
  const auto& [number, entry] = stored;
  ir::ValueType type;
  type.dtype = entry->spec.dtype;
  type.shape = ir::Shape(entry->spec.shape.begin(), entry->spec.shape.end());
  return {.key = entry->name,
          .type = std::move(type),
          .data = parts.files[number].data(*entry),
          .digest = parts.digests.empty() ? std::string() : parts.digests[number].at(entry->name)};
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
    RANNC_ASSIGN(const std::vector<std::byte> bytes, entry_of(parts, stored).read());
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
  nlohmann::json digests = nlohmann::json::object();
  for (const auto& [key, value] : tensors) {
    kept.push_back(on_host(value));
    const at::Tensor& tensor = kept.back();
    const std::span bytes(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
    digests[key] = digest_of(bytes);
    list.push_back({key, value->spec(), [bytes]() -> Result<std::span<const std::byte>> { return bytes; }});
  }
  return write_safetensors((partial(folder) / part_name(device)).string(), std::move(list),
                           {{kDigests, digests.dump()}}, before_flush);
}

Result<void> finish_checkpoint(const std::string& folder, const std::vector<uint32_t>& devices,
                               const CheckpointState& state) {
  Manifest manifest{.state = state};
  for (const uint32_t device : devices) manifest.files.push_back(part_name(device));
  RANNC_TRY(write_manifest(partial(folder).string(), manifest));
  return move_into_place(partial(folder).string(), folder);
}

void discard_checkpoint(const std::string& folder) {
  // Another worker may remove the same files at the same time: then the rest is still to be removed.
  std::error_code failed = std::make_error_code(std::errc::no_such_file_or_directory);
  for (int i = 0; i < kRemovals && failed == std::errc::no_such_file_or_directory; ++i)
    fs::remove_all(partial(folder), failed);
}

Result<CheckpointState> read_checkpoint_state(const std::string& folder) {
  RANNC_ASSIGN(Manifest manifest, read_manifest(folder));
  return std::move(manifest.state);
}

Result<void> check_model(const CheckpointState& state, const std::string& folder, const ir::Plan& plan) {
  if (state.model_digest == plan.model_digest) return {};
  const size_t half = plan.model_digest.size() / 2;  // of the form
  if (state.model_digest.substr(0, half) == plan.model_digest.substr(0, half))
    return std::move(file_error(folder,
                                "checkpoint belongs to a model with other constants: tensors that are neither "
                                "trained nor buffers have other numbers, or are others"))
        .note(
            "they are compiled into programs, not kept in checkpoints; compile the model with the same weights and "
            "the same --freeze, --train, --kind and --buffer");
  return file_error(folder, fmt::format("checkpoint belongs to another model: its digest is {}, the bundle's is {}",
                                        state.model_digest, plan.model_digest));
}

Result<std::vector<std::byte>> CheckpointEntry::read() const {
  RANNC_ASSIGN(std::vector<std::byte> bytes, data.read());
  if (digest.empty() || digest == digest_of(bytes)) return bytes;
  return file_error(data.path(), fmt::format("is damaged: tensor '{}' differs from its digest", key));
}

Result<std::map<std::string, CheckpointEntry>> checkpoint_tensors(const std::string& folder) {
  RANNC_ASSIGN(const Parts parts, open_parts(folder));
  if (!parts.missing.empty()) return file_error(folder, "checkpoint is incomplete" + about_missing(parts));
  std::map<std::string, CheckpointEntry> tensors;
  for (const auto& [key, stored] : parts.index) tensors.emplace(key, entry_of(parts, stored));
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

std::optional<uint64_t> step_of_checkpoint(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  uint64_t step = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto [stop, status] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return status == std::errc() && stop == end ? std::optional(step) : std::nullopt;
}

namespace {

/// The checkpoints in a folder by step.
struct Listing {
  std::map<uint64_t, fs::path> complete;
  std::map<uint64_t, fs::path> partial;  // without the suffix
  std::map<uint64_t, fs::path> damaged;  // with the name of a complete one
};

Listing checkpoints_in(const fs::path& parent) {
  const std::string suffix = partial_checkpoint("");
  Listing found;
  std::error_code failed;
  for (fs::directory_iterator it(parent, failed), end; !failed && it != end; it.increment(failed)) {
    std::string name = it->path().filename().string();
    const bool partial = name.ends_with(suffix);
    if (partial) name.resize(name.size() - suffix.size());
    const std::optional<uint64_t> step = step_of_checkpoint(name);
    if (!step) continue;
    const bool damaged = !partial && !has_manifest(it->path().string());
    (partial   ? found.partial
     : damaged ? found.damaged
               : found.complete)
        .emplace(*step, it->path().parent_path() / name);
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

std::vector<Diagnostic> newer_damaged_checkpoints(const std::string& parent) {
  const Listing found = checkpoints_in(parent);
  std::vector<Diagnostic> newer;
  for (const auto& [step, path] : found.damaged) {
    if (found.complete.empty() || step > found.complete.rbegin()->first)
      newer.push_back(file_error(manifest_path(path.string()), "is missing: the checkpoint is damaged"));
  }
  return newer;
}

Result<void> remove_older_checkpoints(const std::string& folder, uint64_t kept) {
  const fs::path newest = fs::absolute(folder), parent = newest.parent_path();
  const std::optional<uint64_t> step = step_of_checkpoint(newest.filename().string());
  if (kept == 0 || !step) return {};
  Listing older = checkpoints_in(parent);
  older.complete.erase(older.complete.lower_bound(*step), older.complete.end());
  older.partial.erase(older.partial.lower_bound(*step), older.partial.end());
  for (const auto& [unused, path] : older.partial) discard_checkpoint(path.string());
  if (older.complete.size() < kept) return {};
  // Its tensors are on disk already.
  for (const fs::path& path : {fs::path(manifest_path(newest.string())), newest, parent}) RANNC_TRY(flush(path));
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
