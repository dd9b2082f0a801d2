#include "frontend/onnx/copy.h"

#include <fmt/format.h>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/file/copied_model.h"
#include "ir/base/mapped_file.h"
#include "ir/base/replacement.h"

namespace rannc::frontend {

namespace fs = std::filesystem;

namespace {

Result<void> check_target(const ModelCopy& copy, const fs::path& data) {
  const fs::path folder = copy.to.has_parent_path() ? copy.to.parent_path() : fs::path(".");
  std::error_code ignored;
  const auto refuse = [&](const fs::path& path, std::string why) {
    return error({path.string(), 0, 0, {}}, std::move(why));
  };
  if (!fs::is_directory(folder, ignored))
    return refuse(copy.to, fmt::format("cannot be written: {} is no folder", folder.string()));
  if (fs::equivalent(copy.from, copy.to, ignored)) return refuse(copy.to, "is the model that is copied");
  for (const fs::path& path : {copy.to, data}) {
    if (fs::is_directory(path, ignored)) return refuse(path, "is a folder, expected a file to write");
    if (!copy.replace && fs::exists(path, ignored)) return refuse(path, "exists already; --replace writes over it");
  }
  return {};
}

/// Checks that the data file does not overwrite a file that the model's stored values are in.
Result<void> keeps_sources(const ModelCopy& copy, const fs::path& data) {
  std::error_code ignored;
  for (const auto& [value, stored] : copy.before) {
    if (!stored.in_file() || !fs::equivalent(stored.path(), data, ignored)) continue;
    return error(
        {data.string(), 0, 0, {}},
        fmt::format("tensors of {} are in this file: the copy would be written over them; give it another name",
                    copy.from.string()));
  }
  return {};
}

}  // namespace

Result<CopyReport> copy_onnx(const ModelCopy& copy) {
  const fs::path data = copy.to.string() + ".data";
  RANNC_TRY(check_target(copy, data));
  RANNC_TRY(keeps_sources(copy, data));
  const std::string file = copy.from.string();
  RANNC_ASSIGN(const MappedFile mapped, MappedFile::open(copy.from, ImportOptions().max_file_bytes));
  RANNC_ASSIGN(const ModelFile model, ModelFile::read(mapped.bytes(), file));
  RANNC_ASSIGN(const StoredChanges changes, stored_changes(model, file, copy));
  CopiedModel copied(mapped.bytes(), copy.from, changes, data.string());
  RANNC_ASSIGN(const std::string bytes, copied.write());
  if (bytes.size() > ImportOptions().max_file_bytes)
    return error({copy.to.string(), 0, 0, {}}, fmt::format("the copy has {} bytes, Protocol Buffers hold at most {}",
                                                           bytes.size(), ImportOptions().max_file_bytes));
  CopyReport report{changes.tensors.size(), {}, {}};
  for (const auto& [name, tensor] : changes.added) report.added.push_back(name);
  RANNC_ASSIGN(const bool external, copied.commit_data());
  if (external) report.data_file = data.string();
  RANNC_TRY(write_file(copy.to.string(), bytes));
  return report;
}

}  // namespace rannc::frontend
