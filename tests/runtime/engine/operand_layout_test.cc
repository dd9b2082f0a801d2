// Operands of products begin at multiples of 64 bytes and have one layout, wherever their numbers come from.
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "ir/text/text.h"
#include "runtime/transport/transports.h"
#include "tests/runtime/support/numbers_of_models.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/runtime/transport/joined_ends.h"

namespace rannc::testing {
namespace {

constexpr uint32_t kSamples = 5;
const std::vector<uint32_t> kMicroBatches = {3, 2};

/// Copies a tensor to an address that is so many elements after a multiple of 64 bytes.
at::Tensor moved(const at::Tensor& tensor, int64_t elements) {
  const at::Tensor room = at::empty({tensor.numel() + elements}, tensor.options());
  return room.narrow(0, elements, tensor.numel()).view(tensor.sizes()).copy_(tensor);
}

void give_weights(ir::Graph& graph, at::ScalarType type) {
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    const at::Tensor made = at::randn(sizes_of(graph.type(value), 1), type).mul_(0.1);
    const auto* first = static_cast<const std::byte*>(made.const_data_ptr());
    graph.set_data(value, ir::TensorData::in_memory({first, first + made.nbytes()}));
  }
}

/// Layers of 100 columns, which are no multiple of 64 bytes, with a transposition between them. LibTorch's products of
/// these sizes have other bits at other addresses and in other layouts, also on processors where smaller ones do not.
ir::Graph wide_model(const std::string& type) {
  std::string text = R"(rannc.graph 1
batch batch
input %x: T[batch,64,100] samples 0
input %target: T[batch,100,8] samples 0
parameter %w0: T[100,100]
parameter %w1: T[64,100]
parameter %w2: T[8,100]
#0 %a: T[batch,64,100] samples 0 = core.linear(%x, %w0) {layout = "oi"}
#1 %p: T[batch,100,64] samples 0 = core.permute(%a) {dims = [0,2,1]}
#2 %q: T[batch,100,100] samples 0 = core.matmul(%p, %w1)
#3 %y: T[batch,100,8] samples 0 = core.linear(%q, %w2) {layout = "oi"}
#4 %l: T[] partial = core.mse_sum(%y, %target)
inputs [%x, %target]
outputs [%y]
loss %l weight 0x1p+0
)";
  for (size_t at = text.find("T["); at != std::string::npos; at = text.find("T[", at + 1)) text.replace(at, 1, type);
  ir::Graph graph = ir::parse_graph(text, "wide.rir").value();
  at::manual_seed(5);
  give_weights(graph, type == "f64" ? at::kDouble : at::kFloat);
  return graph;
}

std::map<std::string, at::Tensor> wide_batch(const ir::Graph& graph, const std::string& type) {
  auto batch = batch_for(graph, kSamples);
  for (auto& [name, tensor] : batch) tensor = tensor.to(type == "f64" ? at::kDouble : at::kFloat);
  return batch;
}

class WideLayouts : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Types, WideLayouts, ::testing::Values("f32", "f64"),
                         [](const auto& info) { return info.param; });

TEST_P(WideLayouts, OfABatchDoNotChangeABit) {
  const ir::Plan plan = build_plan(wide_model(GetParam()), {.cuts = {2}, .micro_batches = kMicroBatches});
  const auto batch = wide_batch(plan.graph, GetParam());
  for (const std::string engine : {"explicit", "native"}) {
    const Numbers expected = run_locally(plan, batch, {1.0}, {.engine = engine});
    const Numbers evaluated = run_locally(plan, batch, {1.0}, {.training = false, .engine = engine});
    for (const int64_t elements : {1, 2, 4, 8, 12}) {
      SCOPED_TRACE(fmt::format("{}, {} elements after an aligned address", engine, elements));
      auto odd = batch;
      for (auto& [name, tensor] : odd) tensor = moved(tensor, elements);
      expect_same_bits(run_locally(plan, odd, {1.0}, {.engine = engine}), expected);
      expect_same_bits(run_locally(plan, odd, {1.0}, {.training = false, .engine = engine}), evaluated);
    }
    SCOPED_TRACE(engine + ", transposed");
    auto transposed = batch;
    for (auto& [name, tensor] : transposed) tensor = tensor.mT().contiguous().mT();
    expect_same_bits(run_locally(plan, transposed, {1.0}, {.engine = engine}), expected);
  }
}

