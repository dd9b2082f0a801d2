// Checkpoints and weights of a trainer.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/train/checkpoint.h"
#include "runtime/train/internal/replace_weights.h"
#include "runtime/train/internal/trainer_impl.h"
#include "runtime/train/shared_tensors.h"

namespace rannc::runtime {

Result<void> Trainer::Impl::start_save(const std::string& folder, const std::string& data_state) {
  if (averages_swapped_) return error("parameters are exchanged with their averages: a checkpoint needs them back");
  RANNC_TRY(await_begun());
  RANNC_TRY(finish_save());
  const TrainingSettings settings{options_.optimizer, options_.clip_norm, options_.seed, options_.kept_checkpoints};
  RANNC_ASSIGN(saving_,
               CheckpointSave::start(devices_, folder,
                                     {.step = step_,
                                      .updates = updates_done_,
                                      .loss_scale = loss_scale_,
                                      .settings = settings,
                                      .model_digest = plan().model_digest,
                                      .data_state = data_state,
                                      .sliced = std::any_of(plan().stages.begin(), plan().stages.end(),
                                                            [](const auto& stage) { return stage.sharded; })}));
  return {};
}

Result<void> Trainer::Impl::finish_save() {
  if (const auto ended = devices_.failure()) return *ended;
  const auto saving = std::move(saving_);
  return saving ? saving->finish() : Result<void>();
}

Result<void> Trainer::Impl::finish_written() {
  if (!saving_) return {};
  RANNC_ASSIGN(const bool written, all_agree(saving_->is_written()));
  return written ? finish_save() : Result<void>();
}

Result<std::string> Trainer::Impl::load(const std::string& folder, Settings settings) {
  RANNC_TRY(await_begun());
  RANNC_TRY(finish_save());
  RANNC_ASSIGN(const CheckpointState state, read_checkpoint_state(folder));
  RANNC_TRY(check_model(state, folder, plan()));
  const OptimizerOptions &made_by = state.settings.optimizer, &own = options_.optimizer;
  if (settings == Settings::kOfCheckpoint) RANNC_TRY(take_settings(state.settings));
  RANNC_ASSIGN(const ir::ParameterUpdates before, updates_of(plan(), made_by));
  const bool same_state = updates_.have_states_of(before);
  if (const ValueId lacks = updates_.first_without_state(before); lacks.valid() && state.step > 0) {
    return error(
        {folder, 0, 0, {}},
        fmt::format("checkpoint was made with optimizer {}, but this run uses {}, whose state cannot start after "
                    "step 0; parameter '{}' lacks it",
                    str(made_by.kind), str(own.kind), plan().graph.value(lacks).name));
  }
  const bool averages_start = updates_.averaged() && !before.averaged();
  for (const auto& device : devices_.all()) {
    CheckpointTensors tensors = checkpoint_tensors(*device);
    std::erase_if(tensors, [&](const auto& entry) {
      return is_average_key(entry.first) ? averages_start : !same_state && is_optimizer_key(entry.first);
    });
    RANNC_TRY(read_checkpoint(folder, tensors));
  }
  if (averages_start) RANNC_TRY(restart_averages());
  step_ = state.step;
  updates_done_ = state.updates;
  loss_scale_ = state.loss_scale;
  accumulated_samples_ = 0;
  return state.data_state;
}

Result<SharedTensors> Trainer::Impl::load_shared(const std::string& checkpoint) {
  RANNC_TRY(await_begun());
  RANNC_TRY(finish_save());
  RANNC_ASSIGN(SharedTensors shared, match_shared(bundle_, checkpoint));
  for (const auto& device : devices_.all()) {
    CheckpointTensors theirs;  // by their keys
    for (const auto& [key, tensor] : checkpoint_tensors(*device)) {
      if (const auto found = shared.keys.find(key); found != shared.keys.end()) theirs.emplace(found->second, tensor);
    }
    RANNC_TRY(read_checkpoint(checkpoint, theirs));
  }
  if (updates_done_ == 0) RANNC_TRY(restart_averages());
  return shared;
}

Result<WeightsLoaded> Trainer::Impl::load_weights(const std::string& path, WeightNames names) {
  RANNC_TRY(await_begun());
  RANNC_TRY(finish_save());
  RANNC_ASSIGN(WeightsLoaded loaded, replace_weights(bundle_, path, names, held_weights(devices_)));
  if (updates_done_ == 0) RANNC_TRY(restart_averages());
  return loaded;
}

}  // namespace rannc::runtime
