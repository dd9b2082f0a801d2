// What is folded ahead of a run is what the run computes: both of the ways that integers are folded, the built-in
// arithmetic of fold-constants and the contents that type rules follow, against the lowered statement, on random
// operands with empty axes and the lowest and highest numbers of their types.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "codegen/evaluate.h"
#include "ir/constant.h"
#include "passes/integer_evaluator.h"
#include "tests/ir/ops/op_cases.h"

namespace rannc {
namespace {

using ir::Attributes;
using ir::Dim;
using ir::DType;
using ir::Shape;
using Numbers = std::vector<int64_t>;

constexpr DType kIntegers[] = {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8};

int64_t lowest(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return INT8_MIN;
    case DType::kI16:
      return INT16_MIN;
    case DType::kI32:
      return INT32_MIN;
    case DType::kI64:
      return INT64_MIN;
    default:
      return 0;
  }
}

int64_t highest(DType dtype) {
  if (dtype == DType::kBool) return 1;
  return dtype == DType::kU8 ? UINT8_MAX : -(lowest(dtype) + 1);
}

struct Operand {
  DType dtype = DType::kI64;
  Numbers shape, data;
};

struct Call {
  std::string op;
  std::vector<Operand> operands;
  Attributes attributes = {};

  std::string str() const {
    std::string text = op;
    for (const Operand& operand : operands) {
      text +=
          " " + std::string(ir::str(operand.dtype)) + ir::str(Shape(operand.shape.begin(), operand.shape.end())) + "{";
      for (const int64_t x : operand.data) text += " " + std::to_string(x);
      text += " }";
    }
    for (const auto& [name, value] : attributes) {
      text += " " + name;
      if (const auto* list = std::get_if<Shape>(&value)) text += "=" + ir::str(*list);
      if (const auto* dim = std::get_if<Dim>(&value)) text += "=" + dim->str();
      if (const auto* dtype = std::get_if<DType>(&value)) text += "=" + std::string(ir::str(*dtype));
      if (const auto* word = std::get_if<std::string>(&value)) text += "=" + *word;
      if (const auto* flag = std::get_if<bool>(&value)) text += *flag ? "=1" : "=0";
    }
    return text;
  }
};

/// Draws calls. Rank is at most 1 where the contents of operands are to be known.
class Draw {
 public:
  Draw(uint64_t seed, size_t most_rank) : random_(seed), most_rank_(most_rank) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool coin() { return below(2) == 0; }
  DType integer_type() { return kIntegers[below(std::size(kIntegers))]; }
  DType any_type() { return below(6) == 0 ? DType::kBool : integer_type(); }

  /// Of rank `least` to 3 (or 1): extents 0 to 4, seldom 0.
  Numbers shape(size_t least = 0) {
    Numbers sizes(least + static_cast<size_t>(below(static_cast<int64_t>(std::max(most_rank_, least) - least) + 1)));
    for (int64_t& size : sizes) size = below(8) == 0 ? 0 : 1 + below(4);
    return sizes;
  }
  int64_t number(DType dtype) {
    const int64_t low = lowest(dtype), high = highest(dtype);
    switch (below(6)) {
      case 0:
        return coin() ? low : high;
      case 1:
        return coin() ? low + (low < 0 ? 1 : 0) : high - 1;
      case 2:
        return low < 0 ? static_cast<int64_t>(random_()) >> (64 - 8 * ir::byte_size(dtype)) : below(high + 1);
      default:
        return std::clamp<int64_t>(below(13) - 6, low, high);
    }
  }
  Operand of(DType dtype, Numbers shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    Operand operand{dtype, std::move(shape), Numbers(static_cast<size_t>(count))};
    for (int64_t& x : operand.data) x = number(dtype);
    return operand;
  }
  /// A shape that broadcasts with `shape`.
  Numbers broadcastable(Numbers shape) {
    shape.erase(shape.begin(), shape.begin() + below(static_cast<int64_t>(shape.size()) + 1));
    for (int64_t& size : shape) size = below(4) == 0 ? 1 : size;
    return shape;
  }
  /// `axis` of a value of that rank, in either spelling.
  Dim axis(size_t rank) {
    const auto n = static_cast<int64_t>(rank);
    return below(2 * n) - n;
  }

