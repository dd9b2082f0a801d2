// Calls of operators between numbers and the integers that stand for them.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {
namespace {

Operand bytes(std::string_view shape) {
  Operand operand = i(shape, 0, 200);
  operand.type.dtype = DType::kU8;
  return operand;
}

}  // namespace

void add_quantize(std::vector<OpCase>& cases) {
  const Attributes to_bytes = {{"dtype", DType::kU8}}, by_channel = {{"dtype", DType::kI16}, {"axis", Dim(1)}};
  const Attributes narrow = {{"low", Dim(-1)}, {"high", Dim(2)}};
  Attributes narrow_channels = narrow;
  narrow_channels.set("axis", Dim(1));
  const std::vector<OpCase> more = {
      {"quantize", {f("batch,3,4"), f(""), i("", 0, 9)}, to_bytes},
      {"quantize", {f("batch,3,4"), f("3"), i("3", -5, 6)}, by_channel},
      {"quantize", {f("4,6"), f("4,6"), i("4,6", 0, 9)}, to_bytes},
      {"dequantize", {bytes("batch,3,4"), f(""), bytes("")}},
      {"dequantize", {bytes("batch,3,4"), f("3"), bytes("3")}, {{"axis", Dim(1)}}},
      {"dequantize", {i("batch,3", -9, 9), f("3"), i("3", -5, 6)}, {{"axis", Dim(-1)}}},
      {"fake_quantize", {f("batch,3,4"), f(""), i("", -1, 0)}, narrow},
      {"fake_quantize", {f("batch,3,4"), f(""), i("", 0, 2)}, narrow},
      {"fake_quantize", {f("batch,3,4"), f("3"), i("3", -1, 2)}, narrow_channels},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace rannc::ir::testing
