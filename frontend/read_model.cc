#include "frontend/read_model.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <string_view>
#include <vector>

#include "frontend/onnx/import.h"
#include "frontend/torchscript/import.h"
#include "ir/base/printable.h"
#include "ir/base/replacement.h"
#include "ir/text/text.h"

namespace rannc::frontend {

namespace {

constexpr std::string_view kZip("PK\3\4", 4);

bool is_archive(const ModelSource& source) {
  if (source.bytes) return source.text().starts_with(kZip);
  std::array<char, kZip.size()> first{};
  std::ifstream file(source.path, std::ios::binary);
  file.read(first.data(), first.size());
  return file.gcount() == static_cast<std::streamsize>(first.size()) &&
         std::equal(first.begin(), first.end(), kZip.begin());
}

Result<ImportParsed> parse_text(const ModelSource& source, uint64_t /*max_bytes*/) {
  auto text = source.bytes ? Result<std::string>(std::string(source.text())) : read_file(source.path.string());
  if (!text.ok()) return text.diagnostic();
  RANNC_ASSIGN(ir::Graph parsed, ir::parse_graph(*text, source.path.string()));
  const auto graph = std::make_shared<const ir::Graph>(std::move(parsed));
  return ImportParsed([graph](const ImportOptions&) { return Imported{graph->clone(), {}}; });
}

/// A format of model files.
struct Format {
  ModelFormat format;
  std::vector<std::string_view> extensions;
  Result<ImportParsed> (*parse)(const ModelSource& source, uint64_t max_bytes);
  bool takes_names;   ///< `ImportOptions::inputs` and `outputs`
  bool takes_values;  ///< `ImportOptions::input_values`
  bool takes_sizes;   ///< `ImportOptions::sizes`
};

const std::vector<Format>& formats() {
  static const std::vector<Format> kFormats = {
      {ModelFormat::kText, {".rir"}, parse_text, false, true, false},
      {ModelFormat::kOnnx, {}, parse_onnx, false, true, true},
      {ModelFormat::kTorchScript, {".pt", ".pth", ".ts"}, parse_torch, true, true, true},
      {ModelFormat::kExported, {".pt2"}, parse_torch, true, false, true},
  };
  return kFormats;
}

const Format& row_of(ModelFormat format) {
  return *std::find_if(formats().begin(), formats().end(), [&](const Format& row) { return row.format == format; });
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

/// Returns what the options contain that files of this format do not take; empty: nothing.
const char* misplaced(const ImportOptions& options, const Format& format) {
  if (!format.takes_names && !options.inputs.empty())
    return "--input applies to PyTorch files (.pt, .pt2) only; this file declares its inputs";
  if (!format.takes_names && !options.outputs.empty())
    return "--output-name applies to PyTorch files (.pt, .pt2) only; this file names its outputs";
  if (!format.takes_values && !options.input_values.empty())
    return "--input-value applies to ONNX and TorchScript files only; export this program with those values instead";
  if (!format.takes_sizes && !options.sizes.empty())
    return "--size applies to ONNX and PyTorch files only; replace the symbol in this text instead";
  return "";
}

Result<void> check_options(const ImportOptions& options, const Format& format, const std::filesystem::path& path) {
  const std::string_view fault = misplaced(options, format);
  return fault.empty() ? Result<void>() : error(Location{path.string()}, std::string(fault));
}

/// Adds the file to errors of PyTorch files, whose place is an option or a line of the program that wrote the file.
template <class T>
Result<T> placed(Result<T> result, const Format& format, const std::filesystem::path& path) {
  if (result.ok() || !is_torch(format.format) || result.diagnostic().where.file == path.string()) return result;
  Diagnostic failure = result.diagnostic();
  if (!failure.where.file.empty()) return std::move(failure).note("in this file", Location{path.string()});
  failure.where.file = path.string();
  return failure;
}

}  // namespace

ModelFormat model_format(const ModelSource& source) {
  for (const Format& row : formats()) {
    const auto& known = row.extensions;
    if (std::find(known.begin(), known.end(), source.path.extension().string()) != known.end()) return row.format;
  }
  return is_archive(source) ? ModelFormat::kTorchScript : ModelFormat::kOnnx;
}

bool is_torch(ModelFormat format) { return row_of(format).parse == parse_torch; }

Result<ParsedModel> parse_model(const ModelSource& source, const ImportOptions& options) {
  const Format& format = row_of(model_format(source));
  const std::filesystem::path path = source.path;
  if (!source.tensors.empty() && format.format != ModelFormat::kExported)
    return error(Location{path.string()}, "has tensors beside it, which only programs of torch.export take");
  RANNC_TRY(check_options(options, format, path));
  RANNC_ASSIGN(const ImportParsed parsed, placed(format.parse(source, options.max_file_bytes), format, path));
  const auto import = [=, &format](const ImportOptions& given) -> Result<Imported> {
    RANNC_TRY(check_options(given, format, path));
    auto imported = placed(parsed(given), format, path);
    if (imported.ok()) make_printable(imported->notes);
    return imported;
  };
  return ParsedModel{format.format, import};
}

Result<Imported> read_model(const ModelSource& source, const ImportOptions& options) {
  RANNC_ASSIGN(const ParsedModel model, parse_model(source, options));
  return model.import(options);
}

}  // namespace rannc::frontend
