#include "passes/fuse.h"

#include <fmt/format.h>

#include <array>

#include "passes/fusions/rules.h"

namespace rannc::passes {

std::span<const Fusion> fusions() {
  static constexpr std::array kFusions = {
      Fusion{"views", "views that change nothing go, views of views become one", fusion::views},
      Fusion{"linear", "a product with a stored matrix, turned or with a bias added, becomes linear", fusion::linear},
      Fusion{"layer-norm", "means, differences and roots become layer_norm", fusion::layer_norm},
      Fusion{"rms-norm", "means of squares and roots become rms_norm", fusion::rms_norm},
      Fusion{"softmax", "exponentials over their sum become softmax or log_softmax", fusion::softmax},
      Fusion{"gelu", "x times its share of a normal distribution becomes gelu", fusion::gelu},
      Fusion{"silu", "x times its sigmoid becomes silu", fusion::silu},
      Fusion{"attention", "softmax of scaled products becomes attention", fusion::attention},
  };
  return kFusions;
}

std::set<std::string> shortening_passes() {
  std::set<std::string> names{"cse"};
  for (const Fusion& fusion : fusions()) names.insert("fuse-" + std::string(fusion.name));
  return names;
}

Result<Outcome> Fuse::run(ir::Graph& graph, PassContext& context) const {
  const std::vector<ir::Rewrite> rules = fusion_.rules();
  const ir::Rewritten done = ir::rewrite(graph, rules);
  if (done.total() == 0) return Outcome{};
  std::string counts;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (done.counts[i] > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", done.counts[i], rules[i].name);
  }
  context.remarks.emplace_back().message = "fused " + counts;
  return Outcome{true};
}

}  // namespace rannc::passes
