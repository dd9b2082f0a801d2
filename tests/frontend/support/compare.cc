#include "tests/frontend/support/compare.h"

#include <algorithm>
#include <cmath>

namespace rannc::test {

namespace {

constexpr int64_t kMost = 1 << 20;

double relative_tolerance(ir::DType dtype) {
  if (dtype == ir::DType::kBF16) return 2e-2;
  return dtype == ir::DType::kF16 ? 4e-3 : 1e-3;
}

std::string at(size_t index, const std::string& ours, const std::string& expected) {
  return "element " + std::to_string(index) + " is " + ours + " instead of " + expected;
}

std::string integer_difference(const ir::StoredTensor& ours, const ir::StoredTensor& expected) {
  const auto a = ir::decode_integers(ours.type, ours.data, kMost);
  const auto b = ir::decode_integers(expected.type, expected.data, kMost);
  if (!a.ok() || !b.ok()) return "elements that cannot be read";
  for (size_t i = 0; i < a->size(); ++i) {
    if ((*a)[i] != (*b)[i]) return at(i, std::to_string((*a)[i]), std::to_string((*b)[i]));
  }
  return "";
}

std::string float_difference(const ir::StoredTensor& ours, const ir::StoredTensor& expected) {
  const auto a = ir::decode_numbers(ours.type, ours.data, kMost);
  const auto b = ir::decode_numbers(expected.type, expected.data, kMost);
  if (!a.ok() || !b.ok()) return "elements that cannot be read";
  const double relative = relative_tolerance(expected.type.dtype);
  double largest = 0;
  for (const double y : *b) largest = std::max(largest, std::isfinite(y) ? std::abs(y) : 0);
  const double cancelled = 1e-7 * largest;  // a rounding in single precision of terms as large as that
  for (size_t i = 0; i < a->size(); ++i) {
    const double x = (*a)[i], y = (*b)[i];
    if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
    const bool near =
        std::isfinite(x) && std::isfinite(y) && std::abs(x - y) <= 1e-5 + cancelled + relative * std::abs(y);
    if (!near) return at(i, std::to_string(x), std::to_string(y));
  }
  return "";
}

}  // namespace

std::string difference(const ir::StoredTensor& ours, const ir::StoredTensor& expected) {
  const auto form = [](const ir::ValueType& type) { return std::string(ir::str(type.dtype)) + ir::str(*type.shape); };
  if (form(ours.type) != form(expected.type)) return form(ours.type) + " instead of " + form(expected.type);
  return ir::is_float(ours.type.dtype) ? float_difference(ours, expected) : integer_difference(ours, expected);
}

}  // namespace rannc::test
