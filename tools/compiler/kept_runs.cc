#include "tools/compiler/kept_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

#include "ir/plan/functions.h"
#include "ir/text/text.h"
#include "partition/text_digest.h"
#include "tools/common/machine.h"
#include "tools/measure/measure.h"

namespace rannc::tools {

namespace {

using partition::RunTimes;
using runtime::MeasuredStages;

/// Returns the text of the plan without what was priced, simulated or searched.
std::string without_prices(const ir::Plan& plan) {
  ir::Plan bare = plan.clone();
  for (ir::StageTime& time : bare.stage_times) time = {.stage = time.stage, .samples = time.samples};
  for (ir::SharedParameter& shared : bare.shared) shared.sum_ns = 0;
  bare.finish_times.clear();
  bare.begin_ns.clear();
  bare.predictions.clear();
  bare.step_ns = bare.searched_ns = bare.lower_bound_ns = 0;
  bare.planner.clear();
  bare.cluster_digest.clear();
  bare.profile_digest.clear();
  return ir::print(bare);
}

RunTimes lists_of(const MeasuredStages& times) {
  RunTimes lists;
  for (const ir::StageTime& time : times.stage_times) {
    lists["forward"].push_back(time.forward_ns);
    lists["backward"].push_back(time.backward_ns);
    lists["weight"].push_back(time.weight_ns);
    lists["rebuild"].push_back(time.rebuild_ns);
  }
  for (const ir::FinishTime& time : times.finish_times) {
    lists["finish_stage"].push_back(static_cast<int64_t>(time.stage.index()));
    lists["all_reduce"].push_back(time.all_reduce_ns);
    lists["optimizer"].push_back(time.optimizer_ns);
    lists["gradients"].push_back(time.gradients_ns);
    lists["gather"].push_back(time.gather_ns);
    lists["sums"].push_back(static_cast<int64_t>(time.sums.size()));
    for (const ir::SumTime& sum : time.sums) {
      lists["sum"].push_back(sum.sum_ns);
      lists["ahead"].push_back(sum.ahead_ns);
    }
  }
  if (!times.begin_ns.empty()) lists["begin"] = times.begin_ns;
  if (!times.shared_ns.empty()) lists["shared"] = times.shared_ns;
  return lists;
}

/// Reads lists of known lengths. Nothing is taken from lists of others.
class ListReader {
 public:
  explicit ListReader(const RunTimes& lists) : lists_(lists) {}
  /// The list; empty if it is absent. Notes a length other than `size`.
  const std::vector<int64_t>& list(const std::string& name, size_t size) {
    static const std::vector<int64_t> kNone;
    const auto found = lists_.find(name);
    const std::vector<int64_t>& list = found == lists_.end() ? kNone : found->second;
    sound_ = sound_ && list.size() == size;
    return list;
  }
  size_t length(const std::string& name) const {
    const auto found = lists_.find(name);
    return found == lists_.end() ? 0 : found->second.size();
  }
  bool sound() const { return sound_; }

