#include "tests/codegen/drawn_calls.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace rannc::test {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

DrawnCall binary(RandomInput& draw, const std::string& op, DType dtype) {
  const Numbers shape = draw.shape();
  DrawnCall call{op, {draw.of(dtype, shape), draw.of(dtype, draw.broadcastable(shape))}};
  if (draw.coin()) std::swap(call.operands[0], call.operands[1]);
  return call;
}
DrawnCall arithmetic(RandomInput& draw, const std::string& op) { return binary(draw, op, draw.integer_type()); }
DrawnCall comparison(RandomInput& draw, const std::string& op) { return binary(draw, op, draw.any_type()); }
DrawnCall logical(RandomInput& draw, const std::string& op) { return binary(draw, op, DType::kBool); }

DrawnCall bitwise(RandomInput& draw, const std::string& op) { return binary(draw, op, draw.integer_type()); }

/// Of the lowest number by -1 LibTorch has no quotient: the processor traps.
DrawnCall quotient(RandomInput& draw, const std::string& op) {
  DrawnCall call = arithmetic(draw, op);
  for (int64_t& x : call.operands[1].data) {
    if (x == -1) x = 2;
    if (x == 0 && draw.below(4) != 0) x = -3 < lowest(call.operands[1].dtype) ? 3 : -3;
  }
  if (op == "div") call.attributes.set("rounding", std::string(draw.coin() ? "trunc" : "floor"));
  return call;
}

DrawnCall unary(RandomInput& draw, const std::string& op) { return {op, {draw.of(draw.integer_type(), draw.shape())}}; }
DrawnCall negation(RandomInput& draw, const std::string& op) { return {op, {draw.of(DType::kBool, draw.shape())}}; }
DrawnCall identity(RandomInput& draw, const std::string& op) { return {op, {draw.of(draw.any_type(), draw.shape())}}; }
DrawnCall cast(RandomInput& draw, const std::string& op) {
  return {op, {draw.of(draw.any_type(), draw.shape())}, {{"dtype", draw.any_type()}}};
}

DrawnCall where(RandomInput& draw, const std::string& op) {
  const Numbers shape = draw.shape();
  Numbers shapes[] = {draw.broadcastable(shape), draw.broadcastable(shape), draw.broadcastable(shape)};
  shapes[draw.below(3)] = shape;
  const DType dtype = draw.any_type();
  return {op, {draw.of(DType::kBool, shapes[0]), draw.of(dtype, shapes[1]), draw.of(dtype, shapes[2])}};
}

