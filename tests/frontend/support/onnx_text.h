/// Models for tests, written in ONNX's text syntax.
#pragma once

#include <string>
#include <string_view>

#include "frontend/onnx/import.h"

namespace rannc::test {

/// The serialized model; a text that does not parse fails the process: the test is wrong.
std::string onnx_bytes(std::string_view text);

/// A model of `opset` around a graph: `agraph (float[N] x) => (float[N] y) { y = Relu(x) }`.
std::string onnx_model(std::string_view graph, int opset);

Result<ir::Graph> import_text(std::string_view text, const frontend::ImportOptions& options = {});
Result<ir::Graph> import_graph(std::string_view graph, int opset, const frontend::ImportOptions& options = {});

/// The same with what the file says beside the graph.
Result<frontend::Imported> read_graph(std::string_view graph, int opset);

}  // namespace rannc::test
