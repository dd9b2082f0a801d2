#include "tools/run/run_data.h"

#include <fmt/format.h>

#include <optional>

namespace rannc::tools {

namespace {

/// Returns the token axis of an input that is a list of tokens per sample: the non-batch axis, of known extent. Returns
/// nothing for other inputs.
std::optional<size_t> axis_of_places(const ir::ValueType& type) {
  if (type.dtype != ir::DType::kI64 || !type.shape || type.shape->size() != 2) return std::nullopt;
  const size_t places = type.batch.axis == 1 ? 0 : 1;
  return (*type.shape)[places].is_constant() ? std::optional(places) : std::nullopt;
}

uint64_t places_of(const ir::ValueType& type, size_t axis) {
  return static_cast<uint64_t>((*type.shape)[axis].constant());
}

}  // namespace

// Text requires a model with one token input and one label input of rank 2.
Result<std::unique_ptr<runtime::Dataset>> open_data(const std::string& data, const std::vector<std::string>& text,
                                                    const ir::Plan& plan, uint64_t seed) {
  if (!data.empty()) return runtime::open_samples(data, plan);
  runtime::TextOptions options;
  options.paths = text;
  options.samples = plan.mini_batch;
  options.seed = seed;
  options.input.clear();
  for (const ValueId id : plan.graph.inputs()) {
    const std::string name(plan.graph.value(id).name);
    const auto& type = plan.graph.type(id);
    const auto places = axis_of_places(type);
    if (!places) {
      return error(fmt::format("--text: input '{}' is not a list of tokens per sample; use --data instead", name));
    }
    options.length = places_of(type, *places);
    const bool labels = name.starts_with("labels/");
    (labels ? options.labels : options.input) = name;
    (labels ? options.labels_by_place : options.input_by_place) = *places == 0;
  }
  if (options.input.empty() || plan.graph.inputs().size() != 2) {
    return error("--text requires a model with one token input and one label input; use --data instead");
  }
  return runtime::open_text(options);
}

uint64_t tokens_per_step(const ir::Plan& plan) {
  for (const ValueId id : plan.graph.inputs()) {
    const auto& type = plan.graph.type(id);
    if (const auto places = axis_of_places(type)) return places_of(type, *places) * plan.mini_batch;
  }
  return 0;
}

}  // namespace rannc::tools
