// Finds the task of an operator in the comment that codegen writes above its statements.
#include "runtime/engine/operator_origin.h"

#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <charconv>
#include <map>
#include <string>

#include "runtime/engine/internal/running_program.h"

namespace rannc::runtime {

namespace {

using torch::jit::SourceRange;

std::optional<TaskId> task_above(const SourceRange& range) {
  constexpr std::string_view kTask = "\n    # #";
  if (!range.source()) return std::nullopt;
  const std::string before = range.source()->text_str().substr(0, range.start()).str();
  const size_t at = before.rfind(kTask);
  if (at == std::string::npos) return std::nullopt;
  uint32_t number = 0;
  const char* const digits = before.data() + at + kTask.size();
  if (std::from_chars(digits, before.data() + before.size(), number).ec != std::errc()) return std::nullopt;
  return TaskId(number);
}

thread_local const RunningProgram* running_program = nullptr;

}  // namespace

RunningProgram::RunningProgram(const ir::Joint& joint, const std::vector<TaskId>& tasks)
    : joint_(joint), tasks_(tasks) {
  running_program = this;
}
RunningProgram::~RunningProgram() { running_program = nullptr; }

std::optional<RunningTask> RunningProgram::task() const {
  if (!position.valid()) return std::nullopt;
  const ir::Joint::Origin& origin = joint_.origins[position.index()];
  return RunningTask{tasks_[origin.task.index()], origin.phase != ir::Phase::kForward};
}

std::optional<RunningTask> running_task() {
  if (running_program != nullptr) return running_program->task();
  const auto stack = torch::jit::currentCallstack();
  if (stack.empty()) return std::nullopt;
  const SourceRange& loaded = stack.front().range;
  // Keyed by source locations in loaded programs. The keys keep the sources alive.
  thread_local std::map<std::pair<std::shared_ptr<torch::jit::Source>, size_t>, std::optional<TaskId>> known;
  const auto [entry, fresh] = known.try_emplace({loaded.source(), loaded.start()});
  if (fresh) entry->second = task_above(loaded.findSourceRangeThatGenerated().value_or(loaded));
  if (!entry->second) return std::nullopt;
  return RunningTask{*entry->second};
}

}  // namespace rannc::runtime
