#include "frontend/onnx/import.h"

#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include <limits>

#include "frontend/onnx/internal/data_ranges.h"
#include "frontend/onnx/internal/importer.h"
#include "frontend/onnx/internal/mapped_file.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

Result<ir::Graph> import_onnx(const std::filesystem::path& path, const ImportOptions& options) {
  RANNC_ASSIGN(const MappedFile file, MappedFile::open(path, options.max_file_bytes));
  return import_onnx_bytes(file.bytes(), path, options);
}

Result<ir::Graph> import_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                    const ImportOptions& options) {
  const std::string file = path.string();
  if (bytes.size() > options.max_file_bytes) {
    return error(Location{file},
                 fmt::format("the model has {} bytes, at most {} are read", bytes.size(), options.max_file_bytes));
  }
  RANNC_ASSIGN(const std::optional<std::string> changed, note_data_ranges(bytes, file));
  const std::string_view skeleton = changed ? std::string_view(*changed) : bytes;
  google::protobuf::Arena arena;  // millions of small messages are then freed at once
  auto& model = *google::protobuf::Arena::CreateMessage<ONNX_NAMESPACE::ModelProto>(&arena);
  if (skeleton.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(skeleton.data(), static_cast<int>(skeleton.size()))) {
    return error(Location{file}, "not an ONNX model: Protocol Buffers cannot parse it");
  }
  return import_model(model, file, options);
}

}  // namespace rannc::frontend
