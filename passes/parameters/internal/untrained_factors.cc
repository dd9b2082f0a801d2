#include "passes/parameters/internal/untrained_factors.h"

#include <algorithm>

#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "passes/parameters/internal/parameter_roles.h"

namespace rannc::passes {

namespace {

using ir::Graph;

constexpr int64_t kMostElements = 1 << 26;

class Finder {
 public:
  explicit Finder(const Graph& graph)
      : graph_(graph),
        varying_(varying_values(graph)),
        scales_(graph.value_count()),
        measures_(graph.value_count()),
        masks_(graph.value_count()),
        given_(graph.value_count()) {
    for (const ValueId output : graph.outputs()) given_[output.index()] = true;
  }

  std::vector<bool> run() {
    // Uses are by later tasks, so all of them are settled before the value is.
    for (uint32_t i = graph_.task_count(); i-- > 0;) {
      for (const ValueId output : graph_.outputs(TaskId(i))) settle(output);
    }
    std::vector<bool> found(graph_.value_count());
    for (const ValueId value : graph_.values()) {
      if (graph_.producer(value).valid() || varying_[value.index()]) continue;
      settle(value);
      found[value.index()] = measures_[value.index()] || (masks_[value.index()] && is_mask(value));
    }
    return found;
  }

 private:
  bool is(TaskId task, const ir::Pattern& pattern) const { return ir::match(graph_, task, pattern).has_value(); }

  bool is_single(ValueId value) const { return has_one_element(graph_.type(value)); }

  /// Whether all uses, of which there are some, are `fit`.
  template <class Fit>
  bool all_uses(ValueId value, Fit fit) const {
    size_t uses = 0;
    bool all = !given_[value.index()];
    graph_.for_each_use(value, [&](Graph::Use use) {
      ++uses;
      all = all && fit(use);
    });
    return all && uses > 0;
  }

  void settle(ValueId value) {
    if (varying_[value.index()] || !ir::is_float(graph_.type(value).dtype)) return;
    if (is_single(value)) scales_[value.index()] = all_uses(value, [&](Graph::Use use) { return scales_in(use); });
    measures_[value.index()] = all_uses(value, [&](Graph::Use use) { return measures_in(use); });
    masks_[value.index()] = !is_single(value) && all_uses(value, [&](Graph::Use use) { return masks_in(use); });
  }

  /// A single number scales a weight there, or becomes one that does.
  bool scales_in(const Graph::Use& use) const {
    static const ir::Pattern kScaling = ir::op({"mul", "div"});
    const ValueId result = graph_.outputs(use.task)[0];
    if (varying_[result.index()]) return false;
    if (is_single(result) && scales_[result.index()]) return true;
    return is(use.task, kScaling) && scales_weight(use);
  }

  /// The other factor is no single number, or it is a weight of one element.
  bool scales_weight(const Graph::Use& use) const {
    for (const ValueId operand : graph_.inputs(use.task)) {
      const bool other = operand.valid() && operand != graph_.inputs(use.task)[use.operand];
      if (other && (!is_single(operand) || !graph_.producer(operand).valid())) return true;
    }
    return false;
  }

  /// A factor of a product that ends in a number which scales.
  bool measures_in(const Graph::Use& use) const {
    static const ir::Pattern kProduct = ir::op({"matmul", "linear"}), kFactors = ir::op("mul"),
                             kSeen = ir::op({"identity", "reshape", "unsqueeze", "squeeze", "permute", "cast"});
    const ValueId result = graph_.outputs(use.task)[0];
    if (varying_[result.index()]) return false;
    if (is(use.task, kSeen)) return measures_[result.index()];
    if (is(use.task, kFactors) && !is_single(result)) return is_summed(result) && has_product(use);
    if (!is(use.task, kProduct)) return false;
    return measures_[result.index()] || (ends(result) && has_product(use));
  }

  bool is_summed(ValueId value) const {
    static const ir::Pattern kSum = ir::op("sum");
    return all_uses(value, [&](Graph::Use use) { return is(use.task, kSum) && ends(graph_.outputs(use.task)[0]); });
  }

  /// A single number that scales.
  bool ends(ValueId value) const { return is_single(value) && scales_[value.index()]; }

  /// Another factor is a matrix, or one of the factors is a product: two vectors alone measure no weight.
  bool has_product(const Graph::Use& use) const {
    static const ir::Pattern kProduct =
        ir::through({"identity", "reshape", "unsqueeze", "squeeze", "permute", "cast"}, ir::op({"matmul", "linear"}));
    for (const ValueId operand : graph_.inputs(use.task)) {
      if (!operand.valid()) continue;
      if (ir::match(graph_, operand, kProduct)) return true;
      if (operand == graph_.inputs(use.task)[use.operand]) continue;
      const auto& shape = graph_.type(operand).shape;
      const auto wide = [](const ir::Dim& dim) { return !(dim == ir::Dim(1)); };
      if (shape && std::count_if(shape->begin(), shape->end(), wide) > 1) return true;
    }
    return false;
  }

  /// A product, element by element, with something as large that does not vary.
  bool masks_in(const Graph::Use& use) const {
    static const ir::Pattern kProduct = ir::op("mul"),
                             kSeen = ir::op({"identity", "cast", "reshape", "unsqueeze", "permute", "expand"});
    const ValueId result = graph_.outputs(use.task)[0];
    if (varying_[result.index()]) return false;
    if (is(use.task, kSeen)) return masks_[result.index()];
    if (!is(use.task, kProduct)) return false;
    const auto operands = graph_.inputs(use.task);
    const ValueId other = operands[1 - use.operand];
    return other != operands[use.operand] && graph_.type(other).shape == graph_.type(result).shape;
  }

  bool is_mask(ValueId value) const {
    const Graph::Value& found = graph_.value(value);
    if (!found.data.present()) return false;
    const auto numbers = ir::decode_numbers(found.type, found.data, kMostElements);
    if (!numbers.ok()) return false;
    const auto zeros = std::count(numbers->begin(), numbers->end(), 0.0);
    const auto ones = std::count(numbers->begin(), numbers->end(), 1.0);
    return zeros > 0 && ones > 0 && zeros + ones == static_cast<ptrdiff_t>(numbers->size());
  }

  const Graph& graph_;
  std::vector<bool> varying_;
  std::vector<bool> scales_;    ///< single numbers that weights are scaled by
  std::vector<bool> measures_;  ///< factors of products that end in one of those
  std::vector<bool> masks_;     ///< factors of weights, element by element
  std::vector<bool> given_;     ///< outputs of the graph
};

}  // namespace

std::vector<bool> untrained_factors(const Graph& graph) { return Finder(graph).run(); }

}  // namespace rannc::passes
