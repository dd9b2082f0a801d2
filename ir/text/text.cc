// Texts of graphs and atoms. Those of plans are in text_plan*.cc.
#include "ir/text/text.h"

#include <fmt/format.h>

#include "ir/internal/text_graph.h"
#include "ir/internal/text_writer.h"
#include "ir/op/op.h"

namespace rannc::ir {

std::string print(const Graph& graph) {
  std::string text = "rannc.graph 1\n";
  append_graph(text, graph);
  return text;
}

std::string print(const Atoms& atoms, const Graph& graph) {
  std::string text = "rannc.atoms 1\n";
  std::vector<uint32_t> constant;
  for (const TaskId task : graph.tasks()) {
    if (atoms.constant[task.index()]) constant.push_back(task.index());
  }
  text += "constant ";
  append_indices(text, "#", constant);
  text += '\n';
  for (size_t a = 0; a < atoms.tasks.size(); ++a) {
    const TaskId task = atoms.tasks[a];
    fmt::format_to(std::back_inserter(text), "atom a{} #{} {}", a, task.index(), graph.op(task).name);
    for (const ValueId output : graph.outputs(task)) {
      text += ' ';
      append_name(text, '%', graph.value(output).name);
    }
    append_location(text, graph.location(task));
    text += '\n';
  }
  return text;
}

Result<Graph> parse_graph(std::string_view text, const std::string& file) {
  GraphReader reader(file);
  RANNC_TRY(each_statement(text, file, "rannc.graph", [&](TextCursor& line) -> Result<void> {
    RANNC_ASSIGN(const bool known, reader.read(line));
    if (known) return {};
    return line.expected(
        "a statement (graph batch input parameter buffer constant random #task body inputs outputs count coefficients "
        "given metrics loss)");
  }));
  RANNC_TRY(reader.check_end(file));
  Graph graph = std::move(reader).take();
  fill_mixes(graph);
  return graph;
}

}  // namespace rannc::ir
