#include "tools/stage/describe_stage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/graph/byte_count.h"
#include "ir/op/op.h"
#include "runtime/engine/compiled_stage_facts.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

using Json = nlohmann::ordered_json;

uint32_t largest_micro_batch(const ir::Plan& plan) {
  return *std::max_element(plan.micro_batches.begin(), plan.micro_batches.end());
}

Json value_json(const ir::Plan& plan, const std::string& name, const ir::ValueType& type) {
  const auto bytes = ir::byte_count(type).evaluate(ir::bindings_of(plan, largest_micro_batch(plan)));
  return {{"name", name},
          {"type", fmt::format("{}{}", ir::str(type.dtype), type.shape ? ir::str(*type.shape) : "[?]")},
          {"bytes", bytes ? Json(*bytes) : Json()}};
}

Json ports_json(const ir::Plan& plan, const std::vector<runtime::Port>& ports) {
  Json list = Json::array();
  for (const runtime::Port& port : ports) list.push_back(value_json(plan, port.name, port.type));
  return list;
}

Json tasks_json(const ir::Plan& plan, const std::vector<TaskId>& tasks) {
  const auto name = [&](TaskId id) {
    const ir::Graph::Task task = plan.graph.task(id);
    const std::string place = task.location.str();
    return place.empty() ? task.op->name : place;
  };
  Json json = {{"count", tasks.size()}};
  if (!tasks.empty()) json["first"] = name(tasks.front()), json["last"] = name(tasks.back());
  return json;
}

Json weights_json(const runtime::Bundle& bundle, StageId stage) {
  const runtime::Signature& signature = bundle.signatures[stage.index()];
  uint64_t bytes = 0;
  for (const auto& entry : bundle.weights[stage.index()].entries()) bytes += entry.spec.bytes();
  return {{"parameters", signature.parameters.size()},
          {"buffers", signature.buffers.size()},
          {"constants", signature.constants.size()},
          {"bytes", bytes}};
}

/// How a stage of form `native` was compiled, and what of it this machine runs.
Json compiled_json(const runtime::Bundle& bundle, StageId stage) {
  const runtime::Compilation& compiled = *bundle.compiled;
  Json sets = Json::array();
  for (const runtime::InstructionSet& set : compiled.instruction_sets)
    sets.push_back({{"name", set.name}, {"flags", set.flags}});
  Json json = {{"compiler", compiled.compiler},
               {"compiler_version", compiled.compiler_version},
               {"function_flags", compiled.function_flags},
               {"loop_flags", compiled.loop_flags},
               {"instruction_sets", sets},
               {"interface_version", compiled.interface_version},
               {"torch_version", compiled.torch_version}};
  const auto facts = runtime::compiled_stage_facts(bundle.compiled_path(stage));
  if (facts.ok()) {
    json["instruction_set_here"] = facts->instruction_set;
  } else {
    json["problem_here"] = facts.diagnostic().message;
  }
  return json;
}

std::string compiled_text(const Json& compiled) {
  const auto joined = [](const Json& texts) {
    return fmt::format("{}", fmt::join(texts.get<std::vector<std::string>>(), " "));
  };
  std::string text =
      fmt::format("compiled by {} ({}) for LibTorch {}, version {} of the interface of stages\n  functions  {}\n",
                  compiled["compiler"].get<std::string>(), compiled["compiler_version"].get<std::string>(),
                  compiled["torch_version"].get<std::string>(), compiled["interface_version"].get<uint32_t>(),
                  joined(compiled["function_flags"]));
  if (!compiled["instruction_sets"].empty()) text += fmt::format("  loops  {}\n", joined(compiled["loop_flags"]));
  const std::string here = compiled.value("instruction_set_here", "");
  for (const Json& set : compiled["instruction_sets"]) {
    const auto name = set["name"].get<std::string>();
    text += fmt::format("  loops for {}{}", name, name == here ? " (runs here)" : "");
    text += set["flags"].empty() ? "\n" : fmt::format("  {}\n", joined(set["flags"]));
  }
  if (compiled.contains("problem_here"))
    text += fmt::format("  does not run here: {}\n", compiled["problem_here"].get<std::string>());
  return text;
}

