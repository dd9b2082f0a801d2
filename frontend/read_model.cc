#include "frontend/read_model.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "frontend/onnx/import.h"
#include "frontend/torchscript/import.h"
#include "ir/base/printable.h"
#include "ir/base/replacement.h"
#include "ir/text/text.h"

namespace rannc::frontend {

namespace {

constexpr std::string_view kZip("PK\3\4", 4);

bool is_archive(const std::filesystem::path& path) {
  std::array<char, kZip.size()> first{};
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), first.size());
  return file.gcount() == static_cast<std::streamsize>(first.size()) &&
         std::equal(first.begin(), first.end(), kZip.begin());
}

Result<Imported> read_text(const std::filesystem::path& path) {
  RANNC_ASSIGN(const std::string text, read_file(path.string()));
  RANNC_ASSIGN(ir::Graph graph, ir::parse_graph(text, path.string()));
  return Imported{std::move(graph), {}};
}

/// Names of the file's own stand in what is said about it.
void make_printable(ImportNotes& notes) {
  for (auto* const list : {&notes.remarks, &notes.open, &notes.warnings}) {
    for (Note& note : *list) note.message = printable_lines(note.message);
  }
  for (auto* const counted : {&notes.counted_remarks, &notes.counted_warnings}) {
    std::map<std::string, size_t> shown;
    for (const auto& [text, count] : *counted) shown[printable_lines(text)] += count;
    *counted = std::move(shown);
  }
}

Result<Imported> read_any(const std::filesystem::path& path, const ImportOptions& options, ModelFormat format) {
  if (format == ModelFormat::kText) return read_text(path);
  if (!is_torch(format)) return read_onnx(path, options);
  auto imported = read_torch(path, options);
  if (imported.ok() || imported.diagnostic().where.file == path.string()) return imported;
  // The place is an option, or a line of the Python program that wrote the file.
  Diagnostic failure = imported.diagnostic();
  if (failure.where.file.empty()) {
    failure.where.file = path.string();
    return failure;
  }
  return std::move(failure).note("in this file", Location{path.string()});
}

/// Returns what the options contain that files of this format do not take; empty: nothing.
const char* misplaced(const ImportOptions& options, ModelFormat format) {
  if (!is_torch(format) && !options.inputs.empty())
    return "--input applies to PyTorch files (.pt, .pt2) only; this file declares its inputs";
  if (!is_torch(format) && !options.outputs.empty())
    return "--output-name applies to PyTorch files (.pt, .pt2) only; this file names its outputs";
  if (format == ModelFormat::kExported && !options.input_values.empty())
    return "--input-value applies to ONNX and TorchScript files only; export this program with those values instead";
  if (format == ModelFormat::kText && !options.sizes.empty())
    return "--size applies to ONNX and PyTorch files only; replace the symbol in this text instead";
  return "";
}

}  // namespace

ModelFormat model_format(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".rir") return ModelFormat::kText;
  if (extension == ".pt2") return ModelFormat::kExported;
  const bool named = extension == ".pt" || extension == ".pth" || extension == ".ts";
  return named || is_archive(path) ? ModelFormat::kTorchScript : ModelFormat::kOnnx;
}

bool is_torch(ModelFormat format) { return format == ModelFormat::kTorchScript || format == ModelFormat::kExported; }

Result<Imported> read_model(const std::filesystem::path& path, const ImportOptions& options) {
  const ModelFormat format = model_format(path);
  if (const std::string_view fault = misplaced(options, format); !fault.empty())
    return error(Location{path.string()}, std::string(fault));
  auto imported = read_any(path, options, format);
  if (imported.ok()) make_printable(imported->notes);
  return imported;
}

}  // namespace rannc::frontend
