// Writes layers shared by several models of the zoo.
#include "frontend/zoo/layers.h"

namespace rannc::frontend::zoo {

std::string projection(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t in, int64_t out,
                       float deviation) {
  const auto scope = writer.scope(name);
  const std::string product = writer.node("MatMul", {x, writer.weight("weight", {in, out}, normal(deviation))});
  return writer.node("Add", {product, writer.weight("bias", {out}, constant(0))});
}

std::string linear(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t in, int64_t out,
                   float deviation) {
  const auto scope = writer.scope(name);
  const std::string weight = writer.weight("weight", {out, in}, normal(deviation));
  return writer.node("Gemm", {x, weight, writer.weight("bias", {out}, constant(0))}, {{"transB", int64_t{1}}});
}

std::string layer_norm(OnnxWriter& writer, std::string_view name, const std::string& x, int64_t width, float epsilon) {
  const auto scope = writer.scope(name);
  const std::string weight = writer.weight("weight", {width}, constant(1));
  return writer.node("LayerNormalization", {x, weight, writer.weight("bias", {width}, constant(0))},
                     {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
}

}  // namespace rannc::frontend::zoo
