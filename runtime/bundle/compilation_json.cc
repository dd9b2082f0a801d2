#include "runtime/bundle/internal/compilation_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace rannc::runtime {

namespace {

using Json = nlohmann::json;

bool is_texts(const Json& json) {
  return json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& each) { return each.is_string(); });
}

Diagnostic wrong(const char* field, const char* expected) {
  return error(fmt::format("`{}.{}` must be {}", kCompiledEntry, field, expected));
}

Result<void> read(const Json& entry, const char* field, std::string& text) {
  const Json found = entry.value(field, Json());
  if (!found.is_string()) return wrong(field, "a text");
  text = found.get<std::string>();
  return {};
}

Result<void> read(const Json& entry, const char* field, std::vector<std::string>& texts) {
  const Json found = entry.value(field, Json());
  if (!is_texts(found)) return wrong(field, "a list of texts");
  texts = found.get<std::vector<std::string>>();
  return {};
}

Result<void> read(const Json& entry, const char* field, uint32_t& number) {
  const Json found = entry.value(field, Json());
  if (!found.is_number_unsigned() || found > std::numeric_limits<uint32_t>::max()) return wrong(field, "a version");
  number = found.get<uint32_t>();
  return {};
}

Result<void> read(const Json& entry, const char* field, std::vector<InstructionSet>& sets) {
  const Json found = entry.value(field, Json());
  const auto fits = [](const Json& each) {
    return each.is_object() && each.value("name", Json()).is_string() && is_texts(each.value("flags", Json()));
  };
  if (!found.is_array() || !std::all_of(found.begin(), found.end(), fits))
    return wrong(field, "a list of objects with a text `name` and a list of texts `flags`");
  for (const Json& each : found)
    sets.push_back({each["name"].get<std::string>(), each["flags"].get<std::vector<std::string>>()});
  return {};
}

}  // namespace

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

Result<Compilation> parse_compilation(const Json& manifest) {
  const Json entry = manifest.value(kCompiledEntry, Json());
  if (!entry.is_object())
    return error(fmt::format("`{}` must be an object: how the stages were compiled", kCompiledEntry));
  Compilation compiled;
  RANNC_TRY(read(entry, "compiler", compiled.compiler));
  RANNC_TRY(read(entry, "compiler_version", compiled.compiler_version));
  RANNC_TRY(read(entry, "function_flags", compiled.function_flags));
  RANNC_TRY(read(entry, "loop_flags", compiled.loop_flags));
  RANNC_TRY(read(entry, "instruction_sets", compiled.instruction_sets));
  RANNC_TRY(read(entry, "interface_version", compiled.interface_version));
  RANNC_TRY(read(entry, "torch_version", compiled.torch_version));
  return compiled;
}

}  // namespace rannc::runtime
