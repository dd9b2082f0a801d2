/// The manifest of a checkpoint never crashes its reader. What is accepted prints to text that reads back equal, and is
/// within the ranges of a run. Each input is also read with the digest of its content, which a mutation spoils.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ir/base/number_range.h"
#include "runtime/internal/digest.h"
#include "runtime/train/internal/manifest.h"
#include "tests/fuzz/target.h"

namespace {

using rannc::runtime::CheckpointState;

void check_state(const CheckpointState& state) {
  RANNC_CHECK(state.updates <= state.step && state.step <= rannc::WholeRange::kMost) << "steps out of range";
  const auto& optimizer = state.settings.optimizer;
  for (const double number : {optimizer.learning_rate, optimizer.momentum, optimizer.weight_decay, optimizer.beta1,
                              optimizer.beta2, optimizer.epsilon, state.settings.clip_norm, state.loss_scale.scale})
    RANNC_CHECK(std::isfinite(number) && number >= 0) << "a setting out of range";
}

bool read(std::string_view text) {
  const std::string folder = "step-7";
  const auto manifest = rannc::runtime::parse_manifest(text, folder);
  if (!manifest.ok()) return false;
  check_state(manifest->state);
  const auto again = rannc::runtime::parse_manifest(rannc::runtime::print_manifest(*manifest), folder);
  RANNC_CHECK(again.ok() && again->files == manifest->files && again->state.settings == manifest->state.settings &&
              again->state.updates == manifest->state.updates && again->state.data_state == manifest->state.data_state)
      << "print and parse of a manifest do not agree";
  return true;
}

}  // namespace

bool rannc::fuzz::feed(std::string_view text) {
  const bool accepted = read(text);
  auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object() || object.erase("digest") == 0) return accepted;
  object["digest"] = runtime::digest_of(object.dump());
  return read(object.dump()) || accepted;
}