 private:
  std::mt19937_64 random_;
  size_t most_rank_;
};

using Generator = std::function<Call(Draw&, const std::string& op)>;

Call binary(Draw& draw, const std::string& op, DType dtype) {
  const Numbers shape = draw.shape();
  Call call{op, {draw.of(dtype, shape), draw.of(dtype, draw.broadcastable(shape))}};
  if (draw.coin()) std::swap(call.operands[0], call.operands[1]);
  return call;
}
Call arithmetic(Draw& draw, const std::string& op) { return binary(draw, op, draw.integer_type()); }
Call comparison(Draw& draw, const std::string& op) { return binary(draw, op, draw.any_type()); }
Call logical(Draw& draw, const std::string& op) { return binary(draw, op, DType::kBool); }

/// Of the lowest number by -1 LibTorch has no quotient: the processor traps.
Call quotient(Draw& draw, const std::string& op) {
  Call call = arithmetic(draw, op);
  for (int64_t& x : call.operands[1].data) {
    if (x == -1) x = 2;
    if (x == 0 && draw.below(4) != 0) x = -3 < lowest(call.operands[1].dtype) ? 3 : -3;
  }
  if (op == "div") call.attributes.set("rounding", std::string(draw.coin() ? "trunc" : "floor"));
  return call;
}

Call unary(Draw& draw, const std::string& op) { return {op, {draw.of(draw.integer_type(), draw.shape())}}; }
Call negation(Draw& draw, const std::string& op) { return {op, {draw.of(DType::kBool, draw.shape())}}; }
Call identity(Draw& draw, const std::string& op) { return {op, {draw.of(draw.any_type(), draw.shape())}}; }
Call cast(Draw& draw, const std::string& op) {
  return {op, {draw.of(draw.any_type(), draw.shape())}, {{"dtype", draw.any_type()}}};
}

Call where(Draw& draw, const std::string& op) {
  const Numbers shape = draw.shape();
  Numbers shapes[] = {draw.broadcastable(shape), draw.broadcastable(shape), draw.broadcastable(shape)};
  shapes[draw.below(3)] = shape;
  const DType dtype = draw.any_type();
  return {op, {draw.of(DType::kBool, shapes[0]), draw.of(dtype, shapes[1]), draw.of(dtype, shapes[2])}};
}

Shape list(const Numbers& numbers) { return {numbers.begin(), numbers.end()}; }

Call reshape(Draw& draw, const std::string& op) {
  const Numbers from = draw.shape();
  Numbers to = {1};
  for (const int64_t size : from) {
    to.back() *= size;
    if (draw.coin()) to.push_back(1);
  }
  const bool empty = std::find(to.begin(), to.end(), 0) != to.end();
  if (!empty && draw.coin()) to[static_cast<size_t>(draw.below(static_cast<int64_t>(to.size())))] = -1;
  return {op, {draw.of(draw.any_type(), from)}, {{"shape", list(to)}}};
}

Call unsqueeze(Draw& draw, const std::string& op) {
  const Numbers from = draw.shape();
  return {op, {draw.of(draw.any_type(), from)}, {{"axes", Shape{draw.axis(from.size() + 1)}}}};
}

Call squeeze(Draw& draw, const std::string& op) {
  Numbers from = draw.shape();
  const int64_t axis = draw.below(static_cast<int64_t>(from.size()) + 1);
  from.insert(from.begin() + axis, 1);
  return {op, {draw.of(draw.any_type(), from)}, {{"axes", Shape{axis}}}};
}

Call expand(Draw& draw, const std::string& op) {
  const Numbers to = draw.shape();
  return {op, {draw.of(draw.any_type(), draw.broadcastable(to))}, {{"shape", list(to)}}};
}

Call permute(Draw& draw, const std::string& op) {
  const Numbers from = draw.shape();
  Numbers dims(from.size());
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
  for (size_t i = dims.size(); i-- > 1;)
    std::swap(dims[i], dims[static_cast<size_t>(draw.below(static_cast<int64_t>(i) + 1))]);
  return {op, {draw.of(draw.any_type(), from)}, {{"dims", list(dims)}}};
}

Call tile(Draw& draw, const std::string& op) {
  const Numbers from = draw.shape();
  Numbers repeats;
  for (size_t i = 0; i < from.size(); ++i) repeats.push_back(draw.below(4));
  return {op, {draw.of(draw.any_type(), from)}, {{"repeats", list(repeats)}}};
}

Call slice(Draw& draw, const std::string& op) {
  const Numbers from = draw.shape(1);
  constexpr int64_t kFar[] = {INT64_MIN, INT64_MAX, -(int64_t{1} << 40), int64_t{1} << 40};
  const auto bound = [&] { return draw.below(5) == 0 ? kFar[draw.below(4)] : draw.below(13) - 6; };
  const auto step = [&] {
    if (draw.below(6) == 0) return kFar[draw.below(4)];
    return draw.coin() ? 1 + draw.below(3) : -1 - draw.below(3);
  };
  return {op,
          {draw.of(draw.any_type(), from)},
          {{"axes", Shape{draw.axis(from.size())}},
           {"starts", Shape{bound()}},
           {"ends", Shape{bound()}},
           {"steps", Shape{step()}}}};
}

Call concat(Draw& draw, const std::string& op) {
  Numbers shape = draw.shape(1);
  const auto axis = static_cast<size_t>(draw.below(static_cast<int64_t>(shape.size())));
  const DType dtype = draw.any_type();
  Call call{op, {}, {{"axis", Dim(static_cast<int64_t>(axis))}}};
  for (int64_t parts = 1 + draw.below(3); parts > 0; --parts) {
    shape[axis] = draw.below(4);
    call.operands.push_back(draw.of(dtype, shape));
  }
  return call;
}

/// Indices into 0…extent-1, counted from either end; none into an empty axis.
Operand indices(Draw& draw, Numbers shape, int64_t extent) {
  Operand operand = draw.of(draw.coin() ? DType::kI64 : DType::kI32, std::move(shape));
  for (int64_t& x : operand.data) x = draw.below(2 * extent) - extent;
  return operand;
}

Call gather(Draw& draw, const std::string& op) {
  Numbers from = draw.shape(1);
  const Dim axis = draw.axis(from.size());
  int64_t& extent = from[static_cast<size_t>(axis.constant() < 0 ? axis.constant() + static_cast<int64_t>(from.size())
                                                                 : axis.constant())];
  extent = std::max<int64_t>(extent, 1);
  const int64_t n = extent;
  Operand x = draw.of(draw.any_type(), from);
  return {op, {std::move(x), indices(draw, draw.shape(), n)}, {{"axis", axis}}};
}

Call gather_nd(Draw& draw, const std::string& op) {
  Numbers from = draw.shape(1);
  const int64_t batch_dims = draw.below(static_cast<int64_t>(from.size()));
  const int64_t depth = 1 + draw.below(static_cast<int64_t>(from.size()) - batch_dims);
  int64_t least = 4;
  for (int64_t i = batch_dims; i < batch_dims + depth; ++i) {
    from[static_cast<size_t>(i)] = std::max<int64_t>(from[static_cast<size_t>(i)], 1);
    least = std::min(least, from[static_cast<size_t>(i)]);
  }
  Numbers places(from.begin(), from.begin() + batch_dims);
  places.push_back(1 + draw.below(3));
  places.push_back(depth);
  Operand x = draw.of(draw.any_type(), from);
  return {op, {std::move(x), indices(draw, places, least)}, {{"batch_dims", Dim(batch_dims)}}};
}

Call cumsum(Draw& draw, const std::string& op) {
  const Numbers from = draw.shape(1);
  return {op,
          {draw.of(draw.integer_type(), from)},
          {{"axis", draw.axis(from.size())}, {"exclusive", draw.coin()}, {"reverse", draw.coin()}}};
}

Call trilu(Draw& draw, const std::string& op) {
  return {
      op, {draw.of(draw.any_type(), draw.shape(2))}, {{"upper", draw.coin()}, {"diagonal", Dim(draw.below(7) - 3)}}};
}

Call reduce(Draw& draw, const std::string& op) {
  const Numbers from = draw.shape();
  Call call{op, {draw.of(draw.integer_type(), from)}, {{"keepdim", draw.coin()}}};
  if (draw.coin()) return call;
  Shape axes;
  for (size_t i = 0; i < from.size(); ++i) {
    if (draw.coin()) axes.emplace_back(static_cast<int64_t>(i) - (draw.coin() ? static_cast<int64_t>(from.size()) : 0));
  }
  call.attributes.set("axes", axes);
  return call;
}

Call power(Draw& draw, const std::string& op) {
  Call call = binary(draw, op, DType::kI64);
  for (int64_t& x : call.operands[1].data) x = draw.below(18);
  return call;
}

Call range(Draw& draw, const std::string& op) {
  const DType dtype = draw.integer_type(), within = dtype == DType::kI64 ? DType::kI32 : dtype;
  const int64_t start = draw.number(within), delta = draw.coin() ? 1 + draw.below(3) : -1 - draw.below(3);
  const int64_t limit = std::clamp(start + draw.below(60) - 30, lowest(within), highest(within));
  return {op, {}, {{"start", Dim(start)}, {"limit", Dim(limit)}, {"delta", Dim(delta)}, {"dtype", dtype}}};
}

Call full(Draw& draw, const std::string& op) {
  const DType dtype = draw.any_type();
  return {op, {}, {{"shape", list(draw.shape())}, {"value", Dim(draw.number(dtype))}, {"dtype", dtype}}};
}

Call shape(Draw& draw, const std::string& op) {
  return {op,
          {draw.of(draw.any_type(), draw.shape())},
          {{"start", Dim(draw.below(4) - 2)}, {"end", Dim(draw.below(5) - 2)}}};
}

const std::map<std::string, Generator>& generators() {
  static const std::map<std::string, Generator> kGenerators = {
      {"abs", unary},
      {"add", arithmetic},
      {"amax", reduce},
      {"amin", reduce},
      {"cast", cast},
      {"concat", concat},
      {"cumsum", cumsum},
      {"div", quotient},
      {"eq", comparison},
      {"expand", expand},
      {"full", full},
      {"gather", gather},
      {"gather_nd", gather_nd},
      {"ge", comparison},
      {"gt", comparison},
      {"identity", identity},
      {"le", comparison},
      {"logical_and", logical},
      {"logical_not", negation},
      {"logical_or", logical},
      {"logical_xor", logical},
      {"lt", comparison},
      {"maximum", arithmetic},
      {"minimum", arithmetic},
      {"mod", quotient},
      {"mul", arithmetic},
      {"ne", comparison},
      {"neg", unary},
      {"permute", permute},
      {"pow", power},
      {"prod", reduce},
      {"range", range},
      {"relu", unary},
      {"reshape", reshape},
      {"shape", shape},
      {"sign", unary},
      {"slice", slice},
      {"squeeze", squeeze},
      {"sub", arithmetic},
      {"sum", reduce},
      {"tile", tile},
      {"trilu", trilu},
      {"unsqueeze", unsqueeze},
      {"where", where},
  };
  return kGenerators;
}

passes::Tensor tensor(const Operand& operand) {
  passes::Tensor made;
  made.type.dtype = operand.dtype;
  made.type.shape = list(operand.shape);
  made.data = ir::encode_integers(operand.dtype, operand.data);
  return made;
}

/// One call with its operands stored, with or without known contents.
struct Prepared {
  explicit Prepared(const Call& call) : op(ir::core(call.op)), attributes(call.attributes) {
    for (const Operand& operand : call.operands) tensors.push_back(tensor(operand));
    for (const passes::Tensor& each : tensors) stored.push_back({each.type, each.data});
  }
  Result<std::vector<ir::ValueType>> types(bool with_contents) const {
    std::vector<ir::ValueType> inputs;
    std::vector<const ir::ValueType*> pointers;
    for (const passes::Tensor& each : tensors) {
      inputs.push_back(each.type);
      if (with_contents) inputs.back().contents = ir::constant_contents(each.type, each.data);
    }
    for (const ir::ValueType& type : inputs) pointers.push_back(&type);
    return op.infer({op, pointers, attributes, "", 1});
  }
  std::optional<std::vector<passes::Tensor>> folded(const std::vector<ir::ValueType>& types) const {
    std::vector<const passes::Tensor*> pointers;
    for (const passes::Tensor& each : tensors) pointers.push_back(&each);
    return passes::evaluate_integers(op, pointers, attributes, types);
  }
  Result<Numbers> computed() const {
    std::vector<const codegen::StoredTensor*> pointers;
    for (const codegen::StoredTensor& each : stored) pointers.push_back(&each);
    RANNC_ASSIGN(const std::vector<codegen::StoredTensor> results, codegen::evaluate(op, pointers, attributes));
    return ir::decode_integers(results[0].type, results[0].data, 1 << 20);
  }

