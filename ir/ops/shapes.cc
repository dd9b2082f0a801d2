// Shapes, dtypes and traffic, as the type and work rules of all families need them.
#include <algorithm>

#include "ir/ops/rules.h"

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

namespace {

std::vector<Bindings> probes(const std::set<std::string>& symbols) {
  constexpr int64_t kLarge = 1000003;
  std::vector<Bindings> found(4);
  for (const std::string& symbol : symbols) {
    found[0][symbol] = 1;
    found[1][symbol] = 2;
    found[2][symbol] = 7;
    found[3][symbol] = kLarge;
  }
  for (const std::string& symbol : symbols) {
    for (const int64_t base : {int64_t{1}, kLarge}) {
      Bindings probe;
      for (const std::string& other : symbols) probe[other] = base;
      probe[symbol] = base == 1 ? kLarge : 1;
      found.push_back(std::move(probe));
    }
  }
  return found;
}

int sign_of(int64_t value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

}  // namespace

namespace {

// Whether `holds` is true of the signs at all probes.
template <class F>
bool at_every_probe(const Dim& dim, F&& holds) {
  if (dim.is_constant()) return holds(sign_of(dim.constant()));
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  for (const Bindings& probe : probes(symbols)) {
    const auto value = dim.evaluate(probe);
    if (!value || !holds(sign_of(*value))) return false;
  }
  return true;
}

}  // namespace

std::optional<int> sign(const Dim& dim) {
  if (dim.is_constant()) return sign_of(dim.constant());
  if (dim.is_symbol()) return 1;
  std::optional<int> common;
  const bool same = at_every_probe(dim, [&](int found) {
    if (!common) common = found;
    return *common == found;
  });
  return same ? common : std::nullopt;
}

bool never_positive(const Dim& dim) {
  return at_every_probe(dim, [](int found) { return found <= 0; });
}

bool never_negative(const Dim& dim) {
  return at_every_probe(dim, [](int found) { return found >= 0; });
}

std::optional<bool> equal_sizes(const Dim& a, const Dim& b) {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return false;
  const auto difference = sign(a - b);
  if (!difference) return std::nullopt;
  return *difference == 0;
}

namespace {

bool computed(const Dim& dim) { return dim.str().find('(') != std::string::npos; }

// Two sizes of which one is computed, equal while all symbols are small.
bool may_be_equal(const Dim& a, const Dim& b) {
  if (a.is_constant() || b.is_constant() || computed(a) == computed(b)) return false;
  const Dim difference = a - b;
  std::set<std::string> symbols;
  difference.collect_symbols(symbols);
  for (const int64_t size : {1, 2, 3}) {
    Bindings small;
    for (const std::string& symbol : symbols) small[symbol] = size;
    if (difference.evaluate(small) != 0) return false;
  }
  return true;
}

}  // namespace

Result<Shape> broadcast(const Shape& a, const Shape& b) {
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
    } else if (may_be_equal(x, y)) {
      out[i + offset] = computed(x) ? y : x;
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
  auto add = [&bytes](const ValueType& type) {
    if (type.shape) bytes = bytes + element_count(*type.shape) * Dim(byte_size(type.dtype));
  };
  for (const ValueType* type : call.inputs) {
    if (type) add(*type);
  }
  for (const ValueType& type : outputs) add(type);
  return bytes;
}

Work work(Dim flops, const OpCall& call, std::span<const ValueType> outputs) {
  return {std::move(flops), traffic(call, outputs)};
}

}  // namespace rannc::ir::ops
