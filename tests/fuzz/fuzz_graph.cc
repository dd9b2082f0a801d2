/// Graph text never crashes the parser; what it accepts prints to text that is a fixed point. Calls of foreign
/// operators are verified, and lowered where they hold.
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "ir/op/foreign.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/fuzz/target.h"

namespace {

bool calls_others(const rannc::ir::Graph& graph) {
  for (const rannc::TaskId task : graph.tasks()) {
    if (rannc::ir::is_foreign(graph.op(task))) return true;
  }
  return false;
}

void lower(const rannc::ir::Graph& graph) {
  for (const rannc::TaskId task : graph.tasks()) {
    if (!rannc::ir::is_foreign(graph.op(task))) continue;
    const auto inputs = rannc::ir::type_list(graph, graph.inputs(task));
    const auto outputs = rannc::ir::type_list(graph, graph.outputs(task));
    (void)rannc::ir::lowering({graph.op(task), inputs, outputs, graph.attributes(task)}).ok();
  }
}

}  // namespace

bool rannc::fuzz::feed(std::string_view text) {
  const auto graph = rannc::ir::parse_graph(text, "fuzz.rir");
  if (!graph.ok()) return false;
  const std::string printed = rannc::ir::print(*graph);
  const auto again = rannc::ir::parse_graph(printed, "again.rir");
  RANNC_CHECK(again.ok() && rannc::ir::print(*again) == printed) << "print and parse of a graph do not agree";
  if (calls_others(*graph) && rannc::ir::verify(*graph).empty()) lower(*graph);
  return true;
}
