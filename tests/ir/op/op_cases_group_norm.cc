// Calls of normalisations of groups of channels, and of their gradients.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {

void add_group_norm(std::vector<OpCase>& cases) {
  const auto groups = [](int64_t count) { return Attributes{{"groups", Dim(count)}}; };
  const Operand x = f("batch,6,4,3"), channels = f("6"), two = f("batch,2");
  const std::vector<OpCase> more = {
      {"group_norm", {x, channels, channels}, {{"groups", Dim(2)}, {"epsilon", 1e-3}}},
      {"group_norm", {x, channels, channels}, groups(3), 3},
      {"group_norm", {x}, groups(1), 2},
      {"group_norm", {x, channels}, groups(6), 3},
      {"group_norm", {f("batch,6"), channels}, groups(2), 3},
      {"group_norm", {f("2*batch,6,5"), channels, channels}, groups(6)},
      {"group_norm", {f("2,6,5"), channels, channels}, groups(2), 3},
      {"group_norm", {f("batch,6,2,2,3"), channels, channels}, groups(2)},
      {"group_norm_grad_input", {x, x, two, two, channels}, groups(2)},
      {"group_norm_grad_input", {f("batch,6,5"), f("batch,6,5"), two, two}, groups(2)},
      {"group_norm_grad_scale", {x, x, two, two}, groups(2)},
      {"group_norm_grad_scale", {f("2,6,5"), f("2,6,5"), f("2,3"), f("2,3")}, groups(3)},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace rannc::ir::testing
