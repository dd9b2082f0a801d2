#include "tools/run/run_results.h"

#include <fmt/format.h>

#include "ir/base/replacement.h"
#include "ir/plan/functions.h"
#include "tools/run/explain_step.h"
#include "tools/run/profile_report.h"
#include "tools/run/progress.h"

namespace rannc::tools {

Result<RunResults> gather_results(runtime::Trainer& trainer, const OwnResults& measured_here) {
  const StepProfile* const profile = measured_here.profile;
  const nlohmann::json own = {{"records", runtime::print_records(measured_here.recorder.records())},
                              {"held", print_held(measured_here.held)},
                              {"links", print_traffic(measured_here.links)},
                              {"profile", profile != nullptr ? profile->part() : nlohmann::json()}};
  RunResults results;
  RANNC_TRY(trainer.gather(own.dump(), [&](uint32_t process, const std::string& text) -> Result<void> {
    const std::string who = fmt::format("measurements of worker {}", process);
    const nlohmann::json part = nlohmann::json::parse(text);
    RANNC_ASSIGN(const auto records, runtime::parse_records(part.at("records").get<std::string>(), who));
    results.records.insert(results.records.end(), records.begin(), records.end());
    RANNC_ASSIGN(const auto measured, parse_held(part.at("held").get<std::string>(), who));
    if (measured) results.held.push_back(*measured);
    RANNC_ASSIGN(LinkTraffic links, parse_traffic(part.at("links").get<std::string>(), who));
    results.links.merge(links);
    if (!part.at("profile").is_null()) results.profile.push_back(part.at("profile"));
    return {};
  }));
  runtime::sort_records(results.records);
  return results;
}

Result<void> write_results(const ir::Plan& plan, const RunResults& results, RunFacts facts,
                           const std::filesystem::path& folder) {
  const double rate = facts.seconds > 0 ? static_cast<double>(facts.steps) / facts.seconds : 0;
  const uint64_t samples = plan.mini_batch * facts.mini_batches;
  facts.samples_per_second = rate * static_cast<double>(samples);
  facts.tokens_per_second = rate * static_cast<double>(facts.tokens);
  facts.held = results.held;
  facts.links = results.links;
  facts.profile = results.profile;
  RANNC_ASSIGN(const auto planned, planned_spans(plan));
  RANNC_TRY(write_file((folder / "trace.json").string(),
                       runtime::chrome_trace(ir::pipeline_shape(plan), results.records, planned)));
  RANNC_TRY(write_file((folder / "report.html").string(), run_report(plan, facts, results.records, planned)));
  if (facts.steps > 0) {
    fmt::print("loss {:.4f} -> {:.4f} in {} steps, {:.1f} s, {}, step measured {:.1f} ms, predicted {:.1f} ms\n",
               facts.losses.at(facts.losses.size() - facts.steps), facts.losses.back(), facts.steps, facts.seconds,
               speed_text(rate, facts.tokens, samples), measured_step_ns(results.records) / 1e6,
               static_cast<double>(plan.step_ns) * static_cast<double>(facts.mini_batches) / 1e6);
  }
  if (facts.explains) {
    const PlannedBesideActual step = planned_beside_actual(plan, planned, results.records);
    fmt::print("{}", step_text(step));
    RANNC_TRY(write_file((folder / "actions.tsv").string(), step_actions(step)));
  }
  if (!facts.profile.is_null()) {
    fmt::print("{}", profile_text(facts.profile));
    RANNC_TRY(write_file((folder / "profile.json").string(), facts.profile.dump(1) + "\n"));
  }
  fmt::print("checkpoint, trace.json (ui.perfetto.dev) and report.html are in {}\n", folder.string());
  return {};
}

}  // namespace rannc::tools
