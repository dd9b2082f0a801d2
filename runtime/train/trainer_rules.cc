// The rules by which a trainer updates parameters.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/gradient/gradient_reach.h"
#include "runtime/internal/digest.h"
#include "runtime/train/internal/trainer_impl.h"

namespace rannc::runtime {

std::unique_ptr<StageOptimizer> Trainer::Impl::make_optimizer(Program& program, StageId stage, DeviceId device,
                                                              Device& hardware) const {
  const std::vector<bool> reached = ir::reached_by_gradient(plan().graph);
  std::vector<bool> left_alone;
  for (const Weight& parameter : program.signature().parameters)
    left_alone.push_back(!reached[parameter.value.index()]);
  return std::make_unique<StageOptimizer>(options_.optimizer, stage_updates(updates_, program.signature()), program,
                                          std::move(left_alone), share_of(pipeline_, stage, device), hardware);
}

Result<ir::ParameterUpdates> Trainer::Impl::updates_of(const ir::Plan& plan, const OptimizerOptions& options) {
  if (!plan.training) return ir::ParameterUpdates::of(plan.graph, ir::PlanOptimizer());
  return ir::ParameterUpdates::of(plan.graph, options, options.grouping);
}

// A number of 40 bits, of which some thousands can be added up exactly.
void Trainer::Impl::digest_rules() {
  std::string text;
  for (const ir::UpdateGroup& group : updates_.groups())
    text += fmt::format("{} {}\n", ir::describe(group.rule), fmt::join(group.tensors, " "));
  rules_digest_ = static_cast<double>(std::stoull(digest_of(text).substr(0, 10), nullptr, 16));
}

void Trainer::Impl::set_learning_rate(double rate) {
  options_.optimizer.learning_rate = rate;
  take_updates(updates_of(plan(), options_.optimizer).value()).value();  // groups that were valid are
}

Result<void> Trainer::Impl::take_updates(ir::ParameterUpdates updates) {
  const bool same_average = updates.averaged() == updates_.averaged();
  const bool same = updates.have_groups_of(updates_) && same_average, keep = updates.have_states_of(updates_);
  updates_ = std::move(updates);
  digest_rules();
  if (!keep) {  // shares are cut elsewhere
    pipeline_ = make_pipeline(plan(), updates_);
    smaller_.reset();
    accumulated_samples_ = 0;
    owned_ = owned_parameters(plan(), pipeline_, devices_);
  }
  const auto take = [&](TrainedDevice& device) -> Result<void> {
    for (size_t s = 0; s < device.optimizers.size(); ++s) {
      if (!device.optimizers[s]) continue;
      if (same) {
        device.optimizers[s]->set_options(options_.optimizer,
                                          stage_updates(updates_, device.programs[s]->signature()).rules);
        continue;
      }
      const auto old = std::move(device.optimizers[s]);
      device.optimizers[s] =
          make_optimizer(*device.programs[s], StageId::from(s), device.id, device.transport->hardware());
      if (keep) device.optimizers[s]->take_states(*old);
    }
    if (keep) return {};
    device.smaller.reset();
    device.executor = make_executor(pipeline_, device);
    return {};
  };
  return same ? devices_.enqueue_each(take) : devices_.for_each(take);
}

Result<void> Trainer::Impl::set_groups(std::vector<ir::ParameterGroup> groups) {
  RANNC_TRY(await_begun());
  OptimizerOptions changed = options_.optimizer;
  changed.grouping.groups = std::move(groups);
  RANNC_ASSIGN(ir::ParameterUpdates updates, updates_of(plan(), changed));
  if (updates_done_ > 0 && !updates.have_states_of(updates_))
    return error("after the first update, groups may change settings, but not the state that parameters need");
  options_.optimizer = std::move(changed);
  return take_updates(std::move(updates));
}

Result<void> Trainer::Impl::restart_averages() {
  return devices_.for_each([](TrainedDevice& device) -> Result<void> {
    for (const auto& optimizer : device.optimizers) {
      if (optimizer) optimizer->restart_averages();
    }
    return {};
  });
}

// Exchanges contents, so that recordings stay valid. The devices' S, U and AG do it, so that replicas get the averages
// of shares that others hold.
Result<void> Trainer::Impl::swap_averages() {
  if (options_.optimizer.grouping.average == 0) return error("the run keeps no averages of its parameters");
  if (const auto ended = devices_.failure()) return *ended;
  RANNC_TRY(await_begun());
  RANNC_TRY(devices_.for_each([&](TrainedDevice& device) -> Result<void> {
    await_saving(device);
    return device.executor->update([&](StageId stage) -> Result<void> {
      device.optimizers[stage.index()]->swap_averages();
      return {};
    });
  }));
  averages_swapped_ = !averages_swapped_;
  return {};
}

Result<void> Trainer::Impl::take_settings(const TrainingSettings& settings) {
  options_.optimizer = settings.optimizer;
  options_.clip_norm = settings.clip_norm;
  options_.seed = settings.seed;
  options_.kept_checkpoints = settings.kept_checkpoints;
  RANNC_ASSIGN(ir::ParameterUpdates updates, updates_of(plan(), options_.optimizer));
  return take_updates(std::move(updates));
}

}  // namespace rannc::runtime
