#include "frontend/onnx/internal/translate/fixed_sizes.h"

#include <fmt/format.h>

namespace rannc::frontend {

namespace {

void fail(Node& node, size_t operand, std::string_view role, std::string_view needs) {
  const ValueId value = node.in(operand);
  node.fail(fmt::format("{} '{}' of {} has the shape {}; {}", role, node.name(value), node.op(),
                        ir::str(*node.shape(value)), needs));
}

}  // namespace

bool stretches_to(Node& node, size_t operand, std::string_view role, const ir::Shape& onto) {
  const ir::Shape* const found = node.shape(node.in(operand));
  if (!found) return false;
  bool fits = found->size() <= onto.size();
  for (size_t back = 1; fits && back <= found->size(); ++back) {
    const ir::Dim &own = (*found)[found->size() - back], &wanted = onto[onto.size() - back];
    if (own == wanted || own == ir::Dim(1)) continue;
    fits = !(wanted == ir::Dim(1)) && !(own.is_constant() && wanted.is_constant());
  }
  if (!fits) fail(node, operand, role, "it needs one that broadcasts to " + ir::str(onto));
  return fits;
}

bool is_one_element(Node& node, size_t operand, std::string_view role) {
  const ir::Shape* const found = node.shape(node.in(operand));
  if (!found) return false;
  const bool fits = ir::element_count(*found) == ir::Dim(1);
  if (!fits) fail(node, operand, role, "it needs one element");
  return fits;
}

}  // namespace rannc::frontend
