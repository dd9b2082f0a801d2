#include "passes/integer_evaluator.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "ir/constant.h"

namespace rannc::passes {

namespace {

using Sizes = std::vector<int64_t>;

// Row-major integers.
struct Integers {
  Sizes shape;
  std::vector<int64_t> data;
};

int64_t count_of(const Sizes& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Sizes strides_of(const Sizes& shape) {
  Sizes strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Strides with which a broadcast operand is read along the axes of `to`.
Sizes broadcast_strides(const Sizes& from, const Sizes& to) {
  const Sizes own = strides_of(from);
  Sizes strides(to.size(), 0);
  const size_t offset = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) strides[i + offset] = from[i] == 1 ? 0 : own[i];
  return strides;
}

// Calls f(index) for every index of `shape` in row-major order.
template <class F>
void for_each_index(const Sizes& shape, F&& f) {
  Sizes index(shape.size(), 0);
  for (int64_t n = count_of(shape); n > 0; --n) {
    f(index);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}

int64_t dot(const Sizes& index, const Sizes& strides) {
  int64_t at = 0;
  for (size_t i = 0; i < strides.size(); ++i) at += index[i] * strides[i];
  return at;
}

// What a rule sees; `failed` is set where an element has no result.
struct Call {
  std::string_view name;
  std::vector<Integers> in;
  std::vector<bool> present;
  const ir::Attributes& attributes;
  Sizes out_shape;
  bool failed = false;

  bool has(size_t i) const { return i < in.size() && present[i]; }
  int64_t axis(size_t rank, int64_t otherwise = 0) const {
    const int64_t given = attributes.integer("axis", otherwise);
    return given < 0 ? given + static_cast<int64_t>(rank) : given;
  }
  Sizes list(std::string_view name, size_t operand, const Sizes& otherwise) const {
    if (attributes.has(name)) return attributes.integers(name);
    return has(operand) ? in[operand].data : otherwise;
  }
};

using Rule = std::vector<int64_t> (*)(Call&);

// --- elementwise

int64_t wrap(unsigned long long value) { return static_cast<int64_t>(value); }
unsigned long long u(int64_t value) { return static_cast<unsigned long long>(value); }

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

int64_t binary(Call& call, int64_t a, int64_t b) {
  const std::string_view name = call.name;
  if (name == "add") return wrap(u(a) + u(b));
  if (name == "sub") return wrap(u(a) - u(b));
  if (name == "mul") return wrap(u(a) * u(b));
  if (name == "maximum") return std::max(a, b);
  if (name == "minimum") return std::min(a, b);
  if (name == "eq") return a == b;
  if (name == "ne" || name == "logical_xor") return a != b;
  if (name == "lt") return a < b;
  if (name == "le") return a <= b;
  if (name == "gt") return a > b;
  if (name == "ge") return a >= b;
  if (name == "logical_and") return a && b;
  if (name == "logical_or") return a || b;
  if (b == 0 || b == -1) {
    call.failed = call.failed || b == 0;
    return name == "div" ? wrap(0 - u(a)) : 0;
  }
  if (name == "mod") return a - floor_quotient(a, b) * b;
  return call.attributes.text("rounding") == "floor" ? floor_quotient(a, b) : a / b;
}

std::vector<int64_t> evaluate_binary(Call& call) {
  const Sizes a = broadcast_strides(call.in[0].shape, call.out_shape);
  const Sizes b = broadcast_strides(call.in[1].shape, call.out_shape);
  std::vector<int64_t> out;
  for_each_index(call.out_shape, [&](const Sizes& index) {
    out.push_back(binary(call, call.in[0].data[dot(index, a)], call.in[1].data[dot(index, b)]));
  });
  return out;
}

int64_t unary(std::string_view name, int64_t x) {
  if (name == "neg") return wrap(0 - u(x));
  if (name == "abs") return x < 0 ? wrap(0 - u(x)) : x;
  if (name == "relu") return std::max<int64_t>(x, 0);
  if (name == "sign") return (x > 0) - (x < 0);
  if (name == "logical_not") return x == 0;
  return x;
}

// Casts narrow when the bytes are written.
std::vector<int64_t> evaluate_unary(Call& call) {
  std::vector<int64_t> out;
  for (const int64_t x : call.in[0].data) out.push_back(unary(call.name, x));
  return out;
}

std::vector<int64_t> evaluate_where(Call& call) {
  Sizes strides[3];
  for (size_t i = 0; i < 3; ++i) strides[i] = broadcast_strides(call.in[i].shape, call.out_shape);
  std::vector<int64_t> out;
  for_each_index(call.out_shape, [&](const Sizes& index) {
    const size_t chosen = call.in[0].data[dot(index, strides[0])] ? 1 : 2;
    out.push_back(call.in[chosen].data[dot(index, strides[chosen])]);
  });
  return out;
}

// --- views

std::vector<int64_t> evaluate_view(Call& call) { return call.in[0].data; }

std::vector<int64_t> read(const Call& call, const Sizes& strides, int64_t start = 0) {
  std::vector<int64_t> out;
  for_each_index(call.out_shape,
                 [&](const Sizes& index) { out.push_back(call.in[0].data[start + dot(index, strides)]); });
  return out;
}

std::vector<int64_t> evaluate_expand(Call& call) {
  return read(call, broadcast_strides(call.in[0].shape, call.out_shape));
}

std::vector<int64_t> evaluate_permute(Call& call) {
  const Sizes own = strides_of(call.in[0].shape);
  Sizes strides;
  for (const int64_t dim : call.attributes.integers("dims")) {
    strides.push_back(own[dim < 0 ? dim + static_cast<int64_t>(own.size()) : dim]);
  }
  return read(call, strides);
}

std::vector<int64_t> evaluate_tile(Call& call) {
  const Sizes own = strides_of(call.in[0].shape);
  std::vector<int64_t> out;
  for_each_index(call.out_shape, [&](const Sizes& index) {
    int64_t at = 0;
    for (size_t i = 0; i < own.size(); ++i) at += index[i] % call.in[0].shape[i] * own[i];
    out.push_back(call.in[0].data[at]);
  });
  return out;
}

std::vector<int64_t> evaluate_slice(Call& call) {
  const Sizes& from = call.in[0].shape;
  const auto rank = static_cast<int64_t>(from.size());
  if (count_of(call.out_shape) == 0) return {};
  const Sizes starts = call.list("starts", 1, {});
  Sizes all;
  for (size_t i = 0; i < starts.size(); ++i) all.push_back(static_cast<int64_t>(i));
  const Sizes axes = call.list("axes", 3, all), steps = call.list("steps", 4, Sizes(starts.size(), 1));
  Sizes strides = strides_of(from);
  int64_t start = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    const int64_t n = from[axis];
    const int64_t given = starts[i] < 0 ? starts[i] + n : starts[i];
    start += std::clamp<int64_t>(given, 0, steps[i] > 0 ? n : n - 1) * strides[axis];
    strides[axis] = wrap(u(strides[axis]) * u(steps[i]));  // of no matter where only one place is taken
  }
  return read(call, strides, start);
}

std::vector<int64_t> evaluate_concat(Call& call) {
  const int64_t axis = call.axis(call.out_shape.size());
  std::vector<int64_t> out;
  int64_t outer = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= call.out_shape[i];
  for (int64_t row = 0; row < outer; ++row) {
    for (const Integers& part : call.in) {
      const int64_t length = static_cast<int64_t>(part.data.size()) / outer;
      out.insert(out.end(), part.data.begin() + row * length, part.data.begin() + (row + 1) * length);
    }
  }
  return out;
}

// --- index

// `index` counted from the end where negative; outside of 0…extent-1 the call fails.
int64_t position(Call& call, int64_t index, int64_t extent) {
  const int64_t at = index < 0 ? index + extent : index;
  if (at >= 0 && at < extent) return at;
  call.failed = true;
  return 0;
}

std::vector<int64_t> evaluate_gather(Call& call) {
  const Integers &x = call.in[0], &indices = call.in[1];
  const int64_t axis = call.axis(x.shape.size());
  const int64_t inner = strides_of(x.shape)[axis], extent = x.shape[axis];
  std::vector<int64_t> out;
  int64_t outer = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= x.shape[i];
  if (extent == 0) return out;
  for (int64_t row = 0; row < outer; ++row) {
    for (const int64_t index : indices.data) {
      const auto begin = x.data.begin() + (row * extent + position(call, index, extent)) * inner;
      out.insert(out.end(), begin, begin + inner);
    }
  }
  return out;
}

std::vector<int64_t> evaluate_gather_nd(Call& call) {
  const Integers &x = call.in[0], &indices = call.in[1];
  const int64_t batch_dims = call.attributes.integer("batch_dims"), depth = indices.shape.back();
  const Sizes strides = strides_of(x.shape);
  const auto first = x.shape.begin();
  const int64_t inner = count_of(Sizes(first + batch_dims + depth, x.shape.end()));
  const int64_t group = count_of(Sizes(first + batch_dims, x.shape.end()));
  const int64_t groups = count_of(Sizes(first, first + batch_dims));
  const int64_t tuples = depth == 0 ? 0 : static_cast<int64_t>(indices.data.size()) / depth;
  std::vector<int64_t> out;
  for (int64_t i = 0; i < tuples; ++i) {
    int64_t at = i / (tuples / groups) * group;
    for (int64_t d = 0; d < depth; ++d) {
      at += position(call, indices.data[i * depth + d], x.shape[batch_dims + d]) * strides[batch_dims + d];
    }
    if (call.failed) return {};
    out.insert(out.end(), x.data.begin() + at, x.data.begin() + at + inner);
  }
  call.failed = call.failed || depth == 0;
  return out;
}

std::vector<int64_t> evaluate_cumsum(Call& call) {
  const Integers& x = call.in[0];
  const int64_t axis = call.axis(x.shape.size());
  const int64_t stride = strides_of(x.shape)[axis], extent = x.shape[axis];
  const bool exclusive = call.attributes.flag("exclusive"), reverse = call.attributes.flag("reverse");
  std::vector<int64_t> out(x.data.size());
  if (out.empty()) return out;
  for (int64_t line = 0; line < static_cast<int64_t>(out.size()) / extent; ++line) {
    const int64_t base = line / stride * stride * extent + line % stride;
    unsigned long long sum = 0;
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t at = base + (reverse ? extent - 1 - i : i) * stride;
      const unsigned long long before = sum;
      sum += u(x.data[at]);
      out[at] = wrap(exclusive ? before : sum);
    }
  }
  return out;
}

std::vector<int64_t> evaluate_trilu(Call& call) {
  const bool upper = call.attributes.flag("upper", true);
  const int64_t diagonal = call.attributes.integer("diagonal");
  std::vector<int64_t> out;
  size_t at = 0;
  for_each_index(call.out_shape, [&](const Sizes& index) {
    const int64_t distance = index[index.size() - 1] - index[index.size() - 2] - diagonal;
    const int64_t x = call.in[0].data[at++];
    out.push_back((upper ? distance >= 0 : distance <= 0) ? x : 0);
  });
  return out;
}

// --- reduce

std::vector<int64_t> evaluate_reduce(Call& call) {
  const Integers& x = call.in[0];
  const auto rank = static_cast<int64_t>(x.shape.size());
  Sizes kept = x.shape;
  Sizes axes = call.attributes.integers("axes");
  if (!call.attributes.has("axes")) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  for (const int64_t axis : axes) kept[axis < 0 ? axis + rank : axis] = 1;
  const Sizes strides = broadcast_strides(kept, x.shape);
  const bool product = call.name == "prod", sum = call.name == "sum";
  if (!product && !sum && x.data.empty()) {
    call.failed = true;
    return {};
  }
  const int64_t start = product               ? 1
                        : sum                 ? 0
                        : call.name == "amax" ? std::numeric_limits<int64_t>::min()
                                              : std::numeric_limits<int64_t>::max();
  std::vector<int64_t> out(count_of(kept), start);
  size_t at = 0;
  for_each_index(x.shape, [&](const Sizes& index) {
    int64_t& into = out[dot(index, strides)];
    const int64_t value = x.data[at++];
    into = sum                   ? wrap(u(into) + u(value))
           : product             ? wrap(u(into) * u(value))
           : call.name == "amax" ? std::max(into, value)
                                 : std::min(into, value);
  });
  return out;
}

// --- dispatch

// A cast to bool compares with zero; to an integer type the bytes written narrow.
std::vector<int64_t> evaluate_cast(Call& call) {
  std::vector<int64_t> out = call.in[0].data;
  if (call.attributes.dtype("dtype") == ir::DType::kBool) {
    for (int64_t& x : out) x = x != 0;
  }
  return out;
}

struct Entry {
  std::string_view name;
  Rule rule;
};

constexpr Entry kRules[] = {
    {"abs", evaluate_unary},         {"add", evaluate_binary},         {"amax", evaluate_reduce},
    {"amin", evaluate_reduce},       {"cast", evaluate_cast},          {"concat", evaluate_concat},
    {"cumsum", evaluate_cumsum},     {"div", evaluate_binary},         {"eq", evaluate_binary},
    {"expand", evaluate_expand},     {"gather", evaluate_gather},      {"gather_nd", evaluate_gather_nd},
    {"ge", evaluate_binary},         {"gt", evaluate_binary},          {"identity", evaluate_unary},
    {"le", evaluate_binary},         {"logical_and", evaluate_binary}, {"logical_not", evaluate_unary},
    {"logical_or", evaluate_binary}, {"logical_xor", evaluate_binary}, {"lt", evaluate_binary},
    {"maximum", evaluate_binary},    {"minimum", evaluate_binary},     {"mod", evaluate_binary},
    {"mul", evaluate_binary},        {"ne", evaluate_binary},          {"neg", evaluate_unary},
    {"permute", evaluate_permute},   {"prod", evaluate_reduce},        {"relu", evaluate_unary},
    {"reshape", evaluate_view},      {"sign", evaluate_unary},         {"slice", evaluate_slice},
    {"squeeze", evaluate_view},      {"sub", evaluate_binary},         {"sum", evaluate_reduce},
    {"tile", evaluate_tile},         {"trilu", evaluate_trilu},        {"unsqueeze", evaluate_view},
    {"where", evaluate_where},
};

Rule rule_of(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(kRules) ? nullptr : found->rule;
}

// Nothing where there are too many to be worth it, or one lies beyond int64.
std::optional<Integers> decode(const Tensor& tensor) {
  auto data = ir::decode_integers(tensor.type, tensor.data, kMostFoldedIntegers);
  if (!data) return std::nullopt;
  const auto beyond = [](int64_t x) { return x < 0; };
  if (tensor.type.dtype == ir::DType::kU64 && std::any_of(data->begin(), data->end(), beyond)) return std::nullopt;
  Integers out;
  for (const ir::Dim& dim : *tensor.type.shape) out.shape.push_back(dim.constant());
  out.data = *std::move(data);
  return out;
}

}  // namespace

std::vector<std::string_view> folded_operators() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kRules) names.push_back(entry.name);
  return names;
}

