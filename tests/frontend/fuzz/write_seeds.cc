/// Writes seeds of fuzz targets: each model in ONNX's text syntax as a file, and the graph that is imported from it as
/// text.
///
/// usage: write-seeds FOLDER TEXT-FILE… makes FOLDER/onnx/NAME.onnx and FOLDER/graph/NAME.rir.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "frontend/onnx/import.h"
#include "ir/text/text.h"
#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"

namespace fs = std::filesystem;

namespace {

bool write_seed(const fs::path& folder, const fs::path& source) {
  std::ifstream file(source);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ONNX_NAMESPACE::ModelProto model;
  const auto parsed = ONNX_NAMESPACE::OnnxParser::Parse(model, text.c_str());
  if (!parsed.IsOK()) {
    std::fprintf(stderr, "%s: %s\n", source.c_str(), parsed.ErrorMessage().c_str());
    return false;
  }
  const std::string bytes = model.SerializeAsString();
  const auto graph = rannc::frontend::import_onnx_bytes(bytes, "seed.onnx", {.missing_weights = true});
  if (!graph.ok()) {
    std::fprintf(stderr, "%s: %s\n", source.c_str(), graph.diagnostic().str().c_str());
    return false;
  }
  std::ofstream(folder / "onnx" / source.stem().concat(".onnx"), std::ios::binary) << bytes;
  std::ofstream(folder / "graph" / source.stem().concat(".rir")) << rannc::ir::print(*graph);
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s FOLDER TEXT-FILE...\n", arguments[0]);
    return 2;
  }
  const fs::path folder = arguments[1];
  fs::create_directories(folder / "onnx");
  fs::create_directories(folder / "graph");
  bool written = true;
  for (int i = 2; i < count; ++i) written = write_seed(folder, arguments[i]) && written;
  return written ? 0 : 1;
}
