#include "tools/compile/profile_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ir/base/replacement.h"
#include "partition/formats/stage_plan_json.h"
#include "partition/schedule/family.h"
#include "partition/stages/explain.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/problem/places.h"
#include "tools/common/stop.h"
#include "tools/compile/placement_split.h"
#include "tools/compile/profile_plan.h"
#include "tools/compile/stage_report.h"
#include "tools/compiler/search_limit.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;
using partition::StagePlan;

Result<void> write_output(const std::string& path, const std::string& text, bool replace) {
  if (!replace && fs::exists(path) && !is_stream(path))
    return error({path, 0, 0, {}}, "exists already; use --replace to overwrite it");
  return write_file(path, text);
}

bool is_placement(const CompileCommand& command) { return fs::path(command.model).extension() == ".json"; }

std::string print_blocks(const ProfileTask& task, const StagePlan& plan) {
  const partition::StageProblem& problem = task.problem;
  std::string text = fmt::format("// {} blocks, times of one sample's share of the profile's batch of {}\n",
                                 problem.blocks, problem.times.front().sizes.front());
  for (uint32_t b = 0, s = 0; b < problem.blocks; ++b) {
    while (plan.stages[s].end <= b) ++s;
    text += fmt::format(
        "block @b{} stage {} forward_ns {:.0f} backward_ns {:.0f} parameter_bytes {:.0f} stashed_bytes_per_sample "
        "{:.0f} "
        "// {}\n",
        b, s, problem.times.front().forward[0][b], problem.times.front().backward[0][b], problem.parameter_bytes[b],
        problem.stashed_bytes_per_sample[b], task.block_names[b]);
  }
  return text;
}

Result<std::string> print_rows(const ProfileTask& task, const StagePlan& plan) {
  RANNC_ASSIGN(const ir::Schedule rows, partition::PlanJudge(task.problem).rows(plan));
  const partition::StagePlaces places = partition::places_of(plan);
  std::string text;
  for (uint32_t place = 0; place < places.count(); ++place) {
    std::vector<size_t> stages;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      if (places.of_stage[s] == place) stages.push_back(s);
    }
    text += fmt::format("// row d{}: stage{} {} on", place, stages.size() > 1 ? "s" : "", fmt::join(stages, " and "));
    for (const DeviceId device : plan.stages[stages.front()].devices) {
      text += " " + task.problem.cluster.devices[device.index()].name;
    }
    text += "\n";
  }
  return text + ir::print_schedule(rows);
}

/// Returns the error if there is no plan; with --explain, adds remedies.
Diagnostic refused(const CompileCommand& command, const partition::PlanOptions& options, const ProfileTask& task,
                   const partition::Infeasible& none) {
  Diagnostic failure = no_plan(none);
  failure.where.file = command.model;
  for (std::string& cause : causes(task, options)) failure.notes.push_back({{}, std::move(cause)});
  if (!command.explain) return failure;
  const auto planner = requested_planner(options);
  const std::string_view objective = partition::objective_name(task.problem.objective);
  for (const partition::Remedy& remedy : partition::try_remedies(*planner, task.problem)) {
    failure.notes.push_back({{},
                             remedy.objective > 0 ? fmt::format("{}: a plan of {}", remedy.what,
                                                                partition::quantity(objective, remedy.objective))
                                                  : fmt::format("{}: still no plan", remedy.what)});
  }
  return failure;
}

