#include "tools/common/how_to_train.h"

#include <fmt/format.h>

namespace rannc::tools {

std::string how_to_train(const ir::Plan& plan) {
  const auto& outputs = plan.graph.outputs();
  const std::string_view output = outputs.empty() ? "OUTPUT" : plan.graph.value(outputs.front()).name;
  return fmt::format("to train, compile with a loss, such as --loss 'cross_entropy(output={},labels=y)' or 'mse(…)'",
                     output);
}

}  // namespace rannc::tools
