// Which kernel of a GPU computes attention, and that its calls have the numbers of the processor.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/op/flash_attention.h"
#include "ir/op/op.h"
#include "ir/op/op_memory.h"
#include "ir/text/text.h"
#include "runtime/aten/aten_call.h"
#include "tests/codegen/prepared_case.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::ir {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int64_t kSamples = 3, kHeads = 2;

struct Attention {
  DType dtype = DType::kBF16;
  Dim queries = 40, keys = 40;
  int64_t features = 16;
  bool causal = false;
  bool mask = false;
  Shape order = {0, 2, 1, 3};
  double scale = 0.3;
  bool flash = true;  ///< the GPU has it

  Attributes attributes() const { return {{"scale", scale}, {"order", order}, {"causal", causal}}; }
  Shape in_order(const Shape& by_heads) const {
    Shape shape;
    for (const Dim& axis : order) shape.push_back(by_heads[static_cast<size_t>(axis.constant())]);
    return shape;
  }
  ValueType type(const Shape& shape) const { return {.dtype = dtype, .shape = shape}; }
  ValueType q() const { return type({kSamples, kHeads, queries, features}); }
  ValueType k() const { return type({kSamples, kHeads, keys, features}); }
  ValueType result() const { return type(in_order(*q().shape)); }
  ValueType log_sums() const {
    return {.dtype = dtype == DType::kF64 ? DType::kF64 : DType::kF32, .shape = Shape{kSamples, kHeads, queries}};
  }
  ValueType hidden() const { return {.dtype = dtype, .shape = Shape{1, 1, queries, keys}}; }
};

/// Lowers attention, or its gradient, for the processor or a GPU. `rows`: as in `LowerCall`.
aten::Lowering lowered(const Attention& of, bool gradient, DeviceType device, uint64_t rows = 0) {
  const ValueType q = of.q(), k = of.k(), y = of.result(), sums = of.log_sums(), mask = of.hidden();
  const ValueType* const present = of.mask ? &mask : nullptr;
  const std::vector<const ValueType*> forward = {&q, &k, &k, present}, backward = {&y, &q, &k, &k, &y, &sums, present};
  const std::vector<const ValueType*> made = {&y, &sums}, gradients = {&q, &k, &k};
  const Attributes attributes = of.attributes();
  LowerCall call(core(gradient ? "attention_grad" : "attention"), gradient ? backward : forward,
                 gradient ? gradients : made, attributes, device);
  call.flash_attention = of.flash && device == DeviceType::kCuda;
  call.rows = rows;
  return lowering(call).value();
}

/// The kernel that a GPU uses.
std::string kernel_of(const Attention& of, bool gradient) {
  const aten::Lowering made = lowered(of, gradient, DeviceType::kCuda);
  for (const aten::Call& call : made.calls) {
    EXPECT_TRUE(runtime::check_call(call).ok()) << call.schema;
    for (const char* name : {"flash", "efficient"}) {
      const std::string end = gradient ? "_backward" : "";
      if (call.schema == "aten::_scaled_dot_product_" + std::string(name) + "_attention" + end) return name;
    }
  }
  return "products";
}

TEST(GpuAttention, ChoosesTheKernel) {
  const std::pair<Attention, const char*> cases[] = {
      {{}, "flash"},
      {{.dtype = DType::kF16, .causal = true}, "flash"},
      {{.keys = 70}, "flash"},
      {{.features = 8, .order = {0, 1, 2, 3}}, "flash"},
      {{.features = 192}, "flash"},
      {{.queries = Dim::symbol("s"), .keys = Dim::symbol("s"), .causal = true}, "flash"},
      {{.queries = Dim::symbol("s"), .keys = Dim::symbol("t")}, "flash"},
      {{.scale = -0.3}, "efficient"},
      {{.flash = false}, "efficient"},
      {{.dtype = DType::kF32}, "efficient"},
      {{.mask = true}, "efficient"},
      {{.features = 200}, "efficient"},
      {{.queries = Dim::symbol("s"), .keys = Dim::symbol("t"), .causal = true}, "efficient"},
      {{.queries = 40, .keys = 70, .causal = true}, "efficient"},
      {{.features = 12}, "products"},
      {{.dtype = DType::kF64}, "products"},
  };
  for (const auto& [of, kernel] : cases) {
    for (const bool gradient : {false, true}) {
      EXPECT_EQ(kernel_of(of, gradient), kernel)
          << str(of.dtype) << " " << of.queries.str() << " " << of.keys.str() << " " << of.features << gradient;
    }
  }
}

/// Parts of one projection: rows in one piece, samples, places and heads apart.
at::Tensor part_of_projection(const Shape& by_heads, int64_t part, c10::ScalarType type) {
  const int64_t places = by_heads[2].constant(), features = by_heads[3].constant(), width = kHeads * features;
  const at::Tensor projected = at::randn({kSamples, places, 3 * width}, at::kDouble).to(type);
  return projected.narrow(2, part * width, width).view({kSamples, places, kHeads, features}).permute({0, 2, 1, 3});
}

Tensors run(const aten::Lowering& lowering, const Tensors& given, at::Device device) {
  std::vector<std::optional<at::Tensor>> operands;
  for (const at::Tensor& each : given) {
    operands.push_back(each.defined() ? std::optional(rannc::testing::test_device(0) == device ? each.to(device) : each)
                                      : std::nullopt);
  }
  Tensors results = runtime::run_lowering(lowering, {.operands = operands, .sizes = {}, .device = device}).value();
  return results;
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, const char* what) {
  const at::Tensor one = found.cpu().to(at::kDouble), other = expected.to(at::kDouble);
  ASSERT_EQ(one.sizes(), other.sizes()) << what;
  const double difference = (one - other).abs().max().item<double>();
  EXPECT_LE(difference, 0x1p-7 * std::max(1.0, other.abs().max().item<double>())) << what;
}

