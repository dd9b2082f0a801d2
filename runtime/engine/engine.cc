#include "runtime/engine/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/engine/engine_explicit.h"
#include "runtime/internal/named_rows.h"

namespace rannc::runtime {
namespace {

const Engine kEngines[] = {
    {"explicit", "forward and backward functions of the plan, call by call", load_explicit_program},
    {"native", "the compiled functions of a bundle of form native", load_native_program},
};

}  // namespace

std::span<const Engine> engines() { return kEngines; }

std::vector<std::string> engine_names() { return names_of(engines()); }

std::string engine_summaries() { return summaries_of(engines()); }

Result<const Engine*> find_engine(std::string_view name) {
  for (const Engine& engine : kEngines) {
    if (name.empty() || engine.name == name) return &engine;
  }
  return error(fmt::format("unknown engine '{}'; expected one of: {}", name, fmt::join(engine_names(), ", ")));
}

Result<const Engine*> engine_for(const Bundle& bundle, const Device& device, std::string_view name) {
  const bool compiled = bundle.form == BundleForm::kNative && device.address() == "cpu";
  return find_engine(name.empty() && compiled ? "native" : name);
}

}  // namespace rannc::runtime
