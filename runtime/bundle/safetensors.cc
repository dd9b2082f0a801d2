// Reads headers of .safetensors files within strict bounds; writes files atomically.
#include "runtime/bundle/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "ir/base/owned_file.h"
#include "ir/base/repeated_keys.h"
#include "ir/base/replacement.h"

namespace rannc::runtime {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxRank = 32;

constexpr std::array<std::pair<std::string_view, ir::DType>, 13> kDTypes = {{{"F16", ir::DType::kF16},
                                                                             {"BF16", ir::DType::kBF16},
                                                                             {"F32", ir::DType::kF32},
                                                                             {"F64", ir::DType::kF64},
                                                                             {"I8", ir::DType::kI8},
                                                                             {"I16", ir::DType::kI16},
                                                                             {"I32", ir::DType::kI32},
                                                                             {"I64", ir::DType::kI64},
                                                                             {"U8", ir::DType::kU8},
                                                                             {"U16", ir::DType::kU16},
                                                                             {"U32", ir::DType::kU32},
                                                                             {"U64", ir::DType::kU64},
                                                                             {"BOOL", ir::DType::kBool}}};

std::optional<ir::DType> dtype_of(std::string_view text) {
  for (const auto& [name, dtype] : kDTypes) {
    if (name == text) return dtype;
  }
  return std::nullopt;
}

std::string_view name_of(ir::DType dtype) {
  for (const auto& [name, known] : kDTypes) {
    if (known == dtype) return name;
  }
  RANNC_CHECK(false) << "every element type has a name";
  return {};
}

Diagnostic at(const std::string& path, const std::string& tensor, std::string message) {
  return error(Location{.file = path, .node = tensor}, std::move(message));
}

std::optional<uint64_t> unsigned_of(const Json& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  return json.get<uint64_t>();
}

/// Parser of one tensor of the header. `data` is the offset of the data section, `size` its number of bytes.
class EntryReader {
 public:
  EntryReader(const std::string& path, const std::string& name, uint64_t data, uint64_t size)
      : path_(path), name_(name), data_(data), size_(size) {}

  Result<SafetensorsFile::Entry> read(const Json& json) {
    SafetensorsFile::Entry entry{.name = name_};
    if (!json.is_object()) return fail("expected an object with dtype, shape and data_offsets");
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!json.contains(field)) return fail(fmt::format("field `{}` is missing", field));
    }
    const Json& dtype = json["dtype"];
    const auto known = dtype.is_string() ? dtype_of(dtype.get_ref<const std::string&>()) : std::nullopt;
    if (!known) return fail(fmt::format("unknown dtype {}", excerpt(dtype)));
    entry.spec.dtype = *known;
    RANNC_ASSIGN(entry.spec.shape, shape(json["shape"]));
    RANNC_ASSIGN(const uint64_t bytes, bytes_of(entry.spec));
    return with_range(std::move(entry), json["data_offsets"], bytes);
  }

 private:
  Diagnostic fail(std::string message) const { return at(path_, name_, std::move(message)); }
  static std::string excerpt(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60);
  }

  Result<std::vector<int64_t>> shape(const Json& json) {
    if (!json.is_array() || json.size() > kMaxRank) {
      return fail(fmt::format("shape must be a list of at most {} sizes, not {}", kMaxRank, excerpt(json)));
    }
    std::vector<int64_t> shape;
    for (const Json& extent : json) {
      const auto value = unsigned_of(extent);
      if (!value || *value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return fail(fmt::format("size {} in shape is not a non-negative 63-bit integer", excerpt(extent)));
      }
      shape.push_back(static_cast<int64_t>(*value));
    }
    return shape;
  }

  Result<uint64_t> bytes_of(const TensorSpec& spec) {
    uint64_t total = ir::byte_size(spec.dtype);
    for (int64_t extent : spec.shape) {
      if (__builtin_mul_overflow(total, static_cast<uint64_t>(extent), &total)) {
        return fail("shape is too large: its bytes overflow 64 bits");
      }
    }
    return total;
  }

  Result<SafetensorsFile::Entry> with_range(SafetensorsFile::Entry entry, const Json& json, uint64_t bytes) {
    const bool pair = json.is_array() && json.size() == 2;
    const auto begin = pair ? unsigned_of(json[0]) : std::nullopt;
    const auto end = pair ? unsigned_of(json[1]) : std::nullopt;
    if (!begin || !end)
      return fail(fmt::format("data_offsets must be two non-negative integers, not {}", excerpt(json)));
    if (*begin > *end || *end > size_) {
      return fail(fmt::format("data_offsets [{}, {}] leave the file's {} bytes of data", *begin, *end, size_));
    }
    if (*end - *begin != bytes) {
      return fail(fmt::format("data_offsets hold {} bytes, but dtype and shape need {}", *end - *begin, bytes));
    }
    entry.offset = data_ + *begin;
    return entry;
  }

  const std::string& path_;
  const std::string& name_;
  uint64_t data_, size_;
};

Result<Json> parse_header(const std::string& path, const std::string& text) {
  RepeatedKeys keys;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    keys.see(event, parsed);
    return keys.depth() <= 4;  // deeper nesting is dropped and reported as missing later
  };
  Json header = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (!keys.first().empty()) return at(path, keys.first().back(), "name occurs twice in the header");
  if (!header.is_object()) return at(path, {}, "header is not a JSON object");
  return header;
}