std::string size(const Json& amount) {
  return amount.is_null() ? "unknown" : fmt::format("{} bytes", amount.get<uint64_t>());
}

std::string values_text(const char* title, const Json& values) {
  std::string text = fmt::format("{}\n", title);
  for (const Json& value : values) {
    text += fmt::format("  {}  {}  {}\n", value["name"].get<std::string>(), value["type"].get<std::string>(),
                        size(value["bytes"]));
  }
  return text;
}

}  // namespace

Json stage_json(const runtime::Bundle& bundle, StageId stage) {
  const ir::Plan& plan = bundle.plan;
  const runtime::Signature& signature = bundle.signatures[stage.index()];
  Json devices = Json::array(), random_inputs = Json::array(), files = Json::array();
  for (const DeviceId device : plan.stages[stage.index()].devices)
    devices.push_back({{"rank", device.index()}, {"name", plan.devices[device.index()].name}});
  for (const runtime::RandomValue& random_input : signature.random_inputs)
    random_inputs.push_back(value_json(plan, random_input.name, random_input.type));
  for (const runtime::BundleFile& file : bundle.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"digest", file.digest}});
  Json json = {{"bundle", bundle.path},
               {"form", runtime::str(bundle.form)},
               {"stage", stage.index()},
               {"stages", plan.stages.size()},
               {"world", plan.devices.size()},
               {"devices", devices},
               {"micro_batch", largest_micro_batch(plan)},
               {"tasks", tasks_json(plan, plan.stages[stage.index()].tasks)},
               {"arguments", ports_json(plan, signature.inputs)},
               {"random_inputs", random_inputs},
               {"results", ports_json(plan, signature.outputs)},
               {"weights", weights_json(bundle, stage)},
               {"files", files}};
  if (bundle.compiled) json["compiled"] = compiled_json(bundle, stage);
  return json;
}

std::string stage_text(const Json& stage) {
  std::string text = fmt::format("stage {} of {} in {}\n", stage["stage"].get<size_t>(), stage["stages"].get<size_t>(),
                                 stage["bundle"].get<std::string>());
  for (const Json& device : stage["devices"]) {
    text += fmt::format("runs on device {} (--rank {} --world {})\n", device["name"].get<std::string>(),
                        device["rank"].get<size_t>(), stage["world"].get<size_t>());
  }
  const Json &tasks = stage["tasks"], &weights = stage["weights"];
  text += fmt::format("{} tasks", tasks["count"].get<size_t>());
  if (tasks.contains("first"))
    text += fmt::format(", from {} to {}", tasks["first"].get<std::string>(), tasks["last"].get<std::string>());
  text += '\n' + values_text(fmt::format("arguments, for {} samples", stage["micro_batch"].get<size_t>()).c_str(),
                             stage["arguments"]);
  if (!stage["random_inputs"].empty()) text += values_text("random inputs", stage["random_inputs"]);
  text += values_text("results", stage["results"]);
  text += fmt::format("weights: {} parameters, {} buffers, {} constants, {} bytes\n",
                      weights["parameters"].get<size_t>(), weights["buffers"].get<size_t>(),
                      weights["constants"].get<size_t>(), weights["bytes"].get<uint64_t>());
  text += fmt::format("form {}\n", stage["form"].get<std::string>());
  if (stage.contains("compiled")) text += compiled_text(stage["compiled"]);
  text += "files\n";
  for (const Json& file : stage["files"]) {
    text += fmt::format("  {}  {} bytes  {}\n", file["name"].get<std::string>(), file["bytes"].get<uint64_t>(),
                        file["digest"].get<std::string>());
  }
  return text;
}

}  // namespace rannc::tools
