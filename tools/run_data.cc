#include "tools/run_data.h"

#include <fmt/format.h>

namespace rannc::tools {

// Plan facts that the data needs: a text model reads one token input and one label input of rank 2.
Result<std::unique_ptr<runtime::Dataset>> open_data(const std::string& data, const std::vector<std::string>& text,
                                                    const ir::Plan& plan, uint64_t seed) {
  if (!data.empty()) return runtime::open_samples(data, plan.mini_batch);
  runtime::TextOptions options;
  options.paths = text;
  options.samples = plan.mini_batch;
  options.seed = seed;
  options.input.clear();
  for (const ValueId id : plan.graph.inputs()) {
    const std::string name(plan.graph.value(id).name);
    const auto& type = plan.graph.type(id);
    if (type.dtype != ir::DType::kI64 || !type.shape || type.shape->size() != 2 || !(*type.shape)[1].is_constant()) {
      return error(fmt::format("--text: input '{}' is no list of tokens per sample; give --data instead", name));
    }
    options.length = static_cast<uint64_t>((*type.shape)[1].constant());
    (name.starts_with("labels/") ? options.labels : options.input) = name;
  }
  if (options.input.empty() || plan.graph.inputs().size() != 2) {
    return error("--text needs a model with one token input and one label input; give --data instead");
  }
  return runtime::open_text(options);
}

uint64_t tokens_per_step(const ir::Plan& plan) {
  for (const ValueId id : plan.graph.inputs()) {
    const auto& type = plan.graph.type(id);
    if (type.shape && type.shape->size() == 2 && type.dtype == ir::DType::kI64 && (*type.shape)[1].is_constant()) {
      return static_cast<uint64_t>((*type.shape)[1].constant()) * plan.mini_batch;
    }
  }
  return 0;
}

}  // namespace rannc::tools
