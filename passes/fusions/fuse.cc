#include "passes/fusions/fuse.h"

#include <fmt/format.h>

#include <array>

#include "passes/fusions/rules.h"

namespace rannc::passes {

// Defined in the file of each kind; the table below is their only caller.
namespace fusion {
std::vector<ir::Rewrite> views();
std::vector<ir::Rewrite> selects();
std::vector<ir::Rewrite> linear();
std::vector<ir::Rewrite> convolution();
std::vector<ir::Rewrite> softmax();
std::vector<ir::Rewrite> cross_entropy();
std::vector<ir::Rewrite> gelu();
std::vector<ir::Rewrite> silu();
std::vector<ir::Rewrite> attention();
std::vector<ir::Rewrite> permutes();
std::vector<ir::Rewrite> powers();
}  // namespace fusion

std::string pass_name(const Fusion& fusion) { return fmt::format("fuse-{}", fusion.name); }

std::span<const Fusion> fusions() {
  static constexpr std::array kFusions = {
      Fusion{fusion::views, "views", "views that change nothing go, views of views become one"},
      Fusion{fusion::selects, "selects", "an element picked along an axis by a constant becomes a part"},
      Fusion{fusion::linear, "linear", "a product with a stored matrix, turned or with a bias added, becomes linear"},
      Fusion{fusion::convolution, "conv-bias", "a number for each channel added to a convolution becomes its bias"},
      Fusion{fusion::layer_norm, "layer-norm", "means, differences and roots become layer_norm"},
      Fusion{fusion::rms_norm, "rms-norm", "means of squares and roots become rms_norm"},
      Fusion{fusion::softmax, "softmax", "exponentials over their sum become softmax or log_softmax"},
      Fusion{fusion::cross_entropy, "cross-entropy",
             "log_softmax picked at labels and summed becomes cross_entropy_sum"},
      Fusion{fusion::gelu, "gelu", "x times its share of a normal distribution becomes gelu"},
      Fusion{fusion::silu, "silu", "x times its sigmoid becomes silu"},
      Fusion{fusion::attention, "attention", "softmax of scaled products becomes attention"},
      Fusion{fusion::permutes, "permutes", "permutations around elementwise tasks meet and become one or none"},
      Fusion{fusion::powers, "powers", "powers by 2, 1/2, -1/2 and -1 become products, roots and quotients"},
  };
  return kFusions;
}

std::set<std::string> shortening_passes() {
  std::set<std::string> names{"cse", "hoist-uniform", "join-pieces", "merge-slices"};
  for (const Fusion& fusion : fusions()) names.insert(pass_name(fusion));
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
