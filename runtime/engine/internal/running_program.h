/// Publishes the task that a flat program executes.
#pragma once

#include <optional>
#include <vector>

#include "ir/gradient/joint.h"
#include "runtime/engine/operator_origin.h"

namespace rannc::runtime {

/// While it exists, `running_task` of this thread returns the task at `position`. Not nested.
class RunningProgram {
 public:
  /// `tasks`: of the plan, by task of the stage. Both outlive it.
  RunningProgram(const ir::Joint& joint, const std::vector<TaskId>& tasks);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  /// The task of the joint graph that runs. The program writes it.
  TaskId position;
  std::optional<RunningTask> task() const;

 private:
  const ir::Joint& joint_;
  const std::vector<TaskId>& tasks_;
};

}  // namespace rannc::runtime
