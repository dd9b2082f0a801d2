// Writes layers decomposed into primitive operators.
#include "frontend/zoo/primitives.h"

#include <cmath>

namespace rannc::frontend::zoo {

namespace {

std::string number(OnnxWriter& writer, std::string_view name, float value) { return writer.floats(name, {}, {value}); }

std::string over_last_axis(OnnxWriter& writer, std::string_view type, const std::string& x, const std::string& axes) {
  return writer.node(type, {x, axes}, {{"keepdims", int64_t{1}}});
}

}  // namespace

std::string layer_norm_written_out(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t width,
                                   float epsilon) {
  const auto scope = writer.scope(name);
  const std::string axes = writer.integers("axes", {-1});
  const std::string centred = writer.node("Sub", {x, over_last_axis(writer, "ReduceMean", x, axes)});
  const std::string squares = writer.node("Pow", {centred, number(writer, "two", 2)});
  const std::string variance = over_last_axis(writer, "ReduceMean", squares, axes);
  const std::string safe = writer.node("Add", {variance, number(writer, "epsilon", epsilon)});
  const std::string normal = writer.node("Div", {centred, writer.node("Sqrt", {safe})});
  const std::string scaled = writer.node("Mul", {normal, writer.weight("weight", {width}, constant(1))});
  return writer.node("Add", {scaled, writer.weight("bias", {width}, constant(0))});
}

std::string gelu_written_out(OnnxWriter& writer, const std::string& x) {
  const auto scope = writer.scope("gelu");
  const std::string error = writer.node("Erf", {writer.node("Div", {x, number(writer, "root", std::sqrt(2.0F))})});
  const std::string share = writer.node("Add", {error, number(writer, "one", 1)});
  return writer.node("Mul", {writer.node("Mul", {x, share}), number(writer, "half", 0.5F)});
}

std::string softmax_written_out(OnnxWriter& writer, const std::string& x) {
  const auto scope = writer.scope("softmax");
  const std::string axes = writer.integers("axes", {-1});
  const std::string lowered = writer.node("Sub", {x, over_last_axis(writer, "ReduceMax", x, axes)});
  const std::string powers = writer.node("Exp", {lowered});
  return writer.node("Div", {powers, over_last_axis(writer, "ReduceSum", powers, axes)});
}

std::string dropout(OnnxWriter& writer, const std::string& x, float ratio) {
  if (ratio == 0) return x;
  const auto scope = writer.scope("dropout");
  return writer.node("Dropout", {x, number(writer, "ratio", ratio), writer.boolean("training", true)});
}

}  // namespace rannc::frontend::zoo
