/// A cluster file ends in a plan for it, in the reason why there is none, or in a diagnostic, whatever its bytes.
#include <cmath>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "partition/stages/problem/profile_problem.h"
#include "tests/fuzz/target.h"
#include "tools/compile/profile_plan.h"

namespace {

constexpr uint32_t kMostDevices = 12;  // a mutated count may ask for a million, which is no error but takes long

constexpr std::string_view kProfile =
    "node1 -- a -- forward_compute_time=1, backward_compute_time=2, activation_size=4000000, parameter_size=8000000\n"
    "node2 -- b -- forward_compute_time=2, backward_compute_time=4, activation_size=1000000, parameter_size=4000000\n"
    "node3 -- c -- forward_compute_time=1, backward_compute_time=1, activation_size=2000000, parameter_size=9000000\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode1 -- node3\n";

}  // namespace

bool rannc::fuzz::feed(std::string_view text) {
  const auto cluster = partition::parse_cluster(text, "fuzz.toml");
  if (!cluster.ok()) return false;
  if (cluster->size() > kMostDevices) return true;
  const auto profile = partition::read_pipedream(kProfile, "profile.txt");
  const auto problem = partition::profile_problem(*profile, *cluster, {4, 8, 2, false});
  if (!problem.ok()) return false;
  partition::AutoOptions search;
  search.simulated_actions = 500;
  const auto outcome = partition::auto_planner(search)->plan(*problem);
  if (!outcome.ok()) return false;
  const auto* plan = std::get_if<partition::StagePlan>(&*outcome);
  if (plan == nullptr) return true;
  RANNC_CHECK(std::isfinite(plan->objective) && plan->lower_bound <= plan->objective * (1 + 1e-9))
      << plan->objective << " against a bound of " << plan->lower_bound;
  return true;
}
