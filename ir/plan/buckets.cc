#include "ir/plan/buckets.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ir/graph/byte_count.h"
#include "ir/plan/functions.h"
#include "ir/plan/optimizer_shares.h"
#include "ir/schedule/schedule_memory.h"

namespace rannc::ir {

namespace {

/// When the backward pass of a stage has completed a gradient.
struct Final {
  bool late = false;  ///< by E
  uint32_t task = 0;  ///< position of the last task that makes a part
  bool operator<(const Final& other) const { return std::tie(late, task) < std::tie(other.late, other.task); }
};

std::map<ValueId, Final> final_parts(const Plan& plan, StageId stage, const std::vector<ValueId>& parameters) {
  std::map<ValueId, Final> found;
  if (stage.index() < plan.functions.size()) {
    const Joint& joint = plan.functions[stage.index()]->joint;
    const std::vector<FunctionKind> places = function_places(joint);
    for (const Joint::ParameterGradient& part : joint.gradients) {
      const TaskId maker = joint.graph.producer(part.gradient);
      if (!maker.valid()) continue;
      Final& last = found[plan.graph.find(joint.graph.value(part.parameter).name)];
      last = std::max(last, {places[maker.index()] == FunctionKind::kStepEnd, maker.index()});
    }
    return found;
  }
  // Without functions: the backward pass visits tasks in reverse order, so the first reader makes the last part.
  const std::set<ValueId> listed(parameters.begin(), parameters.end());
  const std::vector<TaskId>& tasks = plan.stages[stage.index()].tasks;
  for (size_t i = tasks.size(); i-- > 0;) {
    for (const ValueId input : plan.graph.inputs(tasks[i])) {
      if (input.valid() && listed.contains(input)) found[input].task = static_cast<uint32_t>(tasks.size() - i);
    }
  }
  return found;
}

uint64_t sum_bytes_of(const Plan& plan, ValueId parameter) {
  const ValueType& type = plan.graph.type(parameter);
  const auto elements = element_count(type.shape.value_or(Shape{})).evaluate(plan.sizes);
  return static_cast<uint64_t>(elements.value_or(0)) * static_cast<uint64_t>(byte_size(sum_dtype(type.dtype)));
}

}  // namespace

std::vector<ValueId> summed_parameters(const Plan& plan, StageId stage) {
  const Stage& of = plan.stages[stage.index()];
  if (!plan.training || of.devices.size() < 2) return {};
  std::set<ValueId> found;
  for (const TaskId task : of.tasks) {
    for (const ValueId input : plan.graph.inputs(task)) {
      if (input.valid() && plan.graph.kind(input) == ValueKind::kParameter) found.insert(input);
    }
  }
  for (const SharedParameter& shared : plan.shared) {
    const bool holds =
        shared.owner == stage || std::find(shared.others.begin(), shared.others.end(), stage) != shared.others.end();
    if (holds) found.erase(shared.parameter);
  }
  return {found.begin(), found.end()};
}

std::vector<std::optional<TaskId>> final_tasks(const Plan& plan, StageId stage) {
  const auto& buckets = plan.stages[stage.index()].buckets;
  std::vector<std::optional<TaskId>> found(buckets.size());
  if (stage.index() >= plan.functions.size()) return found;
  const std::map<ValueId, Final> parts = final_parts(plan, stage, {});
  Final last;
  for (size_t i = 0; i < buckets.size(); ++i) {
    for (const ValueId parameter : buckets[i]) {
      if (const auto part = parts.find(parameter); part != parts.end()) last = std::max(last, part->second);
    }
    if (!last.late) found[i] = TaskId(last.task);
  }
  return found;
}

std::vector<std::vector<uint32_t>> parts_of_buckets(const Plan& plan, StageId stage) {
  const auto& buckets = plan.stages[stage.index()].buckets;
  std::map<ValueId, size_t> bucket_of;
  for (size_t i = 0; i < buckets.size(); ++i) {
    for (const ValueId parameter : buckets[i]) bucket_of[parameter] = i;
  }
  std::vector<std::vector<uint32_t>> parts(buckets.size());
  const Joint& joint = plan.functions[stage.index()]->joint;
  for (uint32_t i = 0; i < joint.gradients.size() && !buckets.empty(); ++i) {
    const auto bucket = bucket_of.find(plan.graph.find(joint.graph.value(joint.gradients[i].parameter).name));
    if (bucket != bucket_of.end()) parts[bucket->second].push_back(i);
  }
  return parts;
}

std::vector<int64_t> bytes_of_buckets(const Plan& plan, StageId stage) {
  std::vector<int64_t> found;
  for (const std::vector<ValueId>& bucket : plan.stages[stage.index()].buckets) {
    uint64_t bytes = 0;
    for (const ValueId parameter : bucket) bytes += sum_bytes_of(plan, parameter);
    found.push_back(static_cast<int64_t>(bytes));
  }
  return found;
}

std::vector<int64_t> sum_bytes_of_buckets(const Plan& plan, StageId stage) {
  std::vector<int64_t> found = bytes_of_buckets(plan, stage);
  const Stage& of = plan.stages[stage.index()];
  const auto replicas = static_cast<int64_t>(of.devices.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (!of.sharded) {
      found[i] = gradient_sum_bytes(found[i], replicas);
      continue;
    }
    // A replica receives the terms of the others for its share, in two rounds at once.
    int64_t widest = 0;
    for (const ValueId parameter : of.buckets[i])
      widest = std::max<int64_t>(widest, byte_size(sum_dtype(plan.graph.type(parameter).dtype)));
    const int64_t round = widest * replicas * elements_per_round(of.devices.size());
    found[i] = gradient_sum_bytes(std::min(found[i], 2 * round), replicas);
  }
  return found;
}

void choose_buckets(Plan& plan, uint64_t limit) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    auto& buckets = plan.stages[s].buckets;
    buckets.clear();
    std::vector<ValueId> parameters = summed_parameters(plan, StageId::from(s));
    if (parameters.empty()) continue;
    std::map<ValueId, Final> last = final_parts(plan, StageId::from(s), parameters);
    std::stable_sort(parameters.begin(), parameters.end(), [&](ValueId a, ValueId b) { return last[a] < last[b]; });
    uint64_t largest = 0, filled = 0;
    for (const ValueId parameter : parameters) largest = std::max(largest, sum_bytes_of(plan, parameter));
    const uint64_t most = std::min(limit, kLargestGradients * largest);
    for (const ValueId parameter : parameters) {
      const uint64_t bytes = sum_bytes_of(plan, parameter);
      const bool fits = filled + bytes <= most;
      if (buckets.empty() || !fits || last[buckets.back().back()].late != last[parameter].late) {
        buckets.emplace_back();
        filled = 0;
      }
      buckets.back().push_back(parameter);
      filled += bytes;
    }
  }
}

}  // namespace rannc::ir
