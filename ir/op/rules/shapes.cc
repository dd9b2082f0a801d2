// Helpers of type and work rules: shapes, element types, memory traffic.
#include <algorithm>
#include <tuple>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

std::string_view short_name(const OpInfo& op) {
  std::string_view name = op.name;
  return name.starts_with("core.") ? name.substr(5) : name;
}

ValueType make_type(DType dtype, Shape shape, BatchLayout batch) {
  ValueType type;
  type.dtype = dtype;
  type.shape = std::move(shape);
  type.batch = std::move(batch);
  return type;
}

Result<Shape> shape_of(const OpCall& call, size_t operand) {
  if (!call.has(operand)) return error("operand " + std::to_string(operand) + " is missing");
  if (!call.in(operand).shape) return error("the rank of operand " + std::to_string(operand) + " is unknown");
  return *call.in(operand).shape;
}

size_t counted_axis(const OpAttributes& attributes, size_t rank) {
  const int64_t given = attributes.integer("axis");
  return static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(rank) : given);
}

Result<int64_t> checked_axis(int64_t axis, size_t rank) {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) {
    return error("axis " + std::to_string(axis) + " is outside of rank " + std::to_string(rank));
  }
  return axis < 0 ? axis + n : axis;
}

Result<std::vector<int64_t>> checked_axes(std::vector<int64_t> axes, size_t rank) {
  for (int64_t& axis : axes) {
    RANNC_ASSIGN(axis, checked_axis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  const auto twice = std::adjacent_find(axes.begin(), axes.end());
  if (twice != axes.end()) return error("axis " + std::to_string(*twice) + " is named twice");
  return axes;
}

bool taken_for_equal(const OpCall& call, const Dim& a, const Dim& b) {
  if (const auto certain = certainly_equal(a, b)) return *certain;
  Equality equality = reduced_equality(a, b);
  const bool of_samples =
      !call.batch_symbol.empty() && (equality.first.uses(call.batch_symbol) || equality.second.uses(call.batch_symbol));
  const bool two_names = equality.first.is_symbol() && equality.second.is_symbol();
  if (call.assumed == nullptr || of_samples || two_names) return false;
  call.assumed->push_back(std::move(equality));
  return true;
}

bool taken_for_equal(const OpCall& call, const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Dim& x, const Dim& y) { return taken_for_equal(call, x, y); });
}

bool taken_for_not_negative(const OpCall& call, const Dim& size) {
  const Bounds bounds = bounds_of(size);
  if (bounds.low && *bounds.low >= 0) return true;
  if (bounds.high && *bounds.high < 0) return false;
  return taken_for_equal(call, max(size, Dim(0)), size);
}

Result<std::vector<int64_t>> reduced_axes(const OpAttributes& attributes, size_t rank) {
  if (attributes.has("axes")) return checked_axes(attributes.integers("axes"), rank);
  std::vector<int64_t> all(rank);
  for (size_t i = 0; i < rank; ++i) all[i] = static_cast<int64_t>(i);
  return all;
}

ValueType sum_over_samples(const OpCall& call, DType dtype, Shape shape) {
  const bool samples = std::any_of(call.inputs.begin(), call.inputs.end(),
                                   [](const ValueType* input) { return input && input->batch.has_batch(); });
  return make_type(dtype, std::move(shape), {.mix = samples ? Mix::kPartial : Mix::kNone});
}

Result<Types> gradient_type(const OpCall& call, size_t operand) {
  RANNC_ASSIGN(Shape shape, shape_of(call, operand));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, operand}));
  const BatchLayout& layout = call.in(operand).batch;
  if (!layout.has_batch()) return Types{sum_over_samples(call, dtype, std::move(shape))};
  return Types{make_type(dtype, std::move(shape), layout)};
}

Result<void> require_sizes(const OpCall& call, const Shape& shape) {
  for (const Dim& size : shape) {
    if (!taken_for_not_negative(call, size)) {
      return error("size " + size.str() + " of " + str(shape) + (size.is_constant() ? " is" : " may be") + " negative");
    }
  }
  return {};
}

namespace {

bool computed(const Dim& dim) { return dim.str().find('(') != std::string::npos; }

// The simpler of two sizes that are assumed to be equal.
const Dim& simpler(const Dim& a, const Dim& b) {
  const auto effort = [](const Dim& dim) {
    return std::tuple(!dim.is_constant(), computed(dim), dim.str().size(), dim.str());
  };
  return effort(b) < effort(a) ? b : a;
}

}  // namespace

Result<Shape> broadcast(const OpCall& call, const Shape& a, const Shape& b) {
  if (a == b) return a;
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Dim& x = longer[i + offset];
    const Dim& y = shorter[i];
    if (y == Dim(1) || x == y) continue;
    if (x == Dim(1)) {
      out[i + offset] = y;
    } else if (taken_for_equal(call, x, y)) {
      out[i + offset] = simpler(x, y);
    } else {
      return error("shapes " + str(a) + " and " + str(b) + " do not broadcast: " + x.str() + " against " + y.str());
    }
  }
  return out;
}

Result<DType> common_dtype(const OpCall& call, std::initializer_list<size_t> operands) {
  std::optional<DType> common;
  size_t first = 0;
  for (const size_t operand : operands) {
    if (!call.has(operand)) continue;
    const DType dtype = call.in(operand).dtype;
    if (common && *common != dtype) {
      return error("operand " + std::to_string(first) + " is " + std::string(str(*common)) + ", operand " +
                   std::to_string(operand) + " is " + std::string(str(dtype)) + ": they must be equal");
    }
    if (!common) first = operand;
    common = dtype;
  }
  RANNC_CHECK(common.has_value()) << call.op.name << " has none of the operands";
  return *common;
}

bool has_list_argument(const OpCall& call, std::string_view name, size_t operand) {
  return call.attributes.has(name) || call.has(operand);
}

Result<Shape> list_argument(const OpCall& call, std::string_view name, size_t operand) {
  if (const Shape* list = call.attributes.list(name)) return *list;
  if (!call.has(operand)) return error("`" + std::string(name) + "` is given neither as attribute nor as operand");
  if (!call.in(operand).contents) {
    return error("the contents of operand " + std::to_string(operand) + " (`" + std::string(name) +
                 "`) do not follow from sizes and constants");
  }
  return *call.in(operand).contents;
}

Dim traffic(const OpCall& call, std::span<const ValueType> outputs) {
  Dim bytes = 0;
  for (const ValueType* type : call.inputs) {
    if (type) bytes = bytes + byte_count(*type);
  }
  for (const ValueType& type : outputs) bytes = bytes + byte_count(type);
  return bytes;
}

Work work(Dim flops, const OpCall& call, std::span<const ValueType> outputs) {
  return {std::move(flops), traffic(call, outputs)};
}

Work view_work(const OpCall&, std::span<const ValueType>) { return {}; }

}  // namespace rannc::ir::ops
