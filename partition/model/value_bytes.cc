#include "partition/model/value_bytes.h"

#include <fmt/format.h>

namespace rannc::partition {

namespace {

// Handles the most common shapes: numbers, one of them perhaps the batch. Returns nothing for others.
std::optional<ByteLine> plain_line(const ir::Shape& shape, const std::string& batch, double element_bytes) {
  double product = element_bytes;
  bool batched = false;
  for (const ir::Dim& dim : shape) {
    if (dim.is_constant()) {
      product *= static_cast<double>(dim.constant());
    } else if (!batched && dim.is_symbol() && dim.symbol_name() == batch) {
      batched = true;
    } else {
      return std::nullopt;
    }
  }
  return batched ? ByteLine{product, 0} : ByteLine{0, product};
}

Diagnostic unknown_size(const ir::Graph& graph, ValueId value) {
  return error(fmt::format("the size of value '{}' is unknown: {}", graph.value(value).name,
                           graph.type(value).shape ? ir::str(*graph.type(value).shape) : "it has no shape"));
}

}  // namespace

double sum_ratio(ir::DType parameter) {
  return static_cast<double>(ir::byte_size(ir::sum_dtype(parameter))) / ir::byte_size(parameter);
}

Result<ByteLine> byte_line(const ir::Graph& graph, ValueId value, const ir::Bindings& assume) {
  const ir::ValueType& type = graph.type(value);
  if (!type.shape) return ByteLine{};
  const auto element_bytes = static_cast<int64_t>(ir::byte_size(type.dtype));
  if (const auto plain = plain_line(*type.shape, graph.batch_symbol(), static_cast<double>(element_bytes)))
    return *plain;
  const auto line = byte_line(ir::element_count(*type.shape) * ir::Dim(element_bytes), graph.batch_symbol(), assume);
  if (!line) return unknown_size(graph, value);
  return *line;
}

std::optional<ByteLine> byte_line(const ir::Dim& bytes, const std::string& batch, const ir::Bindings& assume) {
  if (bytes.is_constant()) return ByteLine{0, static_cast<double>(bytes.constant())};
  ir::Bindings bindings = assume;
  bindings[batch] = 1;
  const auto one = bytes.evaluate(bindings);
  bindings[batch] = 2;
  const auto two = bytes.evaluate(bindings);
  if (!one || !two) return std::nullopt;
  const double slope = static_cast<double>(*two - *one);
  return ByteLine{slope, static_cast<double>(*one) - slope};
}

}  // namespace rannc::partition
