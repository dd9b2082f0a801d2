/// Keeps the times of plans that ran in a profile database.
#pragma once

#include <optional>
#include <string>

#include "ir/plan/plan.h"
#include "partition/cost/profile_database.h"
#include "runtime/measure/measure_stages.h"
#include "tools/compiler/requested_plan.h"

namespace rannc::tools {

/// Whether measured costs are kept in `PlanOptions::cost_database`.
bool keeps_costs(const RequestedPlan& request);

/// Returns the database in a file; an empty one if there is no such file. Errors: those of `ProfileDatabase::read`.
Result<partition::ProfileDatabase> read_kept(const std::string& file);

/// Text that is equal for plans of one model that run the same programs in the same order.
std::string decisions(const ir::Plan& plan);

/// Times of plans by the digest of all that changes them: the plan without its prices (graph, shapes, types, stages,
/// schedule, micro-batches, optimizer), what its stages keep, sizes of symbols, form of the stages, number of cores,
/// and version of rannc. The environment names processor, library and threads. What another one measured is not found.
class KeptRuns {
 public:
  /// `form`: how stages run, such as `interpreted`, or a compiler with its version.
  static Result<KeptRuns> open(std::string file, std::string form);

  /// Returns the times of a plan that ran before.
  std::optional<runtime::MeasuredStages> find(const ir::Plan& plan, const ir::Bindings& assume);
  void add(const ir::Plan& plan, const ir::Bindings& assume, const runtime::MeasuredStages& times);
  /// Writes the file if a plan was added.
  Result<void> write() const;
  /// States how many plans ran and how many were found.
  std::string report() const;

 private:
  KeptRuns() = default;
  std::string key_of(const ir::Plan& plan, const ir::Bindings& assume) const;

  std::string file_, form_;
  partition::ProfileDatabase database_;
  size_t found_ = 0, added_ = 0;
};

}  // namespace rannc::tools
