// Contents of integer and boolean values that follow from sizes and constants alone.
#include "ir/ops/rules.h"

namespace rannc::ir::ops {

void set_contents(ValueType& type, std::optional<Contents> contents) {
  if (!contents || is_float(type.dtype) || !type.shape || type.shape->size() > 1) return;
  const Dim count = element_count(*type.shape);
  if (!(count == Dim(static_cast<int64_t>(contents->size()))) || contents->size() > static_cast<size_t>(kMaxContents)) {
    return;
  }
  type.contents = std::move(contents);
}

std::optional<Contents> map_contents(const ValueType& a, const ValueType& b,
                                     std::optional<Dim> (*f)(const Dim&, const Dim&)) {
  if (!a.contents || !b.contents) return std::nullopt;
  const size_t n = a.contents->size(), m = b.contents->size();
  if (n != m && n != 1 && m != 1) return std::nullopt;
  Contents out;
  for (size_t i = 0; i < (n == 1 ? m : n); ++i) {
    const auto value = f((*a.contents)[n == 1 ? 0 : i], (*b.contents)[m == 1 ? 0 : i]);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::optional<Contents> map_contents(const ValueType& a, std::optional<Dim> (*f)(const Dim&)) {
  if (!a.contents) return std::nullopt;
  Contents out;
  for (const Dim& x : *a.contents) {
    const auto value = f(x);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::optional<std::vector<int64_t>> constants(const Contents& contents) {
  std::vector<int64_t> out;
  for (const Dim& dim : contents) {
    if (!dim.is_constant()) return std::nullopt;
    out.push_back(dim.constant());
  }
  return out;
}

}  // namespace rannc::ir::ops
