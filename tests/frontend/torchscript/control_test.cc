// Branches and loops that data decide, beside LibTorch's own run of them.
#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "frontend/torchscript/import.h"
#include "ir/op/op.h"
#include "tests/frontend/torchscript/program.h"

namespace rannc::test {
namespace {

at::Tensor number(double value) { return at::full({}, value, at::kDouble); }

struct Program {
  const char *name, *body;
  const char* operation;  ///< that the graph has of it
};
void PrintTo(const Program& program, std::ostream* out) { *out << program.name; }

class DataDecides : public testing::TestWithParam<Program> {
 protected:
  static void prepare(torch::jit::Module& module) {
    module.register_parameter("w", at::full({6}, 1.5, at::kDouble).requires_grad_(true), false);
  }
  std::string source() const { return std::string("def forward(self, x, y):\n") + GetParam().body; }
};

/// For numbers of both signs, far apart: every branch is taken, loops make none, some and many trips.
TEST_P(DataDecides, EqualsLibTorchs) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({3, 6}, at::kDouble);
  for (const double y : {-3.0, -0.25, 0.0, 0.75, 2.0, 12.0}) {
    SavedModule module(source(), prepare);
    EXPECT_EQ(difference(module, {x, number(y)}, true, 20), "") << "y = " << y;
  }
}

TEST_P(DataDecides, IsOneTaskWithBodies) {
  const SavedModule module(source(), prepare);
  const auto imported = frontend::read_torch(module.path(), {.inputs = {"x=f64[batch,6]", "y=f64[]"}, .max_trips = 20});
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  bool found = false;
  for (const TaskId task : imported->graph.tasks()) found |= imported->graph.op(task).name == GetParam().operation;
  EXPECT_TRUE(found);
}

constexpr Program kPrograms[] = {
    {"Branch", "  if bool(y > 0):\n    x = x + self.w\n  else:\n    x = x * self.w\n  return x\n", "core.if"},
    {"WithoutAnElse", "  if bool(y > 0):\n    x = x + y\n  return x\n", "core.if"},
    {"EarlyReturn", "  if bool(y > 1):\n    return x - 1\n  return x.relu()\n", "core.if"},
    {"OfANumber", "  s = y.item()\n  if s > 0.5:\n    return x * 2\n  return x * 3\n", "core.if"},
    {"Negated", "  if not bool(y > 0):\n    return x * 2\n  return x + 3\n", "core.if"},
    {"BothTruths", "  if bool(y > 0) and bool(self.w.sum() > y):\n    return x * 2\n  return x + 3\n", "core.if"},
    {"Nested", "  if bool(y > 0):\n    if bool(y > 1):\n      x = x + 1\n    else:\n      x = x + 2\n  return x * 2\n",
     "core.if"},
    {"SeveralResults",
     "  a = x\n  b = x * 2\n  if bool(y > 0):\n    a, b = b, a\n  else:\n    b = b + self.w\n  return a - b\n",
     "core.if"},
    {"ListsOfTensors",
     "  if bool(y > 0):\n    parts = [x, x * 2]\n  else:\n    parts = [x - 1, x]\n  return torch.cat(parts, 1)\n",
     "core.if"},
    {"MethodsInside",
     "  if bool(y > 0):\n    return self.twice(x)\n  return x\ndef twice(self, x):\n  return x * 2 + self.w\n",
     "core.if"},
    {"KnownLoopInside", "  if bool(y > 0):\n    for i in range(3):\n      x = x + i\n  return x\n", "core.if"},
    {"While", "  n = y\n  while bool(n < 5):\n    n = n + 1.5\n    x = x * self.w\n  return x + n\n", "core.loop"},
    {"CountedByData", "  for i in range(int(y)):\n    x = x + i * self.w\n  return x\n", "core.loop"},
    {"Break",
     "  total = y\n  for i in range(6):\n    x = x + 1\n    total = total + 1\n    if bool(total > 4):\n      break\n  "
     "return x * total\n",
     "core.loop"},
    {"OtherNumbers", "  n = 1\n  f = 0.1\n  if bool(y > 0):\n    n = 2\n    f = 0.7\n  return x * n + f\n", "core.if"},
    {"NumbersOfALoop",
     "  n = 1\n  f = 0.5\n  while bool(y < 3):\n    y = y + 1\n    n = n * 2\n    f = f + 0.1\n  return x * n - f\n",
     "core.loop"},
    {"ListsOfALoop",
     "  h = (x, x * 2)\n  while bool(y < 3):\n    y = y + 1\n    h = (h[1], h[0] + 1)\n  return h[0] - h[1]\n",
     "core.loop"},
    {"NothingOfALoop", "  while bool(y < 3):\n    y = y + 1\n    z = y * 2\n  return x + y\n", "core.loop"},
    {"BranchInLoop",
     "  n = y\n  while bool(n < 3):\n    n = n + 1\n    if bool(n > 1):\n      x = x + self.w\n  return x\n",
     "core.loop"},
};
INSTANTIATE_TEST_SUITE_P(Each, DataDecides, testing::ValuesIn(kPrograms),
                         [](const auto& info) { return info.param.name; });

/// A number of the whole mini-batch is none of a micro-batch: who asks for it is told.
TEST(DataOfSamples, DoesNotDecide) {
  SavedModule module("def forward(self, x, y):\n  if bool(x.sum() > y):\n    x = x + 1\n  return x\n");
  const std::string said = difference(module, {at::randn({3, 6}, at::kDouble), number(0)});
  EXPECT_NE(said.find("mix the samples of a micro-batch"), std::string::npos) << said;
  EXPECT_EQ(difference(module, {at::randn({3, 6}, at::kDouble), number(0)}, false), "") << "of a batch that is baked";
}

struct Refused {
  const char *name, *source, *reports;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }
class DataCannotDecide : public testing::TestWithParam<Refused> {};

TEST_P(DataCannotDecide, NamesThePlace) {
  const SavedModule module(GetParam().source);
  const auto imported = frontend::read_torch(module.path(), {.inputs = {"x=f64[batch,6]", "y=f64[]"}});
  ASSERT_FALSE(imported.ok());
  EXPECT_NE(imported.diagnostic().str().find(GetParam().reports), std::string::npos) << imported.diagnostic().str();
}

constexpr Refused kRefused[] = {
    {"OneSample", "def forward(self, x, y):\n  if bool(x[0, 0] > 0):\n    return x + 1\n  return x - 1\n", "sample"},
    {"WriteFromInside", "def forward(self, x, y):\n  a = x + 1\n  if bool(y > 0):\n    a.add_(1)\n  return a\n",
     "into a tensor outside"},
    {"ListFromInside",
     "def forward(self, x, y):\n  parts = [x]\n  if bool(y > 0):\n    parts.append(x * 2)\n  return torch.cat(parts, "
     "1)\n",
     "modifies a list from outside"},
    {"OtherNumbersAsSizes",
     "def forward(self, x, y):\n  n = 1\n  if bool(y > 0):\n    n = 2\n  return x.repeat(1, n)\n",
     "expected integers that follow from sizes"},
    {"OtherTexts",
     "def forward(self, x, y):\n  mode = 'a'\n  if bool(y > 0):\n    mode = 'b'\n  if mode == 'a':\n    x = x + 1\n  "
     "return x\n",
     "other lists, texts or None"},
    {"Samples", "def forward(self, x, y):\n  for i in range(x.size(0) + int(y) * 0):\n    x = x + 1\n  return x\n",
     "--max-trips"},
    {"OtherShapes", "def forward(self, x, y):\n  if bool(y > 0):\n    return x\n  return x[:, :2]\n",
     "different types"},
    {"NoBound", "def forward(self, x, y):\n  while bool(y < 5):\n    y = y + 1\n  return x * y\n", "--max-trips"},
    {"SizeOfData", "def forward(self, x, y):\n  return x.repeat(1, int(y))\n",
     "expected integers that follow from sizes"},
};
INSTANTIATE_TEST_SUITE_P(Each, DataCannotDecide, testing::ValuesIn(kRefused),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rannc::test