// Threads hand tensors over, which are parts of larger ones or transposed. Between processes, they are copied.
TEST_P(WideLayouts, OfMessagesDoNotChangeABit) {
  for (const std::vector<uint32_t>& replicas : std::vector<std::vector<uint32_t>>{{1, 1}, {1, 2}, {2, 1}}) {
    const ir::Plan plan =
        build_plan(wide_model(GetParam()), {.cuts = {2}, .replicas = replicas, .micro_batches = kMicroBatches});
    const auto batch = wide_batch(plan.graph, GetParam());
    SCOPED_TRACE(fmt::format("{} and {} replicas", replicas[0], replicas[1]));
    const Numbers handed_over = run_locally(plan, batch, {1.0});
    Ends ends = gloo_ends(static_cast<uint32_t>(plan.devices.size()));
    expect_same_bits(run_locally(plan, batch, {1.0}, {.transports = ends}), handed_over);
    leave(ends);
  }
}

// The rows of one sample, turned, are contiguous, but not in the strides of a received tensor.
TEST(Layouts, OfOneSampleDoNotChangeABit) {
  ir::Graph graph = ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f64[batch,3,4] samples 0
input %target: f64[3,batch,4] samples 1
parameter %w: f64[4,4]
#0 %a: f64[batch,3,4] samples 0 = core.tanh(%x)
#1 %p: f64[3,batch,4] samples 1 = core.permute(%a) {dims = [1,0,2]}
#2 %y: f64[3,batch,4] samples 1 = core.linear(%p, %w)
#3 %l: f64[] partial = core.mse_sum(%y, %target)
inputs [%x, %target]
outputs [%y]
loss %l weight 0x1p+0
)",
                                    "turned.rir")
                        .value();
  at::manual_seed(5);
  give_weights(graph, at::kDouble);
  const auto batch = batch_for(graph, 4);
  const auto run = [&](const std::vector<uint32_t>& cuts) {
    return run_locally(build_plan(graph.clone(), {.cuts = cuts, .micro_batches = {1, 1, 2}}), batch, {1.0});
  };
  const Numbers expected = run({});
  expect_same_bits(run({1}), expected);
  expect_same_bits(run({2}), expected);
}

/// While it exists, records the operands of products that do not begin at a multiple of 64 bytes.
class ProductOperands {
 public:
  ProductOperands() {
    current_ = this;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&ProductOperands::begins).needsInputs(true));
  }
  ~ProductOperands() {
    at::removeCallback(handle_);
    current_ = nullptr;
  }
  ProductOperands(const ProductOperands&) = delete;
  ProductOperands& operator=(const ProductOperands&) = delete;

  size_t seen() const { return seen_; }
  const std::set<std::string>& misaligned() const { return misaligned_; }

 private:
  static std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& call) {
    static const std::set<std::string> kProducts = {"aten::mm",     "aten::addmm",  "aten::addmm_", "aten::bmm",
                                                    "aten::linear", "aten::matmul", "aten::baddbmm"};
    if (!kProducts.contains(call.name())) return nullptr;
    const std::lock_guard lock(current_->mutex_);
    for (const c10::IValue& input : call.inputs()) {
      if (!input.isTensor() || !input.toTensor().defined()) continue;
      ++current_->seen_;
      const auto address = reinterpret_cast<uintptr_t>(input.toTensor().const_data_ptr());
      if (address % 64 != 0) current_->misaligned_.insert(fmt::format("{}: {} bytes off", call.name(), address % 64));
    }
    return nullptr;
  }

  static inline ProductOperands* current_ = nullptr;
  at::CallbackHandle handle_ = 0;
  std::mutex mutex_;
  size_t seen_ = 0;
  std::set<std::string> misaligned_;
};

// Samples of 6 elements, of which parts begin anywhere.
TEST(ProductOperands, AreAligned) {
  for (const ir::DType type : {ir::DType::kF32, ir::DType::kF64}) {
    for (const bool recompute : {false, true}) {
      for (const std::vector<uint32_t>& replicas : std::vector<std::vector<uint32_t>>{{}, {1, 2}, {2, 3}, {3, 1}}) {
        SCOPED_TRACE(fmt::format("{}, recompute {}", ::testing::PrintToString(replicas), recompute));
        const ir::Plan plan =
            build_plan(skip_and_tie(type),
                       {.cuts = {3}, .replicas = replicas, .micro_batches = kMicroBatches, .recompute = recompute});
        auto batch = batch_for(plan.graph, kSamples);
        for (auto& [name, tensor] : batch)
          tensor = moved(tensor.to(type == ir::DType::kF64 ? at::kDouble : at::kFloat), 1);
        const ProductOperands operands;
        run_locally(plan, batch, {30.0}, {.steps = 2});
        run_locally(plan, batch, {30.0}, {.training = false});
        EXPECT_GT(operands.seen(), 0U);
        EXPECT_EQ(operands.misaligned(), std::set<std::string>());
      }
    }
  }
}

}  // namespace
}  // namespace rannc::testing
