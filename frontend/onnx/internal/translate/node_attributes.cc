/// Reads attributes of ONNX nodes. Their types are checked against the operator's schema before a translator runs.
#include <fmt/format.h>

#include "frontend/onnx/internal/translate/node.h"

namespace rannc::frontend {

const ONNX_NAMESPACE::AttributeProto* Node::find(std::string_view name) const {
  for (const auto& attribute : proto_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t Node::integer(std::string_view name, int64_t otherwise) const {
  const auto* const found = find(name);
  return found ? found->i() : otherwise;
}

double Node::number(std::string_view name, double otherwise) const {
  const auto* const found = find(name);
  return found ? static_cast<double>(found->f()) : otherwise;
}

std::string Node::text(std::string_view name, std::string_view otherwise) const {
  const auto* const found = find(name);
  return found ? found->s() : std::string(otherwise);
}

std::vector<int64_t> Node::integers(std::string_view name) const {
  const auto* const found = find(name);
  if (!found) return {};
  return {found->ints().begin(), found->ints().end()};
}

std::vector<double> Node::numbers(std::string_view name) const {
  const auto* const found = find(name);
  if (!found) return {};
  return {found->floats().begin(), found->floats().end()};
}

std::vector<std::string> Node::texts(std::string_view name) const {
  const auto* const found = find(name);
  if (!found) return {};
  return {found->strings().begin(), found->strings().end()};
}

std::optional<Tensor> Node::tensor(std::string_view name) {
  const auto* const found = find(name);
  if (!found || !found->has_t()) {
    fail(fmt::format("{} lacks the tensor '{}'", op(), name));
    return std::nullopt;
  }
  auto tensor = read_tensor(found->t(), source_.model, *source_.external, where());
  if (tensor.ok()) return *std::move(tensor);
  fail(tensor.diagnostic());
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Node::axes(size_t index, int since) {
  if (opset_ < since) return has_attribute("axes") ? std::optional(integers("axes")) : std::nullopt;
  if (!has(index)) return std::nullopt;
  auto known = integers(operands_[index]);
  if (!known) fail(fmt::format("{} needs axes that are known before the model runs", op()));
  return known;
}

}  // namespace rannc::frontend