bool is_by_places(const at::Tensor& gradient) { return gradient.permute({0, 2, 1, 3}).is_contiguous(); }

// One rounding of bfloat16 is allowed, of results and gradients of about 1. Layouts are those that are promised.
TEST(GpuAttention, HasTheNumbersOfTheProcessor) {
  at::manual_seed(5);
  const at::Device gpu = rannc::testing::test_device(0);
  const std::vector<Shape> orders = {{0, 2, 1, 3}, {0, 1, 2, 3}, {3, 0, 2, 1}};
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const Shape& order : orders) {
      for (const uint64_t rows : {0U, 255U}) {
        for (const auto& [causal, mask, flash] :
             {std::tuple{false, false, true}, {true, false, true}, {true, false, false}, {false, true, true}}) {
          const Attention of{.dtype = dtype, .causal = causal, .mask = mask, .order = order, .flash = flash};
          SCOPED_TRACE(::testing::Message() << str(dtype) << str(order) << rows << causal << mask << flash);
          const c10::ScalarType type = testing::scalar_type(dtype);
          Tensors given;
          for (int64_t i = 0; i < 3; ++i) given.push_back(part_of_projection(*of.q().shape, i, type));
          given.push_back(mask ? at::randn({1, 1, 40, 40}).to(type) : at::Tensor());
          const Tensors made = run(lowered(of, false, DeviceType::kCuda, rows), given, gpu),
                        expected = run(lowered(of, false, DeviceType::kCpu), given, at::kCPU);
          expect_near(made[0], expected[0], "result");
          expect_near(made[1], expected[1], "log_sums");
          if (dtype != DType::kF32 && !mask && flash) EXPECT_TRUE(made[0].is_contiguous());
          const at::Tensor gy = at::randn(expected[0].sizes(), at::kDouble).to(type);
          // The processor's log-sums lie by places, which the kernels of GPUs would misread.
          const Tensors backward = {gy, given[0], given[1], given[2], expected[0], expected[1], given[3]};
          EXPECT_FALSE(expected[1].is_contiguous());
          const Tensors gradients = run(lowered(of, true, DeviceType::kCuda, rows << 1), backward, gpu),
                        wanted = run(lowered(of, true, DeviceType::kCpu), backward, at::kCPU);
          for (size_t i = 0; i < 3; ++i) {
            expect_near(gradients[i], wanted[i], "gradient");
            EXPECT_TRUE(is_by_places(gradients[i]));
          }
        }
      }
    }
  }
  EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
}

// The gradients of operands by heads have the axes that `axes_in_memory` of the operator says.
TEST(GpuAttention, LaysGradientsOutByPlaces) {
  at::manual_seed(6);
  const Attention of;
  const auto by_heads = [] { return at::randn({kSamples, kHeads, 40, 16}).to(at::kBFloat16); };
  const at::Tensor q = by_heads(), k = by_heads(), v = by_heads(), gy = by_heads().transpose(1, 2).contiguous();
  const Tensors made = run(lowered(of, false, DeviceType::kCpu), {q, k, v, {}}, at::kCPU);
  const Tensors backward = {gy, q, k, v, made[0], made[1].contiguous(), {}};
  constexpr uint64_t kAll = 255;
  for (const at::Tensor& each :
       run(lowered(of, true, DeviceType::kCuda, kAll), backward, rannc::testing::test_device(0)))
    EXPECT_TRUE(is_by_places(each));
}

/// What the planner counts for a gradient of 200 places and 80 features beside operands and results.
int64_t planned(const char* dtype, const char* order, const char* shape, const char* mask) {
  std::string text = R"(rannc.graph 1
input %g: T[SHAPE]
input %q: T[3,2,200,80]
input %y: T[SHAPE]
input %l: f32[3,2,200]
input %m: T[200,200]
#0 %a: T[3,2,200,80], %b: T[3,2,200,80], %c: T[3,2,200,80] = core.attention_grad(%g, %q, %q, %q, %y, %lMASK) {scale = 0x1p-1, order = [ORDER]}
inputs [%g, %q, %y, %l, %m]
outputs [%a, %b, %c]
)";
  for (const auto& [name, value] : {std::pair{"T[", dtype}, {"SHAPE", shape}, {"MASK", mask}, {"ORDER", order}}) {
    const std::string_view what = name;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;) {
      const std::string by = what == "T[" ? value + std::string("[") : value;
      text.replace(at, what.size(), by);
      at += by.size();
    }
  }
  const Graph graph = parse_graph(text, "t.rir").value();
  const TaskId task(0);
  return graph.op(task).temporary(MemoryCall(graph, task, Views(graph), DeviceType::kCuda)).constant();
}

// By the sources of LibTorch: blocks of 128 rows, units of 32 features, a number for each row.
TEST(GpuAttention, CountsTheSumsOfFlash) {
  constexpr int64_t kSums = 3 * 2 * 256 * (96 + 1) * 4, kResult = 3 * 2 * 200 * 80 * 2;
  for (const char* dtype : {"bf16", "f16"}) {
    EXPECT_EQ(planned(dtype, "0,2,1,3", "3,200,2,80", ""), kSums);
    EXPECT_EQ(planned(dtype, "0,1,2,3", "3,2,200,80", ""), kSums + 2 * kResult) << "copies of y and its gradient";
    EXPECT_LT(planned(dtype, "0,2,1,3", "3,200,2,80", ", %m"), kSums) << "by the other kernel";
  }
  EXPECT_LT(planned("f32", "0,2,1,3", "3,200,2,80", ""), kSums);
}

}  // namespace
}  // namespace rannc::ir