Result<void> show_plan(const CompileCommand& command, const partition::PlanOptions& options, const ProfileTask& task,
                       const StagePlan& plan, const SearchReport& report) {
  if (!command.output.empty()) {
    const bool graph = fs::path(command.output).extension() == ".txt";
    RANNC_TRY(write_output(command.output,
                           graph ? partition::write_pipedream(with_stages(task, plan))
                                 : partition::write_stage_plan(plan, task.block_names, origin_of(task)),
                           command.replace));
  }
  if (command.emit == "blocks") fmt::print("{}", print_blocks(task, plan));
  if (command.emit == "plan") fmt::print("{}", partition::write_stage_plan(plan, task.block_names, origin_of(task)));
  if (command.emit == "schedule") {
    RANNC_ASSIGN(const std::string rows, print_rows(task, plan));
    fmt::print("{}", rows);
  }
  if (command.summary == "json") {
    auto json = stage_plan_json(task.problem, plan, report);
    json["file"] = command.model;
    json["cluster"] = task.problem.cluster.name;
    json["devices"] = task.problem.cluster.size();
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else if (command.emit == "bundle") {
    fmt::print("{}: {}", command.model, stage_plan_text(task.problem, plan, task.block_names));
  }
  if (command.explain) {
    const auto planner = requested_planner(options);
    const auto remedies =
        report.stopped ? std::vector<partition::Remedy>{} : partition::try_remedies(*planner, task.problem);
    fmt::print("{}", partition::explain(plan, remedies, task.block_names));
  }
  if (!command.output.empty() && command.summary != "json" && command.emit == "bundle") {
    fmt::print("wrote {}\n", command.output);
  }
  return {};
}

/// A search that Ctrl-C and a time limit may stop.
struct Search {
  explicit Search(std::optional<double> limit_ns) : interrupt(source), limit(limit_ns, source.get_token()) {}
  /// Restores the signal handler. Returns a warning if the result may not be reproducible.
  std::string end() {
    interrupt.reset();
    return limit.end();
  }
  std::stop_source source;
  std::optional<InterruptStop> interrupt;
  SearchLimit limit;
};

Result<void> run_pipedream(const CompileCommand& command, const std::string& text) {
  ProfileRequest request{command.model, command.profile_batch, {}};
  compiler::PlanOptions wanted = command.plan;
  wanted.plan.clear();  // `given_profile_plan` reads it
  RANNC_ASSIGN(request.plan, requested_plan(wanted));
  const partition::PlanOptions& options = request.plan.planning;
  RANNC_ASSIGN(const ProfileTask task, read_profile_task(text, request));
  Search search(command.plan.time_limit_ns);
  auto outcome = command.plan.plan.empty() ? plan_profile(task, options, search.limit.token())
                                           : given_profile_plan(task, command.plan.plan, search.limit.token());
  const std::string ended = search.end();
  SearchReport report{search.limit.seconds(), task.warnings, search.limit.stopped()};
  if (!outcome.ok()) {
    Diagnostic failure = outcome.diagnostic();
    if (failure.where.file.empty()) failure.where.file = command.model;
    return failure;
  }
  if (const auto* none = std::get_if<partition::Infeasible>(&*outcome)) return refused(command, options, task, *none);
  const StagePlan& plan = std::get<StagePlan>(*outcome);
  for (std::string& warning : warnings_of(plan)) report.warnings.push_back(std::move(warning));
  if (!ended.empty()) report.warnings.push_back(ended);
  print_warnings(report.warnings);
  return show_plan(command, options, task, plan, report);
}

Result<void> run_placement(const CompileCommand& command, const std::string& text) {
  const SplitRequest request{command.model, command.plan.devices, command.plan.memory_bytes, command.exact};
  Search search(command.plan.time_limit_ns);
  auto found = split_placement(text, request, search.limit.token());
  const std::string ended = search.end();
  if (!found.ok()) return found.diagnostic();
  SplitAnswer& answer = *found;
  if (!ended.empty()) answer.warnings.push_back(ended);
  if (!answer.result.device_of) {
    return error({command.model, 0, 0, {}}, "there is no split: " + answer.result.reason);
  }
  print_warnings(answer.warnings);
  if (!command.output.empty()) RANNC_TRY(write_output(command.output, split_file(answer), command.replace));
  if (command.emit == "plan") fmt::print("{}", split_file(answer));
  if (command.summary == "json") {
    auto json = split_summary(answer);
    json["file"] = command.model;
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else if (command.emit == "bundle") {
    fmt::print("{}: {}", command.model, split_text(answer));
  }
  if (command.explain) fmt::print("{}", explain_split(answer, request));
  return {};
}

}  // namespace

bool is_profile(const std::string& file) {
  const std::string extension = fs::path(file).extension();
  return extension == ".txt" || extension == ".json";
}

Result<void> check_profile_command(const CompileCommand& command) {
  const std::string extension = fs::path(command.output).extension();
  const bool placement = is_placement(command);
  if (!command.output.empty() && extension != ".json" && (placement || extension != ".txt")) {
    return error(fmt::format(
        "-o {}: a profile has no bundle; {}", command.output,
        placement ? ".json holds the split" : ".json holds the plan, .txt the profile with a stage for every node"));
  }
  const std::set<std::string> forms = placement ? std::set<std::string>{"bundle", "plan"}
                                                : std::set<std::string>{"bundle", "blocks", "plan", "schedule"};
  if (!forms.contains(command.emit)) {
    return error(fmt::format("--emit {}: a profile has {}", command.emit,
                             placement ? "only a plan" : "blocks, plan and schedule, but no model and no bundle"));
  }
  if (command.plan.recompute == compiler::Recompute::kSelective) {
    return error(
        "--recompute selective: a profile has no tasks to choose from; choose auto, never, always or except-last");
  }
  if (command.plan.shard_optimizer == compiler::ShardOptimizer::kOn)
    return error("--shard-optimizer on: plans of profiles count whole optimizer state; choose auto or off");
  for (const std::string& schedule : command.plan.schedules) {
    if (!partition::schedule_needs(schedule, partition::ScheduleFamily::Needs::kTable)) continue;
    return error(fmt::format("--schedule {}: a profile has no hand-written schedule; choose another one", schedule));
  }
  return {};
}

Result<void> run_profile_command(const CompileCommand& command) {
  RANNC_ASSIGN(const std::string text, read_file(command.model));
  return is_placement(command) ? run_placement(command, text) : run_pipedream(command, text);
}

}  // namespace rannc::tools
