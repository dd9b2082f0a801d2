#include "ir/graph/type.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

namespace rannc::ir {

namespace {
struct DTypeRow {
  DType dtype;
  std::string_view name;
  uint32_t bytes;
  int torch;  // of c10::ScalarType
};
constexpr std::array<DTypeRow, 13> kDTypes{{{DType::kF16, "f16", 2, 5},
                                            {DType::kBF16, "bf16", 2, 15},
                                            {DType::kF32, "f32", 4, 6},
                                            {DType::kF64, "f64", 8, 7},
                                            {DType::kI8, "i8", 1, 1},
                                            {DType::kI16, "i16", 2, 2},
                                            {DType::kI32, "i32", 4, 3},
                                            {DType::kI64, "i64", 8, 4},
                                            {DType::kU8, "u8", 1, 0},
                                            {DType::kU16, "u16", 2, 27},
                                            {DType::kU32, "u32", 4, 28},
                                            {DType::kU64, "u64", 8, 29},
                                            {DType::kBool, "bool", 1, 11}}};
}  // namespace

std::string_view str(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == text) return row.dtype;
  }
  return std::nullopt;
}

uint32_t byte_size(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].bytes; }
int torch_number(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].torch; }

std::optional<DType> dtype_of_torch(int number) {
  for (const DTypeRow& row : kDTypes) {
    if (row.torch == number) return row.dtype;
  }
  return std::nullopt;
}

DType sum_dtype(DType dtype) { return is_float(dtype) && byte_size(dtype) < 4 ? DType::kF32 : dtype; }
bool is_float(DType dtype) { return dtype <= DType::kF64; }
bool is_integer(DType dtype) { return dtype > DType::kF64 && dtype != DType::kBool; }

std::string_view str(Mix mix) {
  constexpr std::string_view kNames[] = {"", "partial", "counted", "mixed"};
  return kNames[static_cast<size_t>(mix)];
}

std::optional<Mix> parse_mix(std::string_view text) {
  for (const Mix mix : {Mix::kPartial, Mix::kCounted, Mix::kMixed}) {
    if (str(mix) == text) return mix;
  }
  return std::nullopt;
}

size_t hash_of(const std::vector<Dim>& dims) {
  size_t hash = dims.size();
  for (const Dim& dim : dims) hash = combine(hash, dim.hash());
  return hash;
}

size_t ValueType::hash() const {
  size_t hash = static_cast<size_t>(dtype);
  hash = combine(hash, shape ? hash_of(*shape) : ~size_t{0});
  hash = combine(hash, combine(static_cast<size_t>(batch.axis), combine(batch.outer.hash(), batch.inner.hash())));
  hash = combine(hash, static_cast<size_t>(batch.mix));
  return combine(hash, contents ? hash_of(*contents) : ~size_t{0});
}

TensorData TensorData::in_memory(std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  TensorData data;
  data.memory_ = owner->data();
  data.length_ = owner->size();
  data.owner_ = owner;
  return data;
}

TensorData TensorData::shared(std::shared_ptr<const std::byte> bytes, uint64_t size) {
  TensorData data;
  data.memory_ = bytes.get();
  data.length_ = size;
  data.is_shared_ = true;
  data.owner_ = std::move(bytes);
  return data;
}

TensorData TensorData::in_file(std::string path, uint64_t offset, uint64_t length) {
  TensorData data;
  data.path_ = std::move(path);
  data.offset_ = offset;
  data.length_ = length;
  return data;
}

Result<std::vector<std::byte>> TensorData::read() const {
  if (owner_) return std::vector<std::byte>(memory_, memory_ + length_);
  const auto fail = [this](const std::string& what) {
    return error({path_, 0, 0, {}},
                 what + " (bytes " + std::to_string(offset_) + " to " + std::to_string(offset_ + length_) + ")");
  };
  if (path_.empty()) return error("the tensor has no stored bytes: the model was written without weights");
  std::error_code failed;
  const auto status = std::filesystem::status(path_, failed);
  // Opening a file that has become a pipe since it was checked would block.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return fail("is not a regular file");
  }
  std::ifstream file(path_, std::ios::binary);
  if (!file) return fail("cannot be opened to read a tensor");
  file.seekg(0, std::ios::end);
  const auto size = static_cast<uint64_t>(file.tellg());
  if (offset_ > size || length_ > size - offset_) {
    return fail("ends before a tensor does: the file has " + std::to_string(size) + " bytes");
  }
  // A sparse file may be larger than its stored bytes. Reading its holes needs memory all the same.
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto too_large = [&] {
    return fail("has a tensor that does not fit into this machine's memory of " + std::to_string(memory) + " bytes");
  };
  if (length_ > memory) return too_large();
  std::vector<std::byte> bytes;
  try {
    bytes.resize(length_);
  } catch (const std::bad_alloc&) {
    return too_large();
  }
  file.seekg(static_cast<std::streamoff>(offset_));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(length_));
  if (!file) return fail("could not be read");
  return bytes;
}

bool TensorData::operator==(const TensorData& other) const {
  if (length_ != other.length_ || !owner_ != !other.owner_) return false;
  if (owner_) return memory_ == other.memory_ || std::equal(memory_, memory_ + length_, other.memory_);
  return path_ == other.path_ && offset_ == other.offset_;
}

}  // namespace rannc::ir