 private:
  const RunTimes& lists_;
  bool sound_ = true;
};

bool read_passes(ListReader& reader, std::vector<ir::StageTime>& times) {
  const auto& forward = reader.list("forward", times.size());
  const auto& backward = reader.list("backward", times.size());
  const auto& weight = reader.list("weight", times.size());
  const auto& rebuild = reader.list("rebuild", times.size());
  if (!reader.sound()) return false;
  for (size_t i = 0; i < times.size(); ++i) {
    times[i].forward_ns = forward[i];
    times[i].backward_ns = backward[i];
    times[i].weight_ns = weight[i];
    times[i].rebuild_ns = rebuild[i];
  }
  return true;
}

bool read_ends(ListReader& reader, size_t stages, std::vector<ir::FinishTime>& times) {
  const size_t count = reader.length("finish_stage");
  const auto& stage = reader.list("finish_stage", count);
  const auto& all_reduce = reader.list("all_reduce", count);
  const auto& optimizer = reader.list("optimizer", count);
  const auto& gradients = reader.list("gradients", count);
  const auto& gather = reader.list("gather", count);
  const auto& sums = reader.list("sums", count);
  const auto& sum = reader.list("sum", reader.length("sum"));
  const auto& ahead = reader.list("ahead", sum.size());
  if (!reader.sound()) return false;
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto own = static_cast<size_t>(sums[i]);
    if (static_cast<size_t>(stage[i]) >= stages || own > sum.size() - next) return false;
    ir::FinishTime& time = times.emplace_back();
    time = {StageId(static_cast<uint32_t>(stage[i])), all_reduce[i], optimizer[i], gradients[i], gather[i]};
    for (size_t end = next + own; next < end; ++next) time.sums.push_back({sum[next], ahead[next]});
  }
  return next == sum.size();
}

/// Nothing if the lists are not those of the plan.
std::optional<MeasuredStages> measured_of(const RunTimes& lists, const ir::Plan& plan) {
  ListReader reader(lists);
  MeasuredStages times;
  times.stage_times = plan.stage_times;
  if (!read_passes(reader, times.stage_times)) return std::nullopt;
  if (!read_ends(reader, plan.stages.size(), times.finish_times)) return std::nullopt;
  if (reader.length("begin") > 0) times.begin_ns = reader.list("begin", plan.stages.size());
  if (reader.length("shared") > 0) times.shared_ns = reader.list("shared", plan.shared.size());
  if (!reader.sound()) return std::nullopt;
  return times;
}

}  // namespace

std::string decisions(const ir::Plan& plan) {
  std::string text = fmt::format("{} {}", fmt::join(plan.micro_batches, ","), ir::digest(plan.schedule));
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const ir::Stage& stage = plan.stages[s];
    text += fmt::format("|{} {}:", stage.recompute, stage.sharded);
    for (const DeviceId device : stage.devices) text += fmt::format(" {}", device.index());
    for (const TaskId task : stage.tasks) text += fmt::format(",{}", task.index());
    if (plan.functions.size() <= s || !plan.functions[s]->kept) continue;
    for (const ValueId value : *plan.functions[s]->kept) text += fmt::format(";{}", value.index());
  }
  return text;
}

bool keeps_costs(const RequestedPlan& request) {
  return request.options.costs == compiler::Costs::kMeasured && !request.options.cost_database.empty();
}

Result<partition::ProfileDatabase> read_kept(const std::string& file) {
  if (!std::filesystem::exists(file)) return partition::ProfileDatabase();
  return partition::ProfileDatabase::read(file);
}

Result<KeptRuns> KeptRuns::open(std::string file, std::string form) {
  KeptRuns kept;
  RANNC_ASSIGN(kept.database_, read_kept(file));
  kept.file_ = std::move(file);
  kept.form_ = std::move(form);
  return kept;
}

std::string KeptRuns::key_of(const ir::Plan& plan, const ir::Bindings& assume) const {
  std::string text = fmt::format("rannc {}, {}, {} cores\n", RANNC_VERSION, form_, machine_cores());
  for (const auto& [symbol, size] : assume) text += fmt::format("{}={} ", symbol, size);
  text += "\n" + decisions(plan) + "\n" + without_prices(plan);
  return partition::text_digest(text);
}

std::optional<MeasuredStages> KeptRuns::find(const ir::Plan& plan, const ir::Bindings& assume) {
  const RunTimes* lists = database_.find_run(environment_name(), key_of(plan, assume));
  if (lists == nullptr) return std::nullopt;
  auto times = measured_of(*lists, plan);
  if (times) ++found_;
  return times;
}

void KeptRuns::add(const ir::Plan& plan, const ir::Bindings& assume, const MeasuredStages& times) {
  database_.add_run(environment_name(), key_of(plan, assume), lists_of(times));
  ++added_;
}

Result<void> KeptRuns::write() const { return added_ == 0 ? Result<void>() : database_.write(file_); }

std::string KeptRuns::report() const {
  if (added_ == 0) return fmt::format("{} has the times of {} plans: none was run", file_, found_);
  return fmt::format("{}: {} plans were run to measure their stages, {} were known", file_, added_, found_);
}

}  // namespace rannc::tools
