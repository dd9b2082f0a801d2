#include "passes/parameters/internal/tied_values.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace rannc::passes {

namespace {

using Bytes = std::vector<std::byte>;

std::optional<Bytes> part_of(const ir::TensorData& data, uint64_t offset, uint64_t length) {
  if (!data.in_file()) {
    const auto begin = data.bytes().begin() + static_cast<ptrdiff_t>(offset);
    return Bytes(begin, begin + static_cast<ptrdiff_t>(length));
  }
  auto read = ir::TensorData::in_file(data.path(), data.offset() + offset, length).read();
  if (!read.ok()) return std::nullopt;
  return *std::move(read);
}

std::optional<Bytes> all_of(const ir::TensorData& data) {
  if (!data.present()) return std::nullopt;
  return part_of(data, 0, data.size());
}

/// What transposing keeps: element type, sorted extents, first and last element.
using Fingerprint = std::tuple<ir::DType, std::vector<int64_t>, Bytes>;

std::optional<Fingerprint> fingerprint(const ir::ValueType& type, const ir::TensorData& data) {
  const uint64_t size = ir::byte_size(type.dtype);
  if (!data.present() || !type.shape || data.size() < 2 * size) return std::nullopt;
  std::vector<int64_t> extents;
  for (const ir::Dim& dim : *type.shape) {
    if (!dim.is_constant()) return std::nullopt;
    extents.push_back(dim.constant());
  }
  std::sort(extents.begin(), extents.end());
  auto first = part_of(data, 0, size);
  const auto last = part_of(data, data.size() - size, size);
  if (!first || !last) return std::nullopt;
  first->insert(first->end(), last->begin(), last->end());
  return Fingerprint{type.dtype, std::move(extents), *std::move(first)};
}

Bytes transposed(const Bytes& bytes, size_t rows, size_t columns, size_t size) {
  Bytes result(bytes.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      std::memcpy(result.data() + (c * rows + r) * size, bytes.data() + (r * columns + c) * size, size);
    }
  }
  return result;
}

bool uniform(const Bytes& bytes, size_t size) {
  return bytes.size() >= size && std::equal(bytes.begin() + static_cast<ptrdiff_t>(size), bytes.end(), bytes.begin());
}

/// Half, single or double precision; bfloat16 is the upper half of a float.
double number_at(const Bytes& bytes, size_t index, ir::DType dtype) {
  const std::byte* const at = bytes.data() + index * ir::byte_size(dtype);
  const auto as = [at]<class T>(T value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  if (dtype == ir::DType::kF64) return as(double{});
  if (dtype == ir::DType::kF32) return as(float{});
  const uint16_t bits = as(uint16_t{});
  // Below -10,000: sign set and at least the pattern of -10,000, in either 16-bit format.
  const uint16_t bound = dtype == ir::DType::kF16 ? 0xf0e2 : 0xc61c;
  return bits >= bound ? -1e30 : 0;
}

/// A tie of `second` to `first`, whose fingerprints agree.
enum class OneNumber : uint8_t { kIsNoTie, kMayBe };
std::optional<Tie> compare(const ir::Graph& graph, ValueId first, ValueId second, OneNumber one) {
  const auto& a = graph.value(first);
  const auto& b = graph.value(second);
  const auto left = all_of(a.data), right = all_of(b.data);
  const size_t size = ir::byte_size(a.type.dtype);
  if (!left || !right || (one == OneNumber::kIsNoTie && uniform(*left, size))) return std::nullopt;
  if (*a.type.shape == *b.type.shape && *left == *right) return Tie{first, second, false};
  if (a.type.shape->size() != 2 || b.type.shape->size() != 2) return std::nullopt;
  const auto rows = static_cast<size_t>((*a.type.shape)[0].constant());
  const auto columns = static_cast<size_t>((*a.type.shape)[1].constant());
  if (!((*b.type.shape)[0] == (*a.type.shape)[1]) || left->size() != rows * columns * size) return std::nullopt;
  if (transposed(*left, rows, columns, size) == *right) return Tie{first, second, true};
  return std::nullopt;
}

/// A tensor whose bytes are read once where another has its fingerprint, not once for each such pair.
struct Candidate {
  ValueId value;
  std::optional<uint64_t> digest;
};

/// What transposing keeps of all elements: the sum of their hashes.
uint64_t digest_of(const ir::Graph& graph, Candidate& candidate) {
  if (candidate.digest) return *candidate.digest;
  candidate.digest = 0;
  const size_t size = ir::byte_size(graph.type(candidate.value).dtype);
  const auto bytes = all_of(graph.value(candidate.value).data);
  for (size_t at = 0; bytes && at + size <= bytes->size(); at += size) {
    uint64_t element = 0;
    std::memcpy(&element, bytes->data() + at, size);
    *candidate.digest += ir::combine(size, element * 0x9e3779b97f4a7c15ULL);
  }
  return *candidate.digest;
}

}  // namespace

std::vector<Tie> find_ties(const ir::Graph& graph, const std::vector<ValueId>& values) {
  std::map<Fingerprint, std::vector<Candidate>> groups;
  std::vector<Tie> ties;
  for (const ValueId value : values) {
    auto key = fingerprint(graph.type(value), graph.value(value).data);
    if (!key) continue;
    std::vector<Candidate>& group = groups[*std::move(key)];
    Candidate candidate{value, {}};
    bool tied = false;
    for (Candidate& earlier : group) {
      if (digest_of(graph, earlier) != digest_of(graph, candidate)) continue;
      if (const auto tie = compare(graph, earlier.value, value, OneNumber::kIsNoTie)) {
        ties.push_back(*tie);
        tied = true;
        break;
      }
    }
    // One tensor of a repeated number stands for all of them: a fresh model has as many as it has biases.
    if (!tied && !(group.size() == 1 && is_uniform(graph, group[0].value))) group.push_back(candidate);
  }
  return ties;
}

std::optional<Tie> tie_of(const ir::Graph& graph, ValueId first, ValueId second) {
  const auto a = fingerprint(graph.type(first), graph.value(first).data);
  const auto b = fingerprint(graph.type(second), graph.value(second).data);
  return a && b && *a == *b ? compare(graph, first, second, OneNumber::kMayBe) : std::nullopt;
}

bool is_uniform(const ir::Graph& graph, ValueId value) {
  const auto bytes = all_of(graph.value(value).data);
  return bytes && uniform(*bytes, ir::byte_size(graph.type(value).dtype));
}

bool has_mask_element(const ir::ValueType& type, const ir::TensorData& data) {
  const auto bytes = all_of(data);
  if (!bytes) return false;
  const size_t count = bytes->size() / ir::byte_size(type.dtype);
  for (size_t i = 0; i < count; ++i) {
    if (number_at(*bytes, i, type.dtype) <= -1e4) return true;
  }
  return false;
}

}  // namespace rannc::passes
