// Exchanges moments and gradient sums between replicas around LibTorch's own kernels.
#include "runtime/engine/internal/sync_batch_norm.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

namespace jit = torch::jit;

/// The arguments of aten::batch_norm, in the order of its schema.
struct Call {
  static constexpr size_t kCount = 9;
  explicit Call(const jit::Stack& stack)
      : x(jit::peek(stack, 0, kCount).toTensor()),
        scale(jit::peek(stack, 1, kCount).toTensor()),
        bias(jit::peek(stack, 2, kCount).toTensor()),
        mean(jit::peek(stack, 3, kCount).toTensor()),
        variance(jit::peek(stack, 4, kCount).toTensor()),
        training(jit::peek(stack, 5, kCount).toBool()),
        momentum(jit::peek(stack, 6, kCount).toDouble()),
        epsilon(jit::peek(stack, 7, kCount).toDouble()) {}
  at::Tensor x, scale, bias, mean, variance;
  bool training;
  double momentum, epsilon;
};

/// Reshapes one number per channel so that it broadcasts with x.
at::Tensor beside(const at::Tensor& x, const at::Tensor& numbers) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[1] = -1;
  return numbers.to(x.scalar_type()).view(sizes);
}

/// Gradient through moments over all replicas. Scale and bias get this replica's sums, which are added up at the end of
/// the step.
struct Backward final : torch::autograd::Node {
  SyncBatchNorm* norms = nullptr;
  size_t index = 0;
  torch::autograd::SavedVariable saved_x, saved_scale;
  SyncBatchNorm::Moments moments;
  double epsilon = 0;

  std::string name() const override { return "SyncBatchNormBackward"; }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!gradients[0].defined()) return {{}, {}, {}};
    const at::Tensor given_x = saved_x.unpack(), given_scale = saved_scale.unpack();
    const at::ScalarType wide = sum_type(given_x.scalar_type());
    const at::Tensor x = given_x.to(wide), scale = given_scale.to(wide), dy = gradients[0].to(wide);
    const auto [none, of_scale, of_bias] =
        at::native_batch_norm_backward(dy, x, scale, moments.mean.to(wide), moments.variance.to(wide), {}, {},
                                       /*train=*/false, epsilon, {false, true, true});
    torch::autograd::variable_list results(3);
    if (task_should_compute_output(0)) {
      const at::Tensor rstd = (moments.variance + epsilon).rsqrt();
      results[0] =
          norms->input_gradient(index, {dy, x, scale, moments.mean, rstd, of_scale, of_bias}).to(given_x.scalar_type());
    }
    if (task_should_compute_output(1)) results[1] = of_scale.to(given_scale.scalar_type());
    if (task_should_compute_output(2)) results[2] = of_bias.to(given_scale.scalar_type());
    return results;
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_x.reset_data();
    saved_scale.reset_data();
  }
};

SyncBatchNorm::Moments moments_of(const at::Tensor& x) {
  const auto [mean, variance] = at::batch_norm_update_stats(x, {}, {}, 0);
  return {mean.to(at::kDouble), variance.to(at::kDouble),
          static_cast<double>(x.numel()) / static_cast<double>(mean.numel())};
}

at::Tensor normalised(SyncBatchNorm& norms, size_t index, const Call& call) {
  SyncBatchNorm::Normalised made;
  {
    const c10::NoGradGuard no_grad;
    made = norms.forward(index, call.x.detach(), call.scale.detach(), call.bias.detach(), call.epsilon);
    call.mean.copy_(made.mean);
    call.variance.copy_(made.variance);
  }
  at::Tensor& y = made.y;
  if (!at::GradMode::is_enabled() || !torch::autograd::compute_requires_grad(call.x, call.scale, call.bias)) return y;
  const std::shared_ptr<Backward> node(new Backward, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(call.x, call.scale, call.bias));
  node->norms = &norms;
  node->index = index;
  node->saved_x = torch::autograd::SavedVariable(call.x, /*is_output=*/false);
  node->saved_scale = torch::autograd::SavedVariable(call.scale, /*is_output=*/false);
  node->moments = std::move(made.all);
  node->epsilon = call.epsilon;
  torch::autograd::set_history(y, node);
  return y;
}

c10::FunctionSchema schema_of(const std::string& name) {
  std::vector<c10::Argument> arguments;
  for (size_t i = 0; i < Call::kCount; ++i) arguments.emplace_back(fmt::format("a{}", i), c10::AnyType::get());
  return {name, "", std::move(arguments), {c10::Argument("", c10::TensorType::get())}};
}

/// Whether a node normalizes by batch statistics in training, that is, reads the program's training flag.
bool trains(const jit::Graph& graph, const jit::Node& node) {
  static const auto one = c10::Symbol::fromQualString("aten::batch_norm"),
                    with_moments = c10::Symbol::fromQualString("aten::native_batch_norm");
  return (node.kind() == one || node.kind() == with_moments) && node.input(5)->node() == graph.param_node();
}

void replace(jit::Graph& graph, jit::Node* node, jit::Function* function) {
  const jit::WithInsertPoint here(node);
  jit::Node* constant = graph.insertNode(graph.create(c10::prim::Constant));
  constant->s_(c10::attr::name, function->name());
  constant->output()->setType(c10::FunctionType::create(function));
  std::vector<jit::Value*> inputs = {constant->output()};
  inputs.insert(inputs.end(), node->inputs().begin(), node->inputs().end());
  jit::Node* call = graph.insertNode(graph.create(c10::prim::CallFunction, inputs));
  call->output()->setType(c10::TensorType::get());
  node->output()->replaceAllUsesWith(call->output());
  node->destroy();
}

}  // namespace

