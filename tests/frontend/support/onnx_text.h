/// Models for tests, written in ONNX's text syntax.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/import.h"

namespace rannc::test {

/// The serialized model; a text that does not parse fails the process: the test is wrong.
std::string onnx_bytes(std::string_view text);

/// A model of `opset` around a graph: `agraph (float[N] x) => (float[N] y) { y = Relu(x) }`.
std::string onnx_model(std::string_view graph, int opset);

/// The serialized model whose nodes, in order, say that they were made from these calls (`aten.relu.default](args =
/// (%x,)`, or `%relu_1 = aten.relu…` where the name of the result matters), as torch.onnx.export writes them with
/// dynamo=True; an empty text: nothing. `state`: what the graph lists of its program's state, a line each (`p_w:
/// PARAMETER target='w'`). `scopes`: the path of each node's module; those of nodes without a call are ignored.
std::string traced_model(std::string_view graph, int opset, const std::vector<std::string>& calls,
                         const std::string& state = "", const std::vector<std::string>& scopes = {});

Result<ir::Graph> import_text(std::string_view text, const frontend::ImportOptions& options = {});
Result<ir::Graph> import_graph(std::string_view graph, int opset, const frontend::ImportOptions& options = {});

/// The same with what the file says beside the graph.
Result<frontend::Imported> read_graph(std::string_view graph, int opset);

}  // namespace rannc::test
