#include "tools/check/check_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace rannc::tools {

namespace {

using nlohmann::json;

constexpr size_t kMostFailures = 5;  // maximum number of failures printed per run

json to_json(const WorstError& worst) {
  return {{"relative", worst.relative}, {"of_limit", worst.of_limit}, {"at", worst.at}};
}
WorstError worst_from(const json& entry) { return {entry.at("relative"), entry.at("of_limit"), entry.at("at")}; }

}  // namespace

std::string_view recompute_mode(const partition::Reschedule& change) {
  if (!change.recompute) return "never";
  return *change.recompute == ir::RecomputedMicroBatches::kAll ? "always" : "except-last";
}

std::string CheckVariant::str() const {
  const bool replicated = std::any_of(replicas.begin(), replicas.end(), [](uint32_t count) { return count > 1; });
  const std::string cut =
      replicated ? fmt::format("replicas {}", fmt::join(replicas, ",")) : fmt::format("stages {}", replicas.size());
  return fmt::format("{} micro-batches {} {} recompute {}", cut, change.micro_batches, change.schedule,
                     recompute_mode(change));
}

json to_json(const CheckResult& result) {
  return {{"outputs", to_json(result.outputs)},
          {"loss", to_json(result.loss)},
          {"gradients", to_json(result.gradients)},
          {"compared_gradients", result.compared_gradients},
          {"failures", result.failures}};
}

CheckResult result_from_json(const json& entry) {
  return {worst_from(entry.at("outputs")), worst_from(entry.at("loss")), worst_from(entry.at("gradients")),
          entry.at("compared_gradients"), entry.at("failures")};
}

void CheckPrinter::line(const std::string& folder, const std::vector<std::string>& warnings,
                        const CheckVariant& variant, const std::string& transport, const CheckResult& result) {
  ++cases_;
  failed_ += result.failures.empty() ? 0 : 1;
  if (!json_) return text_line(folder, variant, transport, result);
  json entry = to_json(result);
  entry.update({{"folder", folder},
                {"stages", variant.replicas.size()},
                {"replicas", variant.replicas},
                {"micro_batches", variant.change.micro_batches},
                {"schedule", variant.change.schedule},
                {"recompute", recompute_mode(variant.change)},
                {"transport", transport},
                {"warnings", warnings},
                {"ok", result.failures.empty()}});
  fmt::print("{}\n", entry.dump());
}

void CheckPrinter::text_line(const std::string& folder, const CheckVariant& variant, const std::string& transport,
                             const CheckResult& result) const {
  fmt::print("{} {} {} {}: output {:.1e}, loss {:.1e}, {} gradients {:.1e}", result.failures.empty() ? "ok  " : "FAIL",
             folder, variant.str(), transport, result.outputs.relative, result.loss.relative, result.compared_gradients,
             result.gradients.relative);
  fmt::print("{}\n", result.gradients.at.empty() ? "" : " (worst: " + result.gradients.at + ")");
  const size_t shown = std::min(result.failures.size(), kMostFailures);
  for (size_t i = 0; i < shown; ++i) fmt::print("     {}\n", result.failures[i]);
  if (result.failures.size() > shown) fmt::print("     and {} more\n", result.failures.size() - shown);
}

Result<void> CheckPrinter::end() const {
  if (!json_) fmt::print("{} passed, {} failed\n", cases_ - failed_, failed_);
  if (failed_ > 0) return error(fmt::format("{} of {} runs differ from the reference", failed_, cases_));
  return {};
}

}  // namespace rannc::tools
