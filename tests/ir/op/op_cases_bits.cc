// Calls of operators on bits, and of functions, remainders and determinants beside the common ones.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {
namespace {

Operand of(DType dtype, std::string_view shape, int64_t low, int64_t high) {
  Operand operand = i(shape, low, high);
  operand.type.dtype = dtype;
  return operand;
}

void add_functions(std::vector<OpCase>& cases) {
  for (const char* op : {"asin", "acos", "atanh"}) cases.push_back({op, {whole("batch,5", 0, 1)}});
  cases.push_back({"acosh", {whole("batch,5", 2, 6)}});
  for (const char* op : {"log1p", "log2", "log10"}) cases.push_back({op, {whole("batch,5", 1, 6)}});
  for (const char* op : {"expm1", "exp2", "erfc"}) cases.push_back({op, {f("batch,5")}});
  for (const char* op : {"sinh", "cosh", "asinh", "round"}) cases.push_back({op, {f("batch,5")}});
  cases.push_back({"round", {f("3")}});
  cases.push_back({"fmod", {f("batch,3,4"), f("batch,1,4")}});
  cases.push_back({"fmod", {f("4"), f("batch,3,4")}});
  cases.push_back({"fmod", {i("batch,3", -5, 6), i("3", 1, 4)}});
  cases.push_back({"fmod", {list("7,-7,9"), list("3,3,-4")}});
}

void add_determinants(std::vector<OpCase>& cases) {
  cases.push_back({"det", {f("batch,3,3")}});
  cases.push_back({"det", {f("2,batch,2,2")}});
  cases.push_back({"det", {f("3,3")}});
  cases.push_back({"det_grad", {f("batch"), f("batch,3,3"), f("batch")}});
}

}  // namespace

void add_bits(std::vector<OpCase>& cases) {
  add_functions(cases);
  add_determinants(cases);
  for (const char* op : {"bitwise_and", "bitwise_or", "bitwise_xor"}) {
    cases.push_back({op, {i("batch,6", -9, 10), i("6", -3, 9)}});
    cases.push_back({op, {of(DType::kU16, "batch,6", 0, 9), of(DType::kU16, "6", 0, 9)}});
  }
  cases.push_back({"bitwise_not", {i("batch,6", -9, 10)}});
  for (const char* op : {"shift_left", "shift_right"}) cases.push_back({op, {i("batch,6", 0, 99), i("6", 0, 5)}});
  for (const DType dtype : {DType::kU8, DType::kU16, DType::kU32, DType::kU64}) {
    cases.push_back({"bitwise_not", {of(dtype, "batch,6", 0, 200)}});
    for (const char* op : {"shift_left", "shift_right"}) {
      cases.push_back({op, {of(dtype, "batch,6", 0, 200), of(dtype, "6", 0, 8)}});
    }
  }
  cases.push_back({"bitcast", {single("batch,3")}, {{"dtype", DType::kI32}}});
  cases.push_back({"bitcast", {i("batch,3", -4, 4)}, {{"dtype", DType::kU64}}});
}

}  // namespace rannc::ir::testing
