#include "partition/model/program_key.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <map>

#include "partition/model/model_costs.h"

namespace rannc::partition {

std::string program_key(const ir::Graph& graph, const ir::Atoms& atoms, const std::vector<TaskId>& tasks,
                        const std::vector<ir::GradientRole>& roles) {
  std::map<ValueId, std::string> names;
  std::string text;
  for (const TaskId task : tasks) {
    text += structural_key(graph, task, roles) + " <";
    for (const ValueId input : graph.inputs(task)) {
      if (!input.valid()) continue;
      text += " " + names.emplace(input, fmt::format("o{}", names.size())).first->second;
    }
    text += " >";
    for (const ValueId output : graph.outputs(task)) {
      text += " " + names.emplace(output, fmt::format("m{}", names.size())).first->second;
      if (atoms.constant[task.index()]) continue;  // cloned into every run that reads it
      bool outside = false;
      graph.for_each_use(output, [&](ir::Graph::Use use) {
        outside = outside || !std::binary_search(tasks.begin(), tasks.end(), use.task);
      });
      if (outside) text += "!";
    }
    text += "\n";
  }
  const XXH128_hash_t digest = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

std::string stage_key(const ir::Plan& plan, StageId stage, const std::vector<ir::GradientRole>& roles) {
  std::string key = program_key(plan.graph, plan.atoms, plan.stages[stage.index()].tasks, roles);
  if (stage.index() >= plan.functions.size() || !plan.functions[stage.index()]->kept) return key;
  key += " keeps";
  for (const ValueId value : *plan.functions[stage.index()]->kept) key += fmt::format(" {}", value.index());
  return key;
}

}  // namespace rannc::partition
