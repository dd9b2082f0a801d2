// Whatever a model file holds: a diagnostic or a graph that verifies, soon, without a crash.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "frontend/onnx/import.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_text.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::frontend {
namespace {

/// Many operators in few bytes: functions, constants, shape arithmetic, windows, symbols.
constexpr const char* kModel = R"(
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
agraph (float[batch, 3, 8, 8] image, int64[batch, 6] words) => (float[batch, n] scores, float y)
<float[4, 3, 3, 3] kernel = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,
 1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9},
 float[4] bias = {1, 2, 3, 4}, float[5, 4] table = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20},
 int64[2] flat = {0, -1}, int64[1] one = {1}, int64[1] huge = {9223372036854775807}, float[4] scale = {1, 1, 1, 1}>
{
  a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (image, kernel, bias)
  b = Relu (a)
  c = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (b)
  d = GlobalAveragePool (c)
  e = Reshape (d, flat)
  f = Gather <axis = 0> (table, words)
  g = ReduceMean <axes = [1], keepdims = 0> (f)
  h = local.scaled <factor = 2.0> (e, g)
  i = LayerNormalization <axis = -1> (h, scale, bias)
  s = Shape (i)
  zero = Constant <value_ints = [0]> ()
  t = Gather <axis = 0> (s, zero)
  u = Concat <axis = 0> (t, one)
  v = ConstantOfShape <value = float[1] {1.5}> (u)
  w = Expand (v, s)
  m = Less (i, w)
  x = Where (m, w, i)
  r = Slice (x, one, huge, one)
  scores = Softmax <axis = 1> (x)
  y = ReduceSum <keepdims = 0> (scale)
}
<domain: "local", opset_import: ["" : 17]>
scaled <factor> (p, q) => (z)
{
  k = Constant <value_float : float = @factor> ()
  l = Mul (p, k)
  z = Add (l, q)
}
)";

uint64_t mutations() {
  const char* const requested = std::getenv("RANNC_MUTATIONS");
  return requested ? std::strtoull(requested, nullptr, 10) : 4000;
}

/// One to four edits: a bit, a byte, a number far out, a range dropped, doubled or moved, the end cut off.
std::string mutate(const std::string& original, std::mt19937_64& random) {
  std::string bytes = original;
  const auto below = [&](size_t n) { return n == 0 ? 0 : std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (size_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
    const size_t at = below(bytes.size());
    const size_t length = std::min(bytes.size() - at, 1 + below(40));
    switch (below(8)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes[at] = static_cast<char>(0xff);
        break;
      case 3:
        bytes.insert(at, std::string(9, static_cast<char>(0xff)) + '\x7f');
        break;
      case 4:
        bytes.erase(at, length);
        break;
      case 5:
        bytes.insert(below(bytes.size()), bytes.substr(at, length));
        break;
      case 6:
        bytes[at] = original[below(original.size())];
        break;
      default:
        if (below(4) == 0) bytes.resize(at);
        break;
    }
  }
  return bytes;
}

/// Imports, and verifies what came out; whether there was a graph.
bool survives(const std::string& bytes, const std::filesystem::path& path) {
  const auto graph = import_onnx_bytes(bytes, path);
  if (!graph.ok()) {
    EXPECT_FALSE(graph.diagnostic().message.empty());
    return false;
  }
  const auto wrong = ir::verify(*graph);
  EXPECT_TRUE(wrong.empty()) << wrong.front().str();
  return true;
}

void mutate_many(const std::string& original, const std::filesystem::path& path, uint64_t count, uint64_t seed) {
  uint64_t graphs = 0;
  for (uint64_t i = 0; i < count; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    std::mt19937_64 random(seed + i);
    graphs += survives(mutate(original, random), path) ? 1 : 0;
    if (testing::Test::HasFailure()) return;
  }
  // A mutation that never yields a graph, or always, would test half of the promise.
  if (count >= 500) {
    EXPECT_GT(graphs, 0u);
    EXPECT_LT(graphs, count);
  }
}

std::string model() { return test::onnx_bytes(kModel); }

TEST(Mutation, TheModelItselfImports) {
  const auto graph = import_onnx_bytes(model(), "model.onnx");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_TRUE(ir::verify(*graph).empty());
}

TEST(Mutation, EveryTruncationIsADiagnosticOrAGraph) {
  const std::string bytes = model();
  for (size_t length = 0; length < bytes.size(); ++length) survives(bytes.substr(0, length), "model.onnx");
}

TEST(Mutation, ManySmallEdits) { mutate_many(model(), "model.onnx", mutations(), 1); }

TEST(Mutation, SmallExports) {
  for (const auto& folder : test::small_model_folders()) {
    mutate_many(test::read_file(folder / "model.onnx"), folder / "model.onnx", mutations() / 40, 1000);
  }
}

TEST(Mutation, RealExports) {
  if (!test::shared_models()) GTEST_SKIP() << "no ../shared/data/models and no RANNC_SHARED_DIR";
  for (const char* const name : {"mlp_functions", "gpt2_legacy_ambiguous_b4", "two_task_legacy", "unet_train_legacy"}) {
    const auto path = *test::shared_models() / name / "model.onnx";
    mutate_many(test::read_file(path), path, mutations() / 40, 1000);
  }
}

}  // namespace
}  // namespace rannc::frontend