Result<void> SyncBatchNorm::take_over(jit::Graph& graph, const std::vector<bool>& synchronised) {
  std::vector<jit::Node*> calls;
  for (jit::Node* node : graph.nodes()) {
    if (trains(graph, *node)) calls.push_back(node);
  }
  if (calls.size() != synchronised.size()) {
    return error(fmt::format("the program has {} batch normalizations with batch statistics, but the plan expects {}",
                             calls.size(), synchronised.size()));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!synchronised[i]) continue;
    if (calls[i]->outputs().size() != 1) {
      return error(
          fmt::format("batch normalization {} of the program returns its statistics, which a synchronized one "
                      "does not",
                      i));
    }
    const std::string name = fmt::format("sync_batch_norm_{}", i);
    functions_.push_back(std::make_unique<jit::BuiltinOpFunction>(c10::QualifiedName("rannc", name), schema_of(name),
                                                                  [this, i](jit::Stack& stack) { run(i, stack); }));
    replace(graph, calls[i], functions_.back().get());
  }
  return {};
}

void SyncBatchNorm::begin_pass(ReplicaSums* replicas) {
  replicas_ = replicas;
  failure_.reset();
}

void SyncBatchNorm::run(size_t index, jit::Stack& stack) {
  at::Tensor y;
  {
    const Call call(stack);
    y = call.training && replicas_ != nullptr
            ? normalised(*this, index, call)
            : at::batch_norm(call.x, call.scale, call.bias, call.mean, call.variance, call.training, call.momentum,
                             call.epsilon, /*cudnn_enabled=*/false);
  }
  jit::drop(stack, Call::kCount);
  stack.emplace_back(std::move(y));
}

at::Tensor SyncBatchNorm::exchanged(at::Tensor own) {
  Result<Value> sum = replicas_->sum(to_value(std::move(own)));
  if (sum.ok()) return to_tensor(*sum);
  failure_ = sum.diagnostic();
  throw std::runtime_error(failure_->message);
}

void SyncBatchNorm::expect_same_call(size_t index, const at::Tensor& of_replicas) {
  if (of_replicas.eq(static_cast<double>(index)).all().item<bool>()) return;
  failure_ =
      error(fmt::format("replicas of the stage run different batch normalizations, this one number {}: a "
                        "data-dependent branch must not determine whether a gradient flows through one",
                        index));
  throw std::runtime_error(failure_->message);
}

SyncBatchNorm::Moments SyncBatchNorm::moments(size_t index, const Moments& own) {
  const int64_t channels = own.mean.numel();
  const auto options = own.mean.options();
  // One row per replica. All others are zero, so each row's sum is exact in any order.
  at::Tensor rows = at::zeros({replicas_->replicas(), 2 + 2 * channels}, options);
  const at::Tensor head = at::tensor({static_cast<double>(index), own.count}, options);
  rows[replicas_->replica()].copy_(at::cat({head, own.mean, own.variance}));
  rows = exchanged(std::move(rows));
  expect_same_call(index, rows.select(1, 0));
  const at::Tensor counts = rows.narrow(1, 1, 1), means = rows.narrow(1, 2, channels),
                   variances = rows.narrow(1, 2 + channels, channels);
  const at::Tensor count = counts.sum();
  const at::Tensor mean = (counts * means).sum(0) / count;
  const at::Tensor off = means - mean;
  return {mean, (counts * (variances + off * off)).sum(0) / count, count.item<double>()};
}

SyncBatchNorm::Normalised SyncBatchNorm::forward(size_t index, const at::Tensor& given_x, const at::Tensor& scale,
                                                 const at::Tensor& bias, double epsilon) {
  const at::ScalarType type = given_x.scalar_type(), wide = sum_type(type);
  const at::Tensor x = given_x.to(wide);
  const Moments own = moments_of(x);
  Moments all = moments(index, own);
  const auto made = at::native_batch_norm(x, scale.to(wide), bias.to(wide), all.mean.to(wide), all.variance.to(wide),
                                          /*training=*/false, 0, epsilon);
  const at::Tensor unbiased = own.count > 1 ? own.variance * (own.count / (own.count - 1)) : own.variance;
  return {std::get<0>(made).to(type), own.mean.to(type), unbiased.to(type), std::move(all)};
}

at::Tensor SyncBatchNorm::input_gradient(size_t index, const Backward& of) {
  const int64_t channels = of.mean.numel();
  const at::Tensor own_count = at::full({1}, static_cast<double>(of.x.numel() / channels), of.mean.options());
  const at::Tensor sums = sum(index, at::cat({of.of_scale.to(at::kDouble), of.of_bias.to(at::kDouble), own_count}));
  const at::Tensor count = sums.narrow(0, 2 * channels, 1);
  const at::Tensor slope = of.rstd * sums.narrow(0, 0, channels) / -count;
  const at::Tensor shift = sums.narrow(0, channels, channels) / count;
  at::Tensor dx = of.x - beside(of.x, of.mean);
  return dx.mul_(beside(of.x, slope))
      .add_(of.dy)
      .sub_(beside(of.x, shift))
      .mul_(beside(of.x, of.scale.to(at::kDouble) * of.rstd));
}

at::Tensor SyncBatchNorm::sum(size_t index, const at::Tensor& own) {
  RANNC_CHECK(replicas_ != nullptr) << "a backward pass is over the replicas of its forward pass";
  // Every normalization has its own index. If the indices differ, at least one replica's differs from their mean.
  const at::Tensor sums = exchanged(at::cat({at::full({1}, static_cast<double>(index), own.options()), own}));
  expect_same_call(index, sums.narrow(0, 0, 1) / static_cast<double>(replicas_->replicas()));
  return sums.narrow(0, 1, own.numel());
}

}  // namespace rannc::runtime
