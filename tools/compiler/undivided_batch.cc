#include "tools/compiler/undivided_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/plan/fixed_samples.h"

namespace rannc::tools {

namespace {

constexpr const char* kDivisible =
    "a mini-batch can be divided if samples are independent of each other, except in a loss that is their sum or mean";

}  // namespace

std::string why_whole(const PreparedModel& model, const Diagnostic& why, uint32_t samples) {
  if (model.extent_of_data.empty()) samples = ir::fixed_samples(model.graph).value_or(1);
  const bool of_data = !model.extent_of_data.empty() && ir::undivided_symbol(model.graph).empty();
  const std::string extent = of_data ? std::string("the mini-batch of all inputs together")
                                     : fmt::format("a mini-batch of {} sample{}", samples, samples == 1 ? "" : "s");
  const std::string at = why.where.node.empty() ? std::string() : fmt::format("'{}': ", why.where.node);
  return fmt::format("{} is not divided, but runs as one micro-batch without replicas: {}{}; {}", extent, at,
                     why.message, kDivisible);
}

Result<void> check_undivided(const PreparedModel& model, const partition::PlanOptions& options) {
  if (!model.undivided || !ir::fixed_samples(model.graph)) return {};
  const auto refused = [&](const std::string& demand) {
    return error(model.undivided->where,
                 fmt::format("{}, so its mini-batches cannot be divided, but {} are requested",
                             model.undivided->message, demand),
                 "P15")
        .note(kDivisible);
  };
  const auto& counts = options.micro_batches;
  if (!counts.empty() && std::find(counts.begin(), counts.end(), 1) == counts.end()) {
    return refused(fmt::format("{} micro-batches", fmt::join(counts, " or ")));
  }
  const auto& replicas = options.constraints.replicas;
  if (std::any_of(replicas.begin(), replicas.end(), [](uint32_t count) { return count > 1; })) {
    return refused(fmt::format("{} replicas", fmt::join(replicas, ", ")));
  }
  return {};
}

}  // namespace rannc::tools
