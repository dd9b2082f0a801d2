#include "frontend/onnx/cut_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/cut/assign_stages.h"
#include "frontend/onnx/internal/cut/stage_file.h"
#include "ir/base/mapped_file.h"

namespace rannc::frontend {

namespace {

/// Finds the node of the file that a task comes from.
class Origins {
 public:
  Origins(const CutGraph& graph, const ir::Graph& tasks) : graph_(graph), tasks_(tasks) {
    for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
      const auto [found, fresh] = by_name_.emplace(graph.nodes()[i].name, i);
      if (!fresh) found->second = CutGraph::kNone;  // ambiguous
    }
    // Passes and loss files add tasks of other files later.
    for (const TaskId task : tasks.tasks()) {
      file_ = tasks.location(task).file;
      if (!file_.empty()) break;
    }
  }

  uint32_t node_of(TaskId task) const {
    for (const ValueId output : tasks_.outputs(task)) {
      const auto tensor = graph_.find(std::string(tasks_.value(output).name));
      if (tensor && graph_.tensors()[*tensor].maker != CutGraph::kNone) return graph_.tensors()[*tensor].maker;
    }
    const Location place = tasks_.location(task);
    if (place.node.empty() || place.file != file_) return CutGraph::kNone;
    // A task of a function or body has the name of the node, a slash and its own place.
    for (size_t end = place.node.size(); end != std::string::npos && end > 0; end = place.node.rfind('/', end - 1)) {
      const auto found = by_name_.find(place.node.substr(0, end));
      if (found != by_name_.end()) return found->second;
    }
    return CutGraph::kNone;
  }

 private:
  const CutGraph& graph_;
  const ir::Graph& tasks_;
  std::unordered_map<std::string, uint32_t> by_name_;
  std::string file_;
};

NodeTasks tasks_of_nodes(const CutGraph& graph, const WantedCut& wanted) {
  NodeTasks tasks(graph.nodes().size());
  const Origins origins(graph, wanted.graph);
  for (const TaskId task : wanted.graph.tasks()) {
    const StageId stage = wanted.stage_of[task.index()];
    const uint32_t node = stage.valid() ? origins.node_of(task) : CutGraph::kNone;
    if (node != CutGraph::kNone) tasks[node].push_back(stage.index());
  }
  return tasks;
}

/// Compares what a stage receives with what the plan sends to it.
void compare(const CutGraph& graph, const WantedCut& wanted, StageId stage, const std::vector<uint32_t>& received,
             StageModel& model) {
  std::set<std::string> planned, found;
  for (const uint32_t tensor : received) found.insert(graph.tensors()[tensor].name);
  for (const SentValue& sent : wanted.sent) {
    if (sent.to == stage) planned.emplace(wanted.graph.value(sent.value).name);
  }
  for (const std::string& name : planned) {
    if (!found.contains(name)) model.unsent.push_back({name, graph.find(name).has_value()});
  }
  for (const uint32_t tensor : received) {
    if (!planned.contains(graph.tensors()[tensor].name)) model.added.push_back(graph.tensors()[tensor].name);
  }
}

std::vector<std::string> names_of(const CutGraph& graph, const std::vector<uint32_t>& tensors) {
  std::vector<std::string> names;
  for (const uint32_t tensor : tensors) names.push_back(graph.tensors()[tensor].name);
  return names;
}

}  // namespace

Result<std::vector<StageModel>> cut_stages(const std::filesystem::path& from, const WantedCut& wanted,
                                           const std::filesystem::path& folder) {
  RANNC_CHECK(wanted.stage_of.size() == wanted.graph.task_count()) << "one stage per task";
  RANNC_ASSIGN(const MappedFile file, MappedFile::open(from, ImportOptions().max_file_bytes));
  RANNC_ASSIGN(const ModelParts parts, ModelParts::read(file.bytes(), from.string()));
  RANNC_ASSIGN(const CutGraph graph, CutGraph::of(parts));
  RANNC_ASSIGN(const TensorTypes types, TensorTypes::of(parts, graph, wanted.graph));
  const std::vector<uint32_t> stage_of = assign_stages(graph, tasks_of_nodes(graph, wanted), wanted.stages, types);
  const std::vector<StageParts> stages = stage_parts(graph, stage_of, wanted.stages, parts.functions.size());
  ExternalData external(from);
  std::vector<StageModel> models;
  for (uint32_t stage = 0; stage < wanted.stages; ++stage) {
    StageModel& model = models.emplace_back();
    if (stages[stage].outputs.empty()) continue;
    model.file = fmt::format("stage{}.onnx", stage);
    model.inputs = names_of(graph, stages[stage].inputs);
    model.outputs = names_of(graph, stages[stage].outputs);
    compare(graph, wanted, StageId(stage), stages[stage].received, model);
    RANNC_ASSIGN(const bool has_data,
                 write_stage_file({parts, graph, types, external}, stages[stage], folder / model.file));
    if (has_data) model.data = model.file + ".data";
  }
  return models;
}

}  // namespace rannc::frontend