std::optional<std::vector<Tensor>> evaluate_integers(const ir::OpInfo& op, std::span<const Tensor* const> operands,
                                                     const ir::Attributes& attributes,
                                                     std::span<const ir::ValueType> types) {
  const Rule rule = op.name.starts_with("core.") ? rule_of(std::string_view(op.name).substr(5)) : nullptr;
  if (!rule || types.size() != 1) return std::nullopt;
  if (ir::static_count(types[0]).value_or(INT64_MAX) > kMostFoldedIntegers) return std::nullopt;
  Call call{std::string_view(op.name).substr(5), {}, {}, attributes, {}};
  for (const Tensor* operand : operands) {
    call.present.push_back(operand != nullptr);
    call.in.emplace_back();
    if (!operand) continue;
    auto decoded = decode(*operand);
    if (!decoded) return std::nullopt;
    call.in.back() = *std::move(decoded);
  }
  for (const ir::Dim& dim : *types[0].shape) call.out_shape.push_back(dim.constant());
  const std::vector<int64_t> data = rule(call);
  if (call.failed || static_cast<int64_t>(data.size()) != count_of(call.out_shape)) return std::nullopt;
  return std::vector<Tensor>{{types[0], ir::encode_integers(types[0].dtype, data)}};
}

}  // namespace rannc::passes
