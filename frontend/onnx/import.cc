#include "frontend/onnx/import.h"

#include <fmt/format.h>

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

}  // namespace

Result<Imported> read_onnx(const std::filesystem::path& path, const ImportOptions& options) {
  RANNC_ASSIGN(const MappedFile file, MappedFile::open(path, options.max_file_bytes));
  return read_onnx_bytes(file.bytes(), path, options);
}

Result<Imported> read_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                 const ImportOptions& options) {
  const std::string file = path.string();
  if (bytes.size() > options.max_file_bytes) {
    return error(Location{file},
                 fmt::format("the model has {} bytes, at most {} are read", bytes.size(), options.max_file_bytes));
  }
  RANNC_ASSIGN(ModelFile model, ModelFile::read(bytes, file));
  RANNC_ASSIGN(const bool renewed, renew_old_opset(model, file));
  auto imported = import_model(model, {file, bytes.size()}, options);
  if (imported.ok() && renewed) ++imported->notes.counted_remarks[kRenewed];
  if (imported.ok()) return imported;
  RANNC_ASSIGN(const size_t unsorted, model.sort_nodes());
  if (unsorted == 0) return imported;
  auto sorted = import_model(model, {file, bytes.size()}, options);
  if (sorted.ok()) sorted->notes.counted_remarks[kUnsorted] += unsorted;
  return sorted;
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
