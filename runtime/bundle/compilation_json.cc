#include "runtime/bundle/internal/compilation_json.h"

#include <nlohmann/json.hpp>

#include "runtime/internal/json_fields.h"

namespace rannc::runtime {

nlohmann::ordered_json compilation_json(const Compilation& compiled) {
  nlohmann::ordered_json sets = nlohmann::ordered_json::array();
  for (const InstructionSet& set : compiled.instruction_sets)
    sets.push_back({{"name", set.name}, {"flags", set.flags}});
  return {{"compiler", compiled.compiler},
          {"compiler_version", compiled.compiler_version},
          {"function_flags", compiled.function_flags},
          {"loop_flags", compiled.loop_flags},
          {"instruction_sets", sets},
          {"interface_version", compiled.interface_version},
          {"torch_version", compiled.torch_version}};
}

Result<Compilation> parse_compilation(const nlohmann::json& manifest) {
  std::string fault;
  JsonFields entry = JsonFields(manifest, "", fault).object(kCompiledEntry);
  Compilation compiled;
  uint64_t interface_version = 0;
  entry.read("compiler", compiled.compiler);
  entry.read("compiler_version", compiled.compiler_version);
  entry.read("function_flags", compiled.function_flags);
  entry.read("loop_flags", compiled.loop_flags);
  for (JsonFields& set : entry.objects("instruction_sets")) {
    InstructionSet& read = compiled.instruction_sets.emplace_back();
    set.read("name", read.name);
    set.read("flags", read.flags);
  }
  entry.read("interface_version", interface_version, WholeRange{0, UINT32_MAX});
  entry.read("torch_version", compiled.torch_version);
  if (!fault.empty()) return error(fault);
  compiled.interface_version = static_cast<uint32_t>(interface_version);
  return compiled;
}

}  // namespace rannc::runtime
