#include "tools/refine.h"

#include <algorithm>
#include <filesystem>

#include "codegen/bundle_writer.h"
#include "runtime/measure_stages.h"
#include "tools/scratch.h"

namespace rannc::tools {

namespace {

double total_ns(const ir::Plan& plan) {
  double total = 0;
  for (const ir::StageTime& time : plan.stage_times) total += static_cast<double>(time.forward_ns + time.backward_ns);
  return total;
}

}  // namespace

Result<void> refine_prediction(partition::PlannedModel& planned, const partition::PlanOptions& options) {
  const Scratch scratch;
  const std::string path = (std::filesystem::path(scratch.path()) / "stages.rannc").string();
  RANNC_TRY(codegen::write_bundle(planned.plan, {}, path));
  RANNC_ASSIGN(const runtime::Bundle bundle, runtime::open_bundle(path));
  const double summed = total_ns(planned.plan);
  RANNC_ASSIGN(planned.plan.stage_times, runtime::measure_stages(bundle, options.assume));
  RANNC_ASSIGN(planned.timeline, partition::predict(planned.plan, options.cluster));
  // The bound speaks of summed task times; what measuring changed of the sum changes it alike.
  if (summed > 0) {
    const double bound = static_cast<double>(planned.plan.lower_bound_ns) * total_ns(planned.plan) / summed;
    planned.plan.lower_bound_ns = std::min(static_cast<int64_t>(bound), planned.plan.step_ns);
  }
  return {};
}

}  // namespace rannc::tools
