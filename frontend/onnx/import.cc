#include "frontend/onnx/import.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "frontend/onnx/internal/file/model_file.h"
#include "frontend/onnx/internal/model/old_opsets.h"
#include "frontend/onnx/internal/translate/importer.h"
#include "ir/base/mapped_file.h"

namespace rannc::frontend {

namespace {

constexpr const char* kUnsorted =
    "lists of nodes (of the graph, a body or a function) name a node before one that it reads: they were sorted, "
    "as ONNX wants them to be";

constexpr const char* kRenewed = "model of an operator set before 7 was brought to 7 by ONNX's converter";

/// A model, with what was changed to read it.
struct ParsedOnnx {
  std::optional<MappedFile> mapped;  ///< absent if the caller holds the bytes
  std::string file;
  uint64_t bytes = 0;
  ModelFile model;
  bool renewed = false;
  std::optional<size_t> unsorted = {};  ///< lists of nodes that were sorted; absent until an import fails

  Result<Imported> import(const ImportOptions& options) {
    if (mapped) RANNC_TRY(mapped->check());
    auto imported = import_model(model, {file, bytes}, options);
    if (!imported.ok() && !unsorted) {
      RANNC_ASSIGN(unsorted, model.sort_nodes());
      if (*unsorted > 0) imported = import_model(model, {file, bytes}, options);
    }
    if (!imported.ok()) return imported;
    if (renewed) ++imported->notes.counted_remarks[kRenewed];
    if (unsorted.value_or(0) > 0) imported->notes.counted_remarks[kUnsorted] += *unsorted;
    return imported;
  }
};

/// `bytes` are those of `mapped`, or outlive the result.
Result<ImportParsed> parse_bytes(std::optional<MappedFile> mapped, std::string_view bytes, const std::string& file) {
  RANNC_ASSIGN(ModelFile model, ModelFile::read(bytes, file));
  RANNC_ASSIGN(const bool renewed, renew_old_opset(model, file));
  const auto parsed =
      std::make_shared<ParsedOnnx>(ParsedOnnx{std::move(mapped), file, bytes.size(), std::move(model), renewed});
  return ImportParsed([parsed](const ImportOptions& options) { return parsed->import(options); });
}

Result<void> check_size(uint64_t bytes, uint64_t max_bytes, const std::string& path) {
  if (bytes <= max_bytes) return {};
  return error(Location{path}, fmt::format("the model has {} bytes, at most {} are read", bytes, max_bytes));
}

}  // namespace

Result<ImportParsed> parse_onnx(const ModelSource& source, uint64_t max_bytes) {
  const std::string path = source.path.string();
  if (source.bytes) {
    RANNC_TRY(check_size(source.size, max_bytes, path));
    RANNC_ASSIGN(const ImportParsed import, parse_bytes(std::nullopt, source.text(), path));
    return ImportParsed([import, owner = source.bytes](const ImportOptions& options) { return import(options); });
  }
  RANNC_ASSIGN(MappedFile file, MappedFile::open(path, max_bytes));
  const std::string_view bytes = file.bytes();
  return parse_bytes(std::move(file), bytes, path);
}

Result<Imported> read_onnx(const std::filesystem::path& path, const ImportOptions& options) {
  RANNC_ASSIGN(const ImportParsed import, parse_onnx(path, options.max_file_bytes));
  return import(options);
}

Result<Imported> read_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                 const ImportOptions& options) {
  RANNC_TRY(check_size(bytes.size(), options.max_file_bytes, path.string()));
  RANNC_ASSIGN(const ImportParsed import, parse_bytes(std::nullopt, bytes, path.string()));
  return import(options);
}

Result<ir::Graph> import_onnx(const std::filesystem::path& path, const ImportOptions& options) {
  RANNC_ASSIGN(Imported imported, read_onnx(path, options));
  return std::move(imported.graph);
}

Result<ir::Graph> import_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                    const ImportOptions& options) {
  RANNC_ASSIGN(Imported imported, read_onnx_bytes(bytes, path, options));
  return std::move(imported.graph);
}

}  // namespace rannc::frontend
