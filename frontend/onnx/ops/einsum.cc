/// Translates ONNX's Einsum.
#include "frontend/recipes/einsum.h"

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

void einsum_of_node(Node& node) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.input_count(); ++i) operands.push_back(node.in(i));
  const auto last = node.good() ? einsum(node, node.text("equation", ""), operands) : std::nullopt;
  if (last) node.result(last->op, {last->operand}, last->attributes);
}

}  // namespace

std::span<const Translator> einsum_translators() {
  static constexpr Translator kTable[] = {
      {"Einsum", 12, 27, in_i64<einsum_of_node>},
  };
  return kTable;
}

}  // namespace rannc::frontend
