// The .npy format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "runtime/data/internal/npy_folder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <regex>
#include <vector>

#include "ir/base/mapped_file.h"
#include "runtime/data/internal/mapped_batch.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostHeader = 65536;

std::optional<ir::DType> dtype_of(const std::string& code) {
  static const std::map<std::string, ir::DType> kTypes = {
      {"f2", ir::DType::kF16}, {"f4", ir::DType::kF32}, {"f8", ir::DType::kF64}, {"i1", ir::DType::kI8},
      {"i2", ir::DType::kI16}, {"i4", ir::DType::kI32}, {"i8", ir::DType::kI64}, {"u1", ir::DType::kU8},
      {"u2", ir::DType::kU16}, {"u4", ir::DType::kU32}, {"u8", ir::DType::kU64}, {"b1", ir::DType::kBool}};
  const auto found = kTypes.find(code);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

/// Returns the dictionary after the magic number, the version and the length of the dictionary.
std::optional<std::string_view> header_of(std::string_view bytes) {
  if (bytes.size() < 12 || !bytes.starts_with(kMagic)) return std::nullopt;
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<unsigned char>(bytes[at])); };
  const bool small = byte(6) == 1;
  if (!small && byte(6) > 3) return std::nullopt;
  const size_t begin = small ? 10 : 12;
  const size_t length = small ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > kMostHeader || begin + length > bytes.size()) return std::nullopt;
  return bytes.substr(begin, length);
}

/// Reads `3, 4` or `3,`.
std::optional<std::vector<int64_t>> sizes_of(const std::string& text) {
  std::vector<int64_t> sizes;
  const char *at = text.data(), *const end = at + text.size();
  while (at != end) {
    const auto read = std::from_chars(at, end, sizes.emplace_back());
    if (read.ec != std::errc()) return std::nullopt;
    at = std::find_if(read.ptr, end, [](char c) { return c != ',' && c != ' '; });
  }
  return sizes;
}

/// Returns the bytes of a tensor, or nothing if they overflow 64 bits.
std::optional<uint64_t> bytes_of(const TensorSpec& spec) {
  uint64_t total = ir::byte_size(spec.dtype);
  for (const int64_t extent : spec.shape) {
    if (__builtin_mul_overflow(total, static_cast<uint64_t>(extent), &total)) return std::nullopt;
  }
  return total;
}

Result<void> map_npy(const std::string& path, const std::string& name, MappedBatch& batch) {
  RANNC_ASSIGN(MappedFile opened, MappedFile::open(path));
  const auto file = std::make_shared<const MappedFile>(std::move(opened));
  const Location where{path, 0, 0, {}};
  RANNC_ASSIGN(const NpyHeader header, read_npy_header(file->bytes(), where));
  batch.tensors.emplace(name, to_value(mapped_tensor(file, header.spec, header.offset)));
  batch.files.push_back(file);
  return {};
}

}  // namespace

Result<NpyHeader> read_npy_header(std::string_view bytes, const Location& where) {
  const auto header = header_of(bytes);
  static const std::regex kForm(
      R"(\{'descr': '([<>|=])(\w+)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \}\s*)");
  std::cmatch found;
  if (!header || !std::regex_match(header->begin(), header->end(), found, kForm))
    return error(where, "is not a .npy file as NumPy writes it");
  TensorSpec spec;
  const auto dtype = dtype_of(found[2]);
  if (!dtype || found[1] == ">")
    return error(where, fmt::format("has elements '{}{}', expected little-endian numbers", found.str(1), found.str(2)));
  spec.dtype = *dtype;
  const auto sizes = sizes_of(found[4]);
  if (!sizes) return error(where, fmt::format("has the shape ({}), which has too large sizes", found.str(4)));
  spec.shape = *sizes;
  if (found[3] == "True" && spec.shape.size() > 1)
    return error(where, "is column-major (fortran_order), expected row-major data");
  const auto offset = static_cast<uint64_t>(header->end() - bytes.begin());
  const uint64_t size = bytes.size() - offset;
  const auto needed = bytes_of(spec);
  if (needed != size) {
    return error(where, fmt::format("has {} bytes of data, but its type and shape need {}", size,
                                    needed ? fmt::format("{}", *needed) : "more than 64 bits can count"));
  }
  return NpyHeader{std::move(spec), offset};
}

bool is_npy_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(fs::path(path) / "x", ignored) || fs::is_directory(fs::path(path) / "labels", ignored);
}

Result<MappedBatch> map_npy_folder(const std::string& path) {
  MappedBatch batch;
  for (const char* kind : {"x", "labels"}) {
    std::error_code failed;
    if (!fs::is_directory(fs::path(path) / kind, failed)) continue;
    fs::recursive_directory_iterator entry(fs::path(path) / kind, failed);
    for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
      const fs::path& file = entry->path();
      if (file.extension() != ".npy" || !entry->is_regular_file()) continue;
      fs::path name = fs::relative(file, path).replace_extension();
      if (kind[0] == 'x') name = name.lexically_relative("x");
      RANNC_TRY(map_npy(file.string(), name.generic_string(), batch));
    }
    if (failed) return error({path, 0, 0, {}}, "cannot be listed: " + failed.message());
  }
  return batch;
}

}  // namespace rannc::runtime
