// Convolutions whose result has a number for each channel added: the bias.
// Example: `tests/passes/golden/fuse_conv_bias.rir`.
#include <algorithm>

#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0}, kWeight{1}, kBias{2}, kSpread{3}, kConvolved{4};

/// Whether what is added has one number for each channel, on their axis.
bool is_by_channel(const Match& match) {
  const Graph& graph = match.graph();
  const auto &made = graph.type(match[kConvolved]).shape, &spread = graph.type(match[kSpread]).shape;
  if (!made || made->size() < 3 || !spread || spread->size() > made->size()) return false;
  Shape meant(made->size(), Dim(1)), found(made->size() - spread->size(), Dim(1));
  meant[1] = (*made)[1];
  found.insert(found.end(), spread->begin(), spread->end());
  return found == meant;
}

Shape channels(const Match& match) { return {(*match.graph().type(match[kConvolved]).shape)[1]}; }

Rewrite with_bias(const std::string& name) {
  const auto holds = [name](const Match& match) {
    if (!is_by_channel(match) || !outlives(match, kX) || !outlives(match, kWeight)) return false;
    const Graph& graph = match.graph();
    ValueType bias = graph.type(match[kBias]);
    bias.shape = channels(match);
    return makes_result(match, name, {&graph.type(match[kX]), &graph.type(match[kWeight]), &bias},
                        match.attributes(kConvolved));
  };
  const auto build = [name](const Match& match, Builder& make) {
    const bool is_row = match.graph().type(match[kBias]).shape == channels(match);
    const ValueId bias = is_row ? make[kBias] : make.emit("reshape", {make[kBias]}, {{"shape", channels(match)}});
    return make.result(name, {make[kX], make[kWeight], bias}, match.attributes(kConvolved));
  };
  const Pattern spread = through({"reshape", "unsqueeze"}, of_kind(ValueKind::kParameter, kBias)).as(kSpread);
  const Pattern convolved = op(name.c_str(), any(kX), any(kWeight)).as(kConvolved);
  return {name + " with a bias", commutative(op("add", convolved, spread)).as(kResult).where(holds), build};
}

}  // namespace

std::vector<Rewrite> convolution() { return {with_bias("conv"), with_bias("conv_transpose")}; }

}  // namespace rannc::passes::fusion
