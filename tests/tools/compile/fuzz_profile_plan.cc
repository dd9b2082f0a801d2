/// A PipeDream profile ends in a plan, in the reason why there is none, or in a diagnostic, whatever its bytes.
#include <cmath>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "tests/fuzz/target.h"
#include "tools/compile/profile_plan.h"
#include "tools/compile/stage_report.h"

namespace {

constexpr uint32_t kMostBlocks = 40;  // more than a mutation of the seeds makes, but for copies of long parts

}  // namespace

bool rannc::fuzz::feed(std::string_view text) {
  tools::ProfileRequest request;
  request.file = "fuzz-pbs-4.txt";
  request.plan.planning.cluster = partition::preset_cluster("dapple-b")->first(3);
  request.plan.options.mini_batch = 8;
  request.plan.planning.search.simulated_actions = 500;
  const auto task = tools::read_profile_task(text, request);
  if (!task.ok()) return false;
  if (task->problem.blocks > kMostBlocks) return true;
  const auto outcome = tools::plan_profile(*task, request.plan.planning, {});
  if (!outcome.ok()) return false;
  const auto* plan = std::get_if<partition::StagePlan>(&*outcome);
  if (plan == nullptr) return false;
  RANNC_CHECK(std::isfinite(plan->objective) && plan->lower_bound <= plan->objective * (1 + 1e-9))
      << plan->objective << " against a bound of " << plan->lower_bound;
  (void)tools::stage_plan_json(task->problem, *plan, {}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto again = partition::read_pipedream(partition::write_pipedream(tools::with_stages(*task, *plan)), "again");
  RANNC_CHECK(again.ok()) << again.diagnostic().str();
  return true;
}
