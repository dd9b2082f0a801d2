#include "frontend/onnx/internal/file/external_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace rannc::frontend {

namespace fs = std::filesystem;

namespace {

Result<uint64_t> unsigned_integer(std::string_view key, std::string_view text, const Location& where) {
  uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    return error(where, fmt::format("external data: {} '{}' is no non-negative 64-bit integer", key, text));
  }
  return value;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

bool has_external_data(const ONNX_NAMESPACE::NodeProto& node) {
  return std::any_of(
      node.attribute().begin(), node.attribute().end(), [](const ONNX_NAMESPACE::AttributeProto& attribute) {
        return attribute.has_t() && attribute.t().data_location() == ONNX_NAMESPACE::TensorProto::EXTERNAL;
      });
}

ONNX_NAMESPACE::NodeProto without_external_data(ONNX_NAMESPACE::NodeProto node) {
  for (ONNX_NAMESPACE::AttributeProto& attribute : *node.mutable_attribute()) {
    if (!attribute.has_t() || attribute.t().data_location() != ONNX_NAMESPACE::TensorProto::EXTERNAL) continue;
    ONNX_NAMESPACE::TensorProto& tensor = *attribute.mutable_t();
    tensor.clear_data_location();
    tensor.clear_external_data();
    tensor.clear_dims();
    tensor.add_dims(0);
  }
  return node;
}

ExternalData::ExternalData(const fs::path& model, bool may_be_missing)
    : folder_(model.has_parent_path() ? model.parent_path() : fs::path(".")), may_be_missing_(may_be_missing) {}

Result<const ExternalData::File*> ExternalData::find(const std::string& location, const Location& where) {
  if (const auto found = files_.find(location); found != files_.end()) return &found->second;
  const auto refuse = [&](std::string_view why) {
    return error(where, fmt::format("external data in '{}': {}", location, why));
  };
  const fs::path relative(location);
  if (location.empty()) return refuse("no file is named");
  if (location.find('\0') != std::string::npos) return refuse("the path has a zero byte");
  if (relative.is_absolute()) return refuse("the path must be relative to the model's folder");
  if (std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end()) {
    return refuse("the path must not contain '..'");
  }
  std::error_code failed;
  const fs::path folder = fs::canonical(folder_, failed);
  if (failed) return refuse(fmt::format("the model's folder: {}", failed.message()));
  const fs::path path = fs::canonical(folder / relative, failed);
  if (may_be_missing_ && failed == std::errc::no_such_file_or_directory) {
    return &files_.emplace(location, File{{}, 0, true}).first->second;
  }
  if (failed) return refuse(failed.message());
  if (!is_inside(path, folder)) return refuse("a symbolic link leads out of the model's folder");
  if (!fs::is_regular_file(path, failed)) return refuse("not a regular file");
  if (const auto names = fs::hard_link_count(path, failed); !failed && names > 1) {
    return refuse(fmt::format(
        "the file has {} names (hard links), and another may be outside the model's folder; use a copy of the file",
        names));
  }
  const auto size = fs::file_size(path, failed);
  if (failed) return refuse(failed.message());
  // Resolve links only once, because their later targets would be unchecked.
  const fs::path found = folder_ / path.lexically_relative(folder);
  return &files_.emplace(location, File{found.lexically_normal().string(), size, false}).first->second;
}

Result<ir::TensorData> ExternalData::locate(const ONNX_NAMESPACE::TensorProto& tensor, uint64_t bytes,
                                            const Location& where) {
  std::string location;
  uint64_t offset = 0;
  uint64_t length = bytes;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      RANNC_ASSIGN(offset, unsigned_integer("offset", entry.value(), where));
    }
    if (entry.key() == "length") {
      RANNC_ASSIGN(length, unsigned_integer("length", entry.value(), where));
    }
  }
  RANNC_ASSIGN(const File* const found, find(location, where));
  const File& file = *found;
  if (length != bytes) {
    return error(where, fmt::format("external data in '{}': length {}, but type and shape need {} bytes", location,
                                    length, bytes));
  }
  if (file.missing) return ir::TensorData();
  if (offset > file.size || length > file.size - offset) {
    return error(where, fmt::format("external data in '{}': {} bytes at offset {}, but the file has {}", location,
                                    length, offset, file.size));
  }
  return ir::TensorData::in_file(file.path, offset, length);
}

}  // namespace rannc::frontend