  const ir::OpInfo& op;
  const Attributes& attributes;
  std::vector<passes::Tensor> tensors;
  std::vector<codegen::StoredTensor> stored;
};

class Folding : public testing::TestWithParam<std::string> {};

constexpr int kRounds = 60;

TEST_P(Folding, EqualsTheRun) {
  const std::string op = GetParam();
  Draw draw(std::hash<std::string>()(op), 3);
  int folded = 0, typed = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Call call = generators().at(op)(draw, op);
    SCOPED_TRACE(call.str());
    const Prepared prepared(call);
    const auto types = prepared.types(false);
    if (!types.ok()) continue;
    ++typed;
    const auto found = prepared.folded(*types);
    if (!found) continue;
    ++folded;
    const auto expected = prepared.computed();
    ASSERT_TRUE(expected.ok()) << expected.diagnostic().str();
    EXPECT_EQ(ir::decode_integers((*found)[0].type, (*found)[0].data, 1 << 20).value(), *expected);
  }
  const auto names = passes::folded_operators();
  if (std::find(names.begin(), names.end(), op) == names.end()) return;  // folds by contents alone
  EXPECT_GT(typed, kRounds / 2);
  EXPECT_GT(folded, typed / 3);
}

TEST_P(Folding, OfContentsEqualsTheRun) {
  const std::string op = GetParam();
  Draw draw(std::hash<std::string>()(op) + 1, 1);
  int known = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Call call = generators().at(op)(draw, op);
    SCOPED_TRACE(call.str());
    const Prepared prepared(call);
    const auto types = prepared.types(true);
    if (!types.ok() || !(*types)[0].contents) continue;
    ++known;
    const auto expected = prepared.computed();
    ASSERT_TRUE(expected.ok()) << expected.diagnostic().str();
    EXPECT_EQ(ir::str((*types)[0].contents.value()), ir::str(list(*expected)));
  }
  const std::set<std::string> without = {"gather_nd", "tile", "trilu"};  // their rules follow no contents
  EXPECT_EQ(known > 0, !without.contains(op));
}

