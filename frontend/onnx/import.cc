#include "frontend/onnx/import.h"

#include <fmt/format.h>

#include "frontend/onnx/internal/importer.h"
#include "frontend/onnx/internal/mapped_file.h"
#include "frontend/onnx/internal/model_file.h"

namespace rannc::frontend {

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
  RANNC_ASSIGN(const ModelFile model, ModelFile::read(bytes, file));
  return import_model(model, bytes.size(), file, options);
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
