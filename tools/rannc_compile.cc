// rannc-compile: plans a model for a cluster and writes a bundle.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "codegen/bundle_writer.h"
#include "ir/text.h"
#include "runtime/threads.h"
#include "tools/compile_flags.h"
#include "tools/compiler.h"
#include "tools/driver.h"
#include "tools/explain.h"
#include "tools/refine.h"

namespace {

using rannc::Result;
using rannc::partition::PlannedModel;
namespace tools = rannc::tools;

struct Flags {
  tools::CompileOptions compile;
  std::string output;
  std::string emit = "bundle";
  std::string summary;
  bool explain = false;
  bool replace = false;
  bool refine = true;
};

std::string default_output(const std::string& model) {
  return std::filesystem::path(model).replace_extension(".rannc").string();
}

// Progress on a terminal only, on one line that the next one overwrites.
tools::CompileProgress progress() {
  tools::CompileProgress progress;
  progress.show_pass = [](std::string_view pass, const std::string& text) {
    fmt::print("// after {}\n{}\n", pass, text);
  };
  progress.remark = [](const std::string& text) { fmt::print(stderr, "remark: {}\n", text); };
  if (isatty(STDERR_FILENO) != 0) {
    progress.step = [](const std::string& text) { fmt::print(stderr, "\r\033[K{}", text); };
  }
  return progress;
}

void end_progress() {
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
}

Result<void> emit_graph(const Flags& flags, const tools::PreparedModel& model) {
  if (flags.emit == "graph") {
    fmt::print("{}", rannc::ir::print(model.graph));
  } else {
    fmt::print("{}", rannc::ir::print(model.atoms, model.graph));
  }
  return {};
}

Result<void> compile(const Flags& flags) {
  const tools::CompileProgress watcher = progress();
  RANNC_ASSIGN(const tools::PreparedModel model, tools::prepare_model(flags.compile, watcher));
  if (flags.compile.time_passes) fmt::print(stderr, "{}", model.report.time_table());
  if (flags.emit == "graph" || flags.emit == "atoms") return emit_graph(flags, model);
  for (const rannc::Note& remark : model.remarks) {
    const std::string place = remark.where.str();
    fmt::print(stderr, "{}remark: {}\n", place.empty() ? "" : place + ": ", remark.message);
  }
  auto options = tools::plan_options(flags.compile, model, watcher);
  end_progress();
  if (!options.ok()) return options.diagnostic();
  RANNC_ASSIGN(PlannedModel planned, tools::plan_prepared(model, *options));
  if (flags.emit == "blocks") {
    fmt::print("{}", tools::print_blocks(planned));
    return {};
  }
  const std::string output = flags.output.empty() ? default_output(flags.compile.model) : flags.output;
  if (flags.emit == "bundle") {
    if (flags.refine && flags.compile.costs == "measured") RANNC_TRY(tools::refine_prediction(planned, *options));
    RANNC_TRY(rannc::codegen::write_bundle(planned.plan, {.replace = flags.replace}, output));
  }
  if (flags.emit == "plan") fmt::print("{}", rannc::ir::print(planned.plan));
  if (flags.emit == "schedule") fmt::print("{}", rannc::ir::print_schedule(planned.plan.schedule));
  if (flags.summary == "json") {
    fmt::print("{}\n", tools::summary_json(planned).dump());
  } else if (flags.emit == "bundle") {
    fmt::print("{}", tools::summary_text(planned));
  }
  if (flags.explain) fmt::print("{}", tools::explain(planned));
  if (flags.emit == "bundle" && flags.summary != "json") fmt::print("wrote {}\n", output);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Plans a model for a cluster and writes a bundle that rannc-run trains.", "rannc-compile");
  Flags flags;
  app.add_option("model", flags.compile.model, "ONNX file, or a graph as text (.rir)")->required();
  app.add_option("-o,--output", flags.output, "bundle to write (default: the model's name with .rannc)");
  app.add_option("--emit", flags.emit, "stop and print: graph, atoms, blocks, plan or schedule")
      ->check(CLI::IsMember({"graph", "atoms", "blocks", "plan", "schedule", "bundle"}))
      ->capture_default_str();
  app.add_option("--summary", flags.summary, "json: plan, objective, bound and gap on one line")
      ->check(CLI::IsMember({"json"}));
  app.add_flag("--explain", flags.explain, "say why this plan, and why others lost");
  app.add_flag("--replace", flags.replace, "write over a bundle that is there");
  app.add_flag("--refine,!--no-refine", flags.refine, "measure the finished stages for the predicted step time");
  tools::add_model_flags(app, flags.compile);
  tools::add_plan_flags(app, flags.compile);
  return tools::run_tool(app, argc, argv, [&]() -> Result<void> {
    rannc::runtime::set_threads(1);
    return compile(flags);
  });
}
