#include "frontend/onnx/folded_values.h"

#include "frontend/onnx/internal/file/mapped_file.h"
#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

namespace {

/// The strings of a list as Python prints it: `['c.weight', 'val_3']`. Names with quotes or escapes in them are cut
/// short: no exporter makes such.
std::vector<std::string> python_list(std::string_view text) {
  std::vector<std::string> found;
  for (size_t at = text.find_first_of("'\""); at != std::string_view::npos; at = text.find_first_of("'\"", at)) {
    const size_t end = text.find(text[at], at + 1);
    if (end == std::string_view::npos) break;
    found.emplace_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return found;
}

}  // namespace

Result<FoldedValues> read_folded_values_of(std::string_view bytes, const std::filesystem::path& path) {
  RANNC_ASSIGN(const ModelFile model, ModelFile::read(bytes, path.string()));
  FoldedValues folded;
  for (const auto& value : model.head().graph().value_info()) {
    for (const auto& entry : value.metadata_props()) {
      if (entry.key() == "pkg.onnxscript.optimizer.folded_from")
        folded.emplace(value.name(), python_list(entry.value()));
    }
  }
  return folded;
}

Result<FoldedValues> read_folded_values(const std::filesystem::path& path, const ImportOptions& options) {
  RANNC_ASSIGN(const MappedFile file, MappedFile::open(path, options.max_file_bytes));
  return read_folded_values_of(file.bytes(), path);
}

}  // namespace rannc::frontend
