#include "tests/frontend/support/node_roles.h"

#include <algorithm>
#include <initializer_list>

namespace rannc::test {

namespace {

struct Role {
  std::string_view op;
  std::initializer_list<size_t> operands;
};

// By name. NonZero and Unique: how many elements their results have follows from those of the operand.
constexpr Role kRoles[] = {
    {"AffineGrid", {1}},
    {"BlackmanWindow", {0}},
    {"CenterCropPad", {1}},
    {"Col2Im", {1, 2}},
    {"Compress", {1}},
    {"ConstantOfShape", {0}},
    {"CumProd", {1}},
    {"CumSum", {1}},
    {"DFT", {1, 2}},
    {"Dropout", {1, 2}},
    {"Expand", {1}},
    {"HammingWindow", {0}},
    {"HannWindow", {0}},
    {"If", {0}},
    {"Loop", {0, 1}},
    {"MaxUnpool", {2}},
    {"MelWeightMatrix", {0, 1, 2, 3, 4}},
    {"NonMaxSuppression", {2, 3, 4}},
    {"NonZero", {0}},
    {"OneHot", {1}},
    {"Pad", {1, 3}},
    {"Range", {0, 1, 2}},
    {"ReduceL1", {1}},
    {"ReduceL2", {1}},
    {"ReduceLogSum", {1}},
    {"ReduceLogSumExp", {1}},
    {"ReduceMax", {1}},
    {"ReduceMean", {1}},
    {"ReduceMin", {1}},
    {"ReduceProd", {1}},
    {"ReduceSum", {1}},
    {"ReduceSumSquare", {1}},
    {"Reshape", {1}},
    {"Resize", {1, 2, 3}},
    {"STFT", {1, 3}},
    {"SequenceAt", {1}},
    {"SequenceErase", {1}},
    {"SequenceInsert", {2}},
    {"Slice", {1, 2, 3, 4}},
    {"Split", {1}},
    {"SplitToSequence", {1}},
    {"Squeeze", {1}},
    {"Tile", {1}},
    {"TopK", {1}},
    {"Trilu", {1}},
    {"Unique", {0}},
    {"Unsqueeze", {1}},
    {"Upsample", {1}},
};

}  // namespace

bool decides_structure(std::string_view op, size_t operand) {
  const auto* const found =
      std::find_if(std::begin(kRoles), std::end(kRoles), [&](const Role& r) { return r.op == op; });
  return found != std::end(kRoles) &&
         std::find(found->operands.begin(), found->operands.end(), operand) != found->operands.end();
}

}  // namespace rannc::test
