#include "tools/run/find_nonfinite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "ir/op/op.h"
#include "runtime/engine/tensor.h"
#include "runtime/flat/nonfinite.h"

namespace rannc::tools {

namespace {

using runtime::NonfiniteValue;
using Phase = NonfiniteValue::Phase;

/// A value as text, with its place in the order of the step.
struct Found {
  std::tuple<uint32_t, int64_t, int64_t, uint32_t, std::string> order;
  std::string text;
};

void keep_first(std::optional<Found>& kept, const Found& found) {
  if (!kept || found.order < kept->order) kept = found;
}

/// What the processes of a step have found, each the first of its kind.
struct Sources {
  std::optional<Found> nan;               ///< made NaN
  std::optional<Found> infinite;          ///< made infinite numbers
  std::optional<Found> read;              ///< read what no task made, or made any
  std::optional<Found> gradient, weight;  ///< at the end of the step

  template <class Use>
  static void each(Use&& use) {
    use("nan", &Sources::nan), use("infinite", &Sources::infinite), use("read", &Sources::read);
    use("gradient", &Sources::gradient), use("weight", &Sources::weight);
  }
};

std::string print(const Sources& sources) {
  nlohmann::json text = nlohmann::json::object();
  Sources::each([&](const char* name, auto member) {
    if (const auto& found = sources.*member) text[name] = {found->order, found->text};
  });
  return text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void merge(Sources& sources, const std::string& text) {
  const nlohmann::json other = nlohmann::json::parse(text);
  Sources::each([&](const char* name, auto member) {
    if (other.contains(name)) keep_first(sources.*member, {other.at(name).at(0), other.at(name).at(1)});
  });
}

std::string counts_text(uint64_t nan, uint64_t infinite, uint64_t elements) {
  return fmt::format("{} NaN and {} infinite of {} elements", nan, infinite, elements);
}

std::string counts_text(const NonfiniteValue& value) {
  return fmt::format("{}, shape [{}]", counts_text(value.nan, value.infinite, value.elements),
                     fmt::join(value.shape, ", "));
}

Found described(const NonfiniteValue& value, const ir::Plan& plan) {
  const bool forward = value.phase == Phase::kForward, once = !value.micro_batch;
  const auto phase = static_cast<uint32_t>(value.phase);
  if (value.phase == Phase::kUpdate) return {{phase, 0, 0, 0, value.name}, counts_text(value)};
  // Tasks that run once per step run before the micro-batches, their gradients after them.
  const int64_t micro_batch = !once ? *value.micro_batch : forward ? -1 : std::numeric_limits<uint32_t>::max();
  const int64_t stage = forward ? value.stage.index() : -static_cast<int64_t>(value.stage.index());
  const Location where = plan.graph.location(value.task);
  const std::string place = where.node.empty() ? where.str() : where.node;
  const std::string of = once ? "once per step" : fmt::format("micro-batch {}", *value.micro_batch);
  const char* const inputs = value.reads_nan        ? "inputs with NaN"
                             : value.reads_infinite ? "inputs with infinite numbers"
                                                    : "finite inputs";
  return {{phase, micro_batch, stage, value.position, {}},
          fmt::format("task #{} {}{}, stage {}, {} pass, {}: {}, from {}", value.task.index(),
                      plan.graph.op(value.task).name, place.empty() ? "" : fmt::format(" ({})", place),
                      value.stage.index(), forward ? "forward" : "backward", of, counts_text(value), inputs)};
}

/// What is wrong with the step itself.
std::string harm(const Sources& sources, double loss) {
  if (!std::isfinite(loss)) return std::isnan(loss) ? "the loss is NaN" : "the loss is infinite";
  const bool gradient = sources.gradient.has_value();
  const Found& found = gradient ? *sources.gradient : *sources.weight;
  return fmt::format("{} is not finite ({})", std::get<4>(found.order), found.text);
}

/// Returns the inputs in the mini-batch that are not finite.
std::string of_samples(const runtime::Batch& batch) {
  std::string text;
  for (const auto& [name, value] : batch) {
    const runtime::NonfiniteCounts counts = runtime::count_nonfinite(runtime::to_tensor(value));
    if (counts.any())
      text += fmt::format("{}`{}` has {}", text.empty() ? "" : ", ", name,
                          counts_text(counts.nan, counts.infinite, counts.elements));
  }
  return text;
}

std::string source(const Sources& sources, const runtime::Batch& batch, double loss) {
  // Whatever tasks have made has reached nothing that the optimizer reads. Buffers are the forward pass's.
  const bool updated = sources.weight && !std::get<4>(sources.weight->order).starts_with("buffer/");
  if (std::isfinite(loss) && !sources.gradient && updated) return "the optimizer made it from finite gradients";
  if (const std::string samples = of_samples(batch); !samples.empty()) return "the samples are not finite: " + samples;
  const std::string nan = sources.nan ? "first NaN: " + sources.nan->text : "";
  const std::string infinite = sources.infinite ? "first infinite number: " + sources.infinite->text : "";
  if (sources.nan && sources.infinite)
    return sources.infinite->order < sources.nan->order ? infinite + "; " + nan : nan + "; " + infinite;
  if (sources.nan || sources.infinite) return nan + infinite;
  if (sources.read) return "no task made it; the first that reads or makes such a number: " + sources.read->text;
  return "no task made it: a sum over micro-batches or replicas is too large";
}

}  // namespace

struct NonfiniteFinder::State {
  State(const ir::Plan& plan, uint32_t processes) : plan(plan), processes(processes) {}
  const ir::Plan& plan;
  const uint32_t processes;
  std::mutex mutex;
  Sources sources;  // of this process in the current step
};

NonfiniteFinder::NonfiniteFinder(const ir::Plan& plan, uint32_t processes) : state_(new State(plan, processes)) {}
NonfiniteFinder::~NonfiniteFinder() = default;

void NonfiniteFinder::begin_step() {
  const std::lock_guard lock(state_->mutex);
  state_->sources = {};
}

void NonfiniteFinder::found(const NonfiniteValue& value) {
  const Found found = described(value, state_->plan);
  const std::lock_guard lock(state_->mutex);
  Sources& sources = state_->sources;
  if (value.phase == Phase::kUpdate) {
    return keep_first(value.name.starts_with("gradient/") ? sources.gradient : sources.weight, found);
  }
  keep_first(sources.read, found);
  if (value.reads_nan) return;
  if (value.nan > 0) keep_first(sources.nan, found);
  if (value.infinite > 0 && !value.reads_infinite) keep_first(sources.infinite, found);
}

Result<void> NonfiniteFinder::check(runtime::Trainer& trainer, const runtime::Batch& batch,
                                    const runtime::StepResult& result) {
  if (result.skipped) return {};         // in all processes
  const Sources& own = state_->sources;  // no action runs
  RANNC_ASSIGN(const bool finite, trainer.all_agree(std::isfinite(result.loss) && !own.gradient && !own.weight));
  if (finite) return {};
  RANNC_TRY(trainer.finish_save());  // the last checkpoint without such numbers
  Sources all;
  return trainer.gather(print(own), [&](uint32_t process, const std::string& text) -> Result<void> {
    merge(all, text);
    if (process + 1 < state_->processes) return {};
    return error(fmt::format("--find-nonfinite: in step {}, {}; {}", trainer.steps_done() - 1, harm(all, result.loss),
                             source(all, batch, result.loss)));
  });
}

}  // namespace rannc::tools