Result<void> check_layout(const std::string& path, std::vector<SafetensorsFile::Entry> entries, uint64_t data,
                          uint64_t end) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.spec.bytes()) < std::pair(b.offset, b.spec.bytes());
  });
  uint64_t expected = data;
  for (const auto& entry : entries) {
    if (entry.offset < expected) return at(path, entry.name, "bytes overlap those of another tensor");
    if (entry.offset > expected) {
      return at(path, entry.name,
                fmt::format("{} bytes before this tensor belong to no tensor", entry.offset - expected));
    }
    expected += entry.spec.bytes();
  }
  if (expected != end) return at(path, {}, fmt::format("{} bytes at the end belong to no tensor", end - expected));
  return {};
}

Result<std::string> read_header_text(std::ifstream& in, const std::string& path, uint64_t file_size) {
  if (file_size < 8)
    return at(path, {}, fmt::format("file has {} bytes; the header's length alone takes 8", file_size));
  std::array<unsigned char, 8> raw{};
  in.read(reinterpret_cast<char*>(raw.data()), 8);
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | raw[static_cast<size_t>(i)];
  if (length > kMaxHeader)
    return at(path, {}, fmt::format("header of {} bytes; at most {} allowed", length, kMaxHeader));
  if (length > file_size - 8) {
    return at(path, {}, fmt::format("header of {} bytes in a file of {}", length, file_size));
  }
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  if (!in) return at(path, {}, "cannot read the header");
  return text;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return at(path, {}, "no such file");
  const uint64_t file_size = std::filesystem::file_size(path, failed);
  std::ifstream in(path, std::ios::binary);
  if (failed || !in) return at(path, {}, std::string("cannot open: ") + std::strerror(errno));
  RANNC_ASSIGN(const std::string text, read_header_text(in, path, file_size));
  RANNC_ASSIGN(const Json header, parse_header(path, text));
  SafetensorsFile file;
  file.path_ = path;
  const uint64_t data = 8 + text.size();
  for (const auto& [name, json] : header.items()) {
    if (name != "__metadata__") {
      RANNC_ASSIGN(Entry entry, EntryReader(path, name, data, file_size - data).read(json));
      file.entries_.push_back(std::move(entry));
      continue;
    }
    if (!json.is_object()) return at(path, name, "expected an object of strings");
    for (const auto& [key, text_value] : json.items()) {
      if (!text_value.is_string()) return at(path, name, fmt::format("value of `{}` is not a string", key));
      file.metadata_[key] = text_value.get<std::string>();
    }
  }
  RANNC_TRY(check_layout(path, file.entries_, data, file_size));
  std::sort(file.entries_.begin(), file.entries_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return file;
}

const SafetensorsFile::Entry* SafetensorsFile::find(std::string_view name) const {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const Entry& entry, std::string_view wanted) { return entry.name < wanted; });
  return it != entries_.end() && it->name == name ? &*it : nullptr;
}

ir::TensorData SafetensorsFile::data(const Entry& entry) const {
  return ir::TensorData::in_file(path_, entry.offset, entry.spec.bytes());
}

namespace {

/// A file that is flushed to disk before it is renamed to its path.
class FlushedFile {
 public:
  explicit FlushedFile(const std::string& path) : path_(path), replacement_(path) {}
  Result<void> open() {
    file_ = OwnedFile(::open(replacement_.temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    return file_.valid() ? Result<void>() : failed("create");
  }
  Result<void> write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return failed("write");
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
    return {};
  }
  Result<void> commit() {
    if (::fsync(file_.get()) != 0) return failed("flush");
    return replacement_.commit();
  }

 private:
  Result<void> failed(const char* what) const {
    return at(path_, {}, fmt::format("cannot {}: {}", what, std::strerror(errno)));
  }
  std::string path_;
  Replacement replacement_;
  OwnedFile file_;
};

// The header is JSON, in which one name is reserved.
Result<void> names_fit(const std::string& path, const std::vector<SafetensorsTensor>& tensors) {
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.name == "__metadata__") return at(path, tensor.name, "this name is reserved by the format");
    try {
      static_cast<void>(nlohmann::json(tensor.name).dump());
    } catch (const nlohmann::json::exception&) {
      return at(path, tensor.name, "the name is not UTF-8, which the format requires");
    }
  }
  return {};
}

std::string header_text(const std::vector<SafetensorsTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const uint64_t end = offset + tensor.spec.bytes();
    header[tensor.name] = {
        {"dtype", name_of(tensor.spec.dtype)}, {"shape", tensor.spec.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Result<void> write_safetensors(const std::string& path, std::vector<SafetensorsTensor> tensors,
                               const std::map<std::string, std::string>& metadata,
                               const std::function<void()>& before_flush) {
  // Writing wide elements first aligns every tensor to its element size without gaps, which the format forbids.
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    const uint32_t wide_a = ir::byte_size(a.spec.dtype), wide_b = ir::byte_size(b.spec.dtype);
    return wide_a != wide_b ? wide_a > wide_b : a.name < b.name;
  });
  RANNC_TRY(names_fit(path, tensors));
  const std::string header = header_text(tensors, metadata);
  std::array<std::byte, 8> length{};
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  FlushedFile file(path);
  RANNC_TRY(file.open());
  RANNC_TRY(file.write(length));
  RANNC_TRY(file.write(std::as_bytes(std::span(header))));
  for (const SafetensorsTensor& tensor : tensors) {
    RANNC_ASSIGN(const std::span<const std::byte> bytes, tensor.bytes());
    if (bytes.size() != tensor.spec.bytes()) {
      return at(path, tensor.name,
                fmt::format("has {} bytes, but dtype and shape need {}", bytes.size(), tensor.spec.bytes()));
    }
    RANNC_TRY(file.write(bytes));
  }
  if (before_flush) before_flush();
  return file.commit();
}

}  // namespace rannc::runtime
