// Reads text IR, runs named passes or the verifiers, prints text IR.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "ir/base/replacement.h"
#include "ir/op/op_table.h"
#include "ir/program/program_text.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "tools/common/driver.h"
#include "tools/common/programs.h"

namespace rannc {
namespace {

struct Options {
  std::string input = "-", output = "-";
  std::string passes;
  std::string reproducer = "rannc-opt.reproducer.rir";
  bool verify_only = false, show_times = false, list_operators = false;
  passes::ManagerOptions manager;
};

Result<std::string> read_text(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  return read_file(path);
}

Result<void> write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    fmt::print("{}", text);
    return {};
  }
  return write_file(path, text);
}

Result<void> report_failure(const Options& options, const passes::RunReport& report, std::string_view text) {
  if (!report.internal) return ir::located(*report.failure, text, options.input);
  auto written = write_text(options.reproducer, report.reproducer);
  throw InternalError(report.failure->str() +
                      (written.ok() ? "\na reproducer is in " + options.reproducer : std::string()));
}

Result<void> run_passes(const Options& options, ir::Graph& graph, std::string_view source) {
  RANNC_ASSIGN(const passes::PassManager manager, passes::make_passes(options.passes));
  passes::PassContext context;
  const auto show = [](std::string_view pass, const std::string& text) {
    fmt::print(stderr, "// after {}\n{}", pass, text);
  };
  const passes::RunReport report = manager.run(graph, context, options.manager, show);
  for (const std::vector<Note>* const remarks : {&context.remarks, &context.open}) {
    for (const Note& remark : *remarks) {
      const std::string where = remark.where.str();
      fmt::print(stderr, "{}{}remark: {}\n", where, where.empty() ? "" : ": ", remark.message);
    }
  }
  if (options.show_times) fmt::print(stderr, "{}", report.time_table());
  if (!report.ok()) return report_failure(options, report, source);
  std::string text = context.joint ? ir::print(*context.joint) : ir::print(graph);
  if (context.atoms) text += ir::print(*context.atoms, graph);
  return write_text(options.output, text);
}

Result<void> run(const Options& options) {
  if (options.list_operators) return write_text(options.output, ir::operator_table());
  RANNC_ASSIGN(const std::string text, read_text(options.input));
  const std::string name = options.input == "-" ? "standard input" : options.input;
  if (text.starts_with("rannc.plan")) {
    if (!options.passes.empty()) return error({name, 1, 1, {}}, "passes require a graph, but this is a plan");
    RANNC_ASSIGN(const ir::Plan plan, ir::parse_plan(text, name));
    return options.verify_only ? Result<void>() : write_text(options.output, ir::print(plan));
  }
  if (text.starts_with("rannc.programs")) {
    if (!options.passes.empty()) return error({name, 1, 1, {}}, "passes require a graph, but these are programs");
    RANNC_ASSIGN(const ir::ParsedPrograms programs, ir::parse_programs(text, name));
    return options.verify_only ? Result<void>() : write_text(options.output, programs.print());
  }
  RANNC_ASSIGN(ir::Graph graph, ir::parse_graph(text, name));
  if (options.verify_only) {
    const auto holds = ir::as_result(ir::verify(graph));
    return holds.ok() ? holds : Result<void>(ir::located(holds.diagnostic(), text, name));
  }
  if (!options.passes.empty()) return run_passes(options, graph, text);
  return write_text(options.output, ir::print(graph));
}

}  // namespace
}  // namespace rannc

int rannc::tools::opt_main(int argc, char** argv) {
  CLI::App app("Reads text IR (a graph, a plan or programs), runs passes, prints text IR", "rannc-opt");
  Options options;
  app.add_option("input", options.input, "text IR; - for standard input")->capture_default_str();
  app.add_option("-o,--output", options.output, "output file; - for standard output")->capture_default_str();
  app.add_option("--pass", options.passes,
                 fmt::format("passes in order, separated by commas, options in braces: {}",
                             fmt::join(passes::pass_names(), " ")))
      ->check([](const std::string& text) {
        const auto made = passes::make_passes(text);
        return made.ok() ? std::string() : made.diagnostic().message;
      });
  app.add_flag("--verify", options.verify_only,
               "only verify rules G, for plans also rules P and S, for programs rules L");
  app.add_option("--print-after", options.manager.print_after,
                 "print the graph after these passes, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--print-changed", options.manager.print_changed, "print the graph after each pass that changed it");
  app.add_flag("--list-operators", options.list_operators, "print the properties of all core operators as Markdown");
  app.add_flag("--time-passes", options.show_times, "print the time of each pass");
  app.add_option("--reproducer", options.reproducer, "file to write if a pass has a defect")->capture_default_str();
  return tools::run_tool(app, argc, argv, [&] { return run(options); });
}
