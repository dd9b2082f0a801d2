/// Small graphs as text, for tests of passes that read types.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ir/text/text.h"
#include "passes/simplify/infer_shapes.h"

namespace rannc::passes {

/// A graph of these statements, types inferred.
inline ir::Graph typed_graph(const std::string& statements) {
  auto graph = ir::parse_graph("rannc.graph 1\ngraph \"small\"\n" + statements, "small.rir");
  EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
  PassContext context;
  const auto typed = InferShapes().run(*graph, context);
  EXPECT_TRUE(typed.ok()) << typed.diagnostic().str();
  return std::move(*graph);
}

}  // namespace rannc::passes
