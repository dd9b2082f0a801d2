/// Type of a value: element type, shape, batch layout and known contents, and its stored bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/dim/dim.h"

namespace rannc::ir {

enum class DType : uint8_t { kF16, kBF16, kF32, kF64, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kBool };

/// The spelling of text IR: `f32`, `i64`, `bool` …
std::string_view str(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);
uint32_t byte_size(DType dtype);
/// LibTorch's number of the element type (`c10::ScalarType`), and its inverse.
int torch_number(DType dtype);
std::optional<DType> dtype_of_torch(int number);
bool is_float(DType dtype);
/// The type in which gradients are summed over readers, micro-batches and replicas, and losses over samples. 16-bit
/// terms are summed in float32, because a sum of a thousand of them would lose the next term. Other types keep theirs.
DType sum_dtype(DType dtype);
bool is_integer(DType dtype);  ///< bool is not an integer

/// How a value without a batch axis depends on the samples of its micro-batch.
enum class Mix : uint8_t {
  kNone,
  kPartial,  ///< a sum over samples: the sums of all micro-batches and replicas add up to that of the mini-batch
  kCounted,  ///< computed from the number of samples, which varies within a step
  kMixed,    ///< any other dependence: the value is meaningful for one micro-batch only
};
/// The spelling of text IR: `partial`, `counted`, `mixed`; empty for `kNone`.
std::string_view str(Mix mix);
std::optional<Mix> parse_mix(std::string_view text);

/// Position of the samples in a value: along `axis`, whose extent is outer * batch * inner with the samples in the
/// middle ([T, B*heads, D] has axis 1, outer 1, inner heads). Without an axis the value has no samples, and `mix`
/// specifies how it depends on them.
struct BatchLayout {
  int32_t axis = -1;
  Dim outer = 1;
  Dim inner = 1;
  Mix mix = Mix::kNone;
  bool has_batch() const { return axis >= 0; }
  bool is_partial() const { return mix == Mix::kPartial; }
  bool operator==(const BatchLayout&) const = default;
};

/// Elements of an integer or boolean value of rank 0 or 1 that follow from sizes and constants alone. Booleans are 0
/// and 1.
using Contents = std::vector<Dim>;

/// Bytes of a parameter, buffer or constant: in memory, or a range of a file that is read on demand. Row-major,
/// little-endian. Copies share the bytes.
class TensorData {
 public:
  TensorData() = default;  ///< no bytes, as in a model without weights
  static TensorData in_memory(std::vector<std::byte> bytes);
  /// Memory of somebody else, such as a tensor of a program in Python, whose owner `bytes` keeps alive. It must not
  /// change. Text forms omit it.
  static TensorData shared(std::shared_ptr<const std::byte> bytes, uint64_t size);
  /// `path` as opened by the reader; the range must have been checked against the file's size.
  static TensorData in_file(std::string path, uint64_t offset, uint64_t length);

  bool present() const { return owner_ != nullptr || !path_.empty(); }
  bool in_file() const { return !path_.empty(); }
  bool is_shared() const { return is_shared_; }
  uint64_t size() const { return length_; }
  const std::string& path() const { return path_; }
  uint64_t offset() const { return offset_; }
  /// Requires that the bytes are in memory.
  std::span<const std::byte> bytes() const { return {memory_, length_}; }
  /// The bytes, read from the file if necessary. An error names the file and the range.
  Result<std::vector<std::byte>> read() const;
  bool operator==(const TensorData& other) const;

 private:
  std::shared_ptr<const void> owner_;  // of the memory
  const std::byte* memory_ = nullptr;
  bool is_shared_ = false;
  std::string path_;
  uint64_t offset_ = 0;
  uint64_t length_ = 0;
};

/// Combines two hashes.
inline size_t combine(size_t seed, size_t hash) { return (seed ^ hash) * 0xff51afd7ed558ccdULL + (seed >> 29); }
/// Hash of a list of numbers, for keys of unordered containers. The order counts.
struct HashOfNumbers {
  size_t operator()(const std::vector<uint32_t>& numbers) const {
    size_t hash = numbers.size();
    for (const uint32_t number : numbers) hash = combine(hash, number);
    return hash;
  }
};
/// Hash of a list of dimensions. The order counts.
size_t hash_of(const std::vector<Dim>& dims);

/// Type of a value, as a type rule derives it. `shape` is absent if the rank is unknown.
struct ValueType {
  DType dtype = DType::kF32;
  std::optional<Shape> shape;
  BatchLayout batch;
  std::optional<Contents> contents;
  /// The gradient of a table as the rows that were looked up, each once, sorted; all other rows are zero. Only parts of
  /// parameter gradients have it.
  bool rows = false;
  bool operator==(const ValueType&) const = default;
  size_t hash() const;
};

}  // namespace rannc::ir