DrawnCall reshape(RandomInput& draw, const std::string& op) {
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

DrawnCall unsqueeze(RandomInput& draw, const std::string& op) {
  const Numbers from = draw.shape();
  return {op, {draw.of(draw.any_type(), from)}, {{"axes", Shape{draw.axis(from.size() + 1)}}}};
}

DrawnCall squeeze(RandomInput& draw, const std::string& op) {
  Numbers from = draw.shape();
  const int64_t axis = draw.below(static_cast<int64_t>(from.size()) + 1);
  from.insert(from.begin() + axis, 1);
  return {op, {draw.of(draw.any_type(), from)}, {{"axes", Shape{axis}}}};
}

DrawnCall expand(RandomInput& draw, const std::string& op) {
  const Numbers to = draw.shape();
  return {op, {draw.of(draw.any_type(), draw.broadcastable(to))}, {{"shape", list(to)}}};
}

DrawnCall permute(RandomInput& draw, const std::string& op) {
  const Numbers from = draw.shape();
  Numbers dims(from.size());
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
  for (size_t i = dims.size(); i-- > 1;)
    std::swap(dims[i], dims[static_cast<size_t>(draw.below(static_cast<int64_t>(i) + 1))]);
  return {op, {draw.of(draw.any_type(), from)}, {{"dims", list(dims)}}};
}

DrawnCall tile(RandomInput& draw, const std::string& op) {
  const Numbers from = draw.shape();
  Numbers repeats;
  for (size_t i = 0; i < from.size(); ++i) repeats.push_back(draw.below(4));
  return {op, {draw.of(draw.any_type(), from)}, {{"repeats", list(repeats)}}};
}

DrawnCall slice(RandomInput& draw, const std::string& op) {
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

DrawnCall concat(RandomInput& draw, const std::string& op) {
  Numbers shape = draw.shape(1);
  const auto axis = static_cast<size_t>(draw.below(static_cast<int64_t>(shape.size())));
  const DType dtype = draw.any_type();
  DrawnCall call{op, {}, {{"axis", Dim(static_cast<int64_t>(axis))}}};
  for (int64_t parts = 1 + draw.below(3); parts > 0; --parts) {
    shape[axis] = draw.below(4);
    call.operands.push_back(draw.of(dtype, shape));
  }
  return call;
}

/// Indices into 0…extent-1, counted from either end; none into an empty axis.
DrawnOperand indices(RandomInput& draw, Numbers shape, int64_t extent) {
  DrawnOperand operand = draw.of(draw.coin() ? DType::kI64 : DType::kI32, std::move(shape));
  for (int64_t& x : operand.data) x = draw.below(2 * extent) - extent;
  return operand;
}

DrawnCall gather(RandomInput& draw, const std::string& op) {
  Numbers from = draw.shape(1);
  const Dim axis = draw.axis(from.size());
  int64_t& extent = from[static_cast<size_t>(axis.constant() < 0 ? axis.constant() + static_cast<int64_t>(from.size())
                                                                 : axis.constant())];
  extent = std::max<int64_t>(extent, 1);
  const int64_t n = extent;
  DrawnOperand x = draw.of(draw.any_type(), from);
  return {op, {std::move(x), indices(draw, draw.shape(), n)}, {{"axis", axis}}};
}

DrawnCall gather_nd(RandomInput& draw, const std::string& op) {
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
  DrawnOperand x = draw.of(draw.any_type(), from);
  return {op, {std::move(x), indices(draw, places, least)}, {{"batch_dims", Dim(batch_dims)}}};
}

DrawnCall cumsum(RandomInput& draw, const std::string& op) {
  const Numbers from = draw.shape(1);
  return {op,
          {draw.of(draw.integer_type(), from)},
          {{"axis", draw.axis(from.size())}, {"exclusive", draw.coin()}, {"reverse", draw.coin()}}};
}

DrawnCall trilu(RandomInput& draw, const std::string& op) {
  return {
      op, {draw.of(draw.any_type(), draw.shape(2))}, {{"upper", draw.coin()}, {"diagonal", Dim(draw.below(7) - 3)}}};
}

DrawnCall reduce(RandomInput& draw, const std::string& op) {
  const Numbers from = draw.shape();
  DrawnCall call{op, {draw.of(draw.integer_type(), from)}, {{"keepdim", draw.coin()}}};
  if (draw.coin()) return call;
  Shape axes;
  for (size_t i = 0; i < from.size(); ++i) {
    if (draw.coin()) axes.emplace_back(static_cast<int64_t>(i) - (draw.coin() ? static_cast<int64_t>(from.size()) : 0));
  }
  call.attributes.set("axes", axes);
  return call;
}

DrawnCall power(RandomInput& draw, const std::string& op) {
  DrawnCall call = binary(draw, op, draw.integer_type());
  for (int64_t& x : call.operands[1].data) x = draw.below(18);
  return call;
}

DrawnCall clamp(RandomInput& draw, const std::string& op) {
  DrawnCall call{op, {draw.of(draw.integer_type(), draw.shape())}};
  const DType dtype = call.operands[0].dtype;
  for (const char* name : {"min", "max"}) {
    if (draw.below(4) != 0) call.attributes.set(name, Dim(draw.number(dtype)));
    if (draw.below(6) == 0) call.attributes.set(name, static_cast<double>(draw.below(40)) / 8);
  }
  return call;
}

/// Negative pads cut no more than there is.
DrawnCall pad(RandomInput& draw, const std::string& op) {
  DrawnCall call{op, {draw.of(draw.any_type(), draw.shape(1))}};
  const size_t rank = call.operands[0].shape.size();
  Numbers pads(2 * rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t cut = call.operands[0].shape[i] / 2;
    for (int64_t* each : {&pads[i], &pads[i + rank]}) *each = draw.below(3 + cut) - cut;
  }
  call.attributes.set("pads", list(pads));
  if (draw.coin()) call.attributes.set("value", Dim(draw.number(call.operands[0].dtype)));
  return call;
}

DrawnCall split(RandomInput& draw, const std::string& op) {
  Numbers from = draw.shape(1);
  const Dim axis = draw.axis(from.size());
  const auto place =
      static_cast<size_t>(axis.constant() < 0 ? axis.constant() + static_cast<int64_t>(from.size()) : axis.constant());
  Numbers sizes;
  for (int64_t parts = 1 + draw.below(3); parts > 0; --parts) sizes.push_back(draw.below(4));
  from[place] = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  DrawnCall call{op, {draw.of(draw.any_type(), from)}, {{"axis", axis}, {"sizes", list(sizes)}}};
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    const ir::Attributes cut = {{"axes", Shape{axis}}, {"starts", Shape{begin}}, {"ends", Shape{begin + size}}};
    call.parts.push_back({"slice", call.operands, cut});
    begin += size;
  }
  return call;
}

DrawnCall gather_elements(RandomInput& draw, const std::string& op) {
  Numbers from = draw.shape(1);
  const Dim axis = draw.axis(from.size());
  const auto place =
      static_cast<size_t>(axis.constant() < 0 ? axis.constant() + static_cast<int64_t>(from.size()) : axis.constant());
  from[place] = std::max<int64_t>(from[place], 1);
  Numbers to = from;
  for (int64_t& size : to) size = draw.below(size + 1);
  to[place] = draw.below(5);
  DrawnOperand x = draw.of(draw.any_type(), from);
  return {op, {std::move(x), indices(draw, to, from[place])}, {{"axis", axis}}};
}

/// How several numbers become one; none of several is the last one where nothing is reduced.
ir::Attributes reduction(RandomInput& draw) {
  constexpr const char* kReductions[] = {"none", "add", "mul", "max", "min"};
  return {{"reduction", std::string(kReductions[draw.below(5)])}};
}

DrawnCall scatter_elements(RandomInput& draw, const std::string& op) {
  DrawnCall call = gather_elements(draw, op);
  const DType dtype = draw.integer_type();
  ir::Attributes attributes = reduction(draw);
  attributes.set("axis", *call.attributes.find("axis"));
  const Numbers to = call.operands[1].shape;
  call.operands[0] = draw.of(dtype, call.operands[0].shape);
  call.operands.push_back(draw.of(dtype, to));
  call.attributes = attributes;
  return call;
}

DrawnCall scatter_nd(RandomInput& draw, const std::string& op) {
  Numbers from = draw.shape(1);
  for (int64_t& size : from) size = std::max<int64_t>(size, 1);
  const int64_t depth = 1 + draw.below(static_cast<int64_t>(from.size()));
  const int64_t least = *std::min_element(from.begin(), from.begin() + depth);
  Numbers written = {1 + draw.below(3)}, places = {written[0], depth};
  written.insert(written.end(), from.begin() + depth, from.end());
  const DType dtype = draw.integer_type();
  DrawnOperand x = draw.of(dtype, from);
  DrawnOperand at = indices(draw, places, least);
  return {op, {std::move(x), std::move(at), draw.of(dtype, written)}, reduction(draw)};
}

DrawnCall one_hot(RandomInput& draw, const std::string& op) {
  DrawnCall call{op, {draw.of(draw.integer_type(), draw.shape())}};
  const auto rank = static_cast<int64_t>(call.operands[0].shape.size());
  call.attributes = {{"depth", Dim(1 + draw.below(6))}, {"axis", Dim(draw.below(rank + 2) - 1)}};
  return call;
}

DrawnCall argmax(RandomInput& draw, const std::string& op) {
  const Numbers from = draw.shape(1);
  return {op, {draw.of(draw.integer_type(), from)}, {{"axis", draw.axis(from.size())}, {"keepdim", draw.coin()}}};
}

DrawnCall range(RandomInput& draw, const std::string& op) {
  const DType dtype = draw.integer_type(), within = dtype == DType::kI64 ? DType::kI32 : dtype;
  const int64_t start = draw.number(within), delta = draw.coin() ? 1 + draw.below(3) : -1 - draw.below(3);
  const int64_t limit = std::clamp(start + draw.below(60) - 30, lowest(within), highest(within));
  return {op, {}, {{"start", Dim(start)}, {"limit", Dim(limit)}, {"delta", Dim(delta)}, {"dtype", dtype}}};
}

DrawnCall full(RandomInput& draw, const std::string& op) {
  const DType dtype = draw.any_type();
  return {op, {}, {{"shape", list(draw.shape())}, {"value", Dim(draw.number(dtype))}, {"dtype", dtype}}};
}

DrawnCall shape(RandomInput& draw, const std::string& op) {
  return {op,
          {draw.of(draw.any_type(), draw.shape())},
          {{"start", Dim(draw.below(4) - 2)}, {"end", Dim(draw.below(5) - 2)}}};
}

}  // namespace

const std::map<std::string, Generator>& generators() {
  static const std::map<std::string, Generator> kGenerators = {
      {"abs", unary},
      {"add", arithmetic},
      {"amax", reduce},
      {"amin", reduce},
      {"argmax", argmax},
      {"bitwise_and", bitwise},
      {"bitwise_not", unary},
      {"bitwise_or", bitwise},
      {"bitwise_xor", bitwise},
      {"cast", cast},
      {"clamp", clamp},
      {"concat", concat},
      {"cumsum", cumsum},
      {"div", quotient},
      {"eq", comparison},
      {"expand", expand},
      {"fmod", quotient},
      {"full", full},
      {"gather", gather},
      {"gather_elements", gather_elements},
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
      {"one_hot", one_hot},
      {"pad", pad},
      {"permute", permute},
      {"pow", power},
      {"prod", reduce},
      {"range", range},
      {"relu", unary},
      {"reshape", reshape},
      {"scatter_elements", scatter_elements},
      {"scatter_nd", scatter_nd},
      {"shape", shape},
      {"sign", unary},
      {"slice", slice},
      {"split", split},
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

}  // namespace rannc::test
