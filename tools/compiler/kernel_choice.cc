#include "tools/compiler/kernel_choice.h"

#include <algorithm>

#include "partition/model/model_costs.h"
#include "passes/manager.h"
#include "passes/planning/choose_kernels.h"

namespace rannc::tools {

namespace {

class DatabaseTimes final : public passes::KernelTimes {
 public:
  DatabaseTimes(const partition::ProfileDatabase& database, std::string environment, uint64_t samples)
      : database_(database), environment_(std::move(environment)), samples_(samples) {}

  std::optional<double> ns(const ir::Graph& graph, TaskId task,
                           const std::vector<ir::GradientRole>& roles) const override {
    const auto* curve = database_.find(environment_, partition::structural_key(graph, task, roles));
    if (curve == nullptr || curve->empty()) return std::nullopt;
    const partition::TaskCost cost = partition::at_samples(*curve, samples_);
    return cost.forward_ns + cost.backward_ns();
  }

 private:
  const partition::ProfileDatabase& database_;
  std::string environment_;
  uint64_t samples_;
};

}  // namespace

uint64_t samples_at_once(const PreparedModel& model, const partition::PlanOptions& options) {
  const bool whole = options.micro_batches.empty() || options.micro_batches == std::vector<uint64_t>{1};
  if (options.cluster.size() == 1 && whole) return options.mini_batch;
  const auto planned = plan_prepared(model, options);
  if (!planned.ok()) return options.mini_batch;
  const ir::Plan& plan = planned->plan;
  std::vector<uint64_t> samples;
  for (const ir::Stage& stage : plan.stages) {
    const uint64_t replicas = std::max<size_t>(1, stage.devices.size());
    samples.push_back((plan.micro_batches.front() + replicas - 1) / replicas);
  }
  std::nth_element(samples.begin(), samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2), samples.end());
  return samples[samples.size() / 2];
}

namespace {

Result<bool> choose(PreparedModel& model, std::unique_ptr<passes::Pass> pass) {
  passes::PassManager manager;
  manager.add(std::move(pass));
  passes::PassContext context;
  const passes::RunReport report = manager.run(model.graph, context, {.reproducer = false});
  if (!report.ok()) return *report.failure;
  if (!report.times.front().changed) return false;
  model.remarks.insert(model.remarks.end(), context.remarks.begin(), context.remarks.end());
  RANNC_TRY(form_atoms(model));
  return true;
}

}  // namespace

Result<bool> choose_kernels(PreparedModel& model, const partition::ProfileDatabase& database,
                            const std::string& environment, uint64_t samples) {
  const auto times = std::make_shared<DatabaseTimes>(database, environment, samples);
  return choose(model, std::make_unique<passes::ChooseKernels>(times));
}

bool on_cuda(const partition::Cluster& cluster) {
  const std::vector<std::string> used = cluster.used_kinds();
  return std::all_of(cluster.kinds.begin(), cluster.kinds.end(), [&](const partition::DeviceKind& kind) {
    return kind.type == ir::DeviceType::kCuda || std::find(used.begin(), used.end(), kind.name) == used.end();
  });
}

passes::TensorCores tensor_cores(const RequestedPlan& request) {
  const std::vector<partition::DeviceKind>& kinds = request.planning.cluster.kinds;
  const bool all = std::all_of(kinds.begin(), kinds.end(),
                               [](const auto& kind) { return kind.flops_per_second.tf32 > kind.flops_per_second.f32; });
  const bool tf32 = all && request.options.matmul_precision == compiler::MatmulPrecision::kHigh;
  return tf32 ? passes::TensorCores::kSixteenBitsAndTf32 : passes::TensorCores::kSixteenBits;
}

Result<bool> choose_cuda_layouts(PreparedModel& model, const ir::Bindings& sizes, passes::TensorCores tensor_cores) {
  const auto layouts = std::make_shared<passes::CudaLayouts>(sizes, tensor_cores);
  return choose(model, std::make_unique<passes::ChooseKernels>(layouts, passes::WeightFormat::kChannelsLast));
}

}  // namespace rannc::tools