std::vector<std::string> covered() {
  std::vector<std::string> names;
  for (const auto& [name, generator] : generators()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Operators, Folding, testing::ValuesIn(covered()), [](const auto& info) { return info.param; });

// --- every operator that folds has a generator

TEST(FoldingOperators, OfTheBuiltInArithmeticAreDrawn) {
  for (const std::string_view op : passes::folded_operators()) {
    EXPECT_TRUE(generators().contains(std::string(op))) << op << " folds, but nothing draws calls of it";
  }
}

/// Whether the type rule follows contents in a call of these operands, each of one element type, a few ones long.
bool follows(const ir::testing::OpCase& c, const Attributes& attributes, const std::vector<DType>& dtypes,
             const Shape& shape) {
  std::vector<ir::ValueType> types;
  std::vector<const ir::ValueType*> inputs;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    ir::ValueType& type = types.emplace_back();
    type.dtype = dtypes[std::min(i, dtypes.size() - 1)];
    type.shape = shape;
    type.contents = ir::Contents(static_cast<size_t>(ir::element_count(shape).constant()), Dim(1));
  }
  for (size_t i = 0; i < types.size(); ++i) inputs.push_back(c.operands[i].absent ? nullptr : &types[i]);
  const ir::OpInfo& op = ir::core(c.op);
  const auto found = op.infer({op, inputs, attributes, "", c.outputs});
  return found.ok() && found->size() == 1 && (*found)[0].contents.has_value();
}

// `split` has several results, which no fold of a task reads.
TEST(FoldingOperators, ThatFollowContentsAreDrawn) {
  std::set<std::string> following;
  for (const ir::testing::OpCase& given : ir::testing::op_cases()) {
    const ir::testing::OpCase c = ir::testing::with_batch(given, 2);
    for (const Attributes& attributes : {c.attributes, Attributes{}}) {
      for (const std::vector<DType>& dtypes :
           {std::vector{DType::kI64}, std::vector{DType::kBool}, std::vector{DType::kBool, DType::kI64}}) {
        for (const Shape& shape : {Shape{}, Shape{1}, Shape{2}}) {
          if (follows(c, attributes, dtypes, shape)) following.insert(c.op);
        }
      }
    }
  }
  for (const char* op : {"add", "cast", "concat", "div", "gather", "pow", "range", "shape", "slice", "sum", "where"}) {
    EXPECT_TRUE(following.contains(op)) << op;
  }
  for (const std::string& op : following) {
    EXPECT_TRUE(generators().contains(op)) << op << " follows contents, but nothing draws calls of it";
  }
}

}  // namespace
}  // namespace rannc
