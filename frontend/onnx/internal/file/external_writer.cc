#include "frontend/onnx/internal/file/external_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace rannc::frontend {

using ONNX_NAMESPACE::TensorProto;

namespace {
constexpr uint64_t kAlignment = 64;  // of tensors in the file, in bytes
}

Result<uint64_t> ExternalWriter::add(const std::vector<std::byte>& bytes) {
  if (!stream_.is_open()) stream_.open(replacement_.temporary(), std::ios::binary | std::ios::trunc);
  const std::string gap((kAlignment - size_ % kAlignment) % kAlignment, '\0');
  stream_.write(gap.data(), static_cast<std::streamsize>(gap.size()));
  stream_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream_) return failed();
  const uint64_t begin = size_ + gap.size();
  size_ = begin + bytes.size();
  return begin;
}

Result<void> ExternalWriter::store(const std::vector<std::byte>& bytes, TensorProto& tensor) {
  clear_data(tensor);
  tensor.set_data_location(TensorProto::EXTERNAL);
  RANNC_ASSIGN(const uint64_t offset, add(bytes));
  const std::pair<const char*, std::string> entries[] = {{"location", std::filesystem::path(path_).filename().string()},
                                                         {"offset", std::to_string(offset)},
                                                         {"length", std::to_string(bytes.size())}};
  for (const auto& [key, value] : entries) {
    auto* const entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  return {};
}

Result<bool> ExternalWriter::commit() {
  if (!stream_.is_open()) return false;
  stream_.close();
  if (!stream_) return failed();
  RANNC_TRY(replacement_.commit());
  return true;
}

Diagnostic ExternalWriter::failed() const {
  return error({path_, 0, 0, {}}, fmt::format("cannot be written: {}", std::strerror(errno)));
}

bool is_external(const TensorProto& tensor) { return tensor.data_location() == TensorProto::EXTERNAL; }

void clear_data(TensorProto& tensor) {
  tensor.clear_float_data();
  tensor.clear_double_data();
  tensor.clear_int32_data();
  tensor.clear_int64_data();
  tensor.clear_uint64_data();
  tensor.clear_external_data();
  tensor.clear_raw_data();
}

}  // namespace rannc::frontend
