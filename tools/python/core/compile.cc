// Compilation: reading a model, planning it, writing the bundle.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>

#include "ir/plan/parameter_updates.h"
#include "rannc/compiler.h"
#include "runtime/engine/tensor.h"
#include "tools/common/hardware.h"
#include "tools/common/launcher.h"
#include "tools/compile/compile_command.h"
#include "tools/compile/explain.h"
#include "tools/compile/stage_report.h"
#include "tools/compiler/compiled.h"
#include "tools/python/core/bindings.h"
#include "tools/python/core/tensors.h"
#include "tools/run/run_report.h"

namespace rannc::python {

namespace nb = nanobind;

namespace {

using Arguments = std::vector<std::string>;

/// Receives `(kind, text)`: `phase`, `step`, `remark`, `note` or `warning`. Called without the lock of the interpreter.
using Report = std::function<void(const std::string& kind, const std::string& text)>;

/// Ends a search early, with the best plan so far; of another thread.
class Stop {
 public:
  void request() { source_.request_stop(); }
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
};

/// Parses the flags of `rannc-compile` for a file.
tools::CompileCommand parse(const std::string& file, Arguments arguments) {
  CLI::App app;
  tools::CompileCommand command;
  tools::FlagTable table(app, compiler::kModelFile | compiler::kBundleFolder);
  tools::add_compile_flags(table, command);
  if (tools::is_bundle(file)) arguments.push_back("--output=" + file + ".again");  // which `write` replaces
  arguments.push_back(file);
  std::reverse(arguments.begin(), arguments.end());  // as the parser reads them
  try {
    app.parse(arguments);
    command.read.mini_batch = command.plan.mini_batch;
    tools::check_command(table, command);
  } catch (const CLI::ParseError& failure) {
    throw Error(error(failure.what()));
  }
  return command;
}

compiler::Progress progress(const Report& report, const Stop& stop) {
  compiler::Progress made;
  if (report) {
    made.phase = [&report](compiler::Phase phase) {
      constexpr const char* kNames[] = {"reading", "pricing", "searching", "measuring", "writing"};
      report("phase", kNames[static_cast<size_t>(phase)]);
    };
    made.step = [&report](const std::string& text) { report("step", text); };
    made.remark = [&report](const std::string& text) { report("remark", text); };
    made.note = [&report](const std::string& text) { report("note", text); };
  }
  made.stop = stop.token();
  return made;
}

void warn(const Report& report, const std::vector<std::string>& warnings) {
  if (!report) return;
  for (const std::string& warning : warnings) report("warning", warning);
}

/// A model with the options that apply to it.
struct Read {
  compiler::Model model;
  tools::CompileCommand command;
};

struct Planned {
  compiler::Plan plan;
  compiler::Programs programs;
};

Read reported(Result<compiler::Model> model, tools::CompileCommand command, const Report& report) {
  Read made{std::move(model).value(), std::move(command)};
  warn(report, made.model.warnings());
  return made;
}

/// Parses `arguments` for a model in memory, and reads it.
Read read(const compiler::ModelSource& source, const Arguments& arguments, const Report& report) {
  tools::CompileCommand command = parse(source.name, arguments);
  auto model = compiler::read(source, command.read, progress(report, Stop()));
  return reported(std::move(model), std::move(command), report);
}

Read read(const std::string& file, const Arguments& arguments, const Report& report) {
  tools::CompileCommand command = parse(file, arguments);
  auto model = tools::is_bundle(file) ? compiler::read_bundle(file, command.read.libraries, progress(report, Stop()))
                                      : compiler::read(file, command.read, progress(report, Stop()));
  return reported(std::move(model), std::move(command), report);
}

Planned plan(const Read& read, bool for_bundle, const Report& report, const Stop& stop) {
  compiler::PlanOptions options = read.command.plan;
  options.cuda_plugin = tools::cuda_plugin();
  options.refine = options.refine && for_bundle;
  compiler::Programs programs;
  if (for_bundle) programs = tools::programs_of(read.command.form, read.command.passes.loops).value();
  options.programs = programs;
  Planned made{compiler::plan(read.model, options, progress(report, stop)).value(), programs};
  std::vector<std::string> fresh;
  const std::vector<std::string>& known = read.model.warnings();
  for (const std::string& warning : made.plan.facts().warnings) {
    if (std::find(known.begin(), known.end(), warning) == known.end()) fresh.push_back(warning);
  }
  warn(report, fresh);
  return made;
}

void write(const Planned& planned, const std::string& bundle, bool replace, const std::string& stage_program,
           const Report& report) {
  const Stop never;
  compiler::write(planned.plan, bundle,
                  {.replace = replace, .programs = planned.programs, .stage_program = stage_program},
                  progress(report, never))
      .value();
}

nb::dict dict_of(const compiler::StageFacts& stage) {
  nb::dict made;
  made["first_task"] = stage.first_task;
  made["last_task"] = stage.last_task;
  made["tasks"] = stage.tasks;
  made["devices"] = stage.devices;
  made["forward_ns"] = stage.forward_ns;
  made["backward_ns"] = stage.backward_ns;
  made["peak_bytes"] = stage.peak_bytes;
  made["memory_bytes"] = stage.memory_bytes;
  made["recompute"] = stage.recompute;
  return made;
}

nb::dict facts(const Planned& planned) {
  const compiler::PlanFacts& facts = planned.plan.facts();
  nb::dict made;
  made["step_ns"] = facts.step_ns;
  made["measured"] = facts.measured;
  made["bubble"] = facts.bubble;
  made["planner"] = facts.planner;
  made["schedule"] = facts.schedule;
  made["mini_batch"] = facts.mini_batch;
  made["micro_batches"] = facts.micro_batches;
  made["objective_name"] = facts.objective_name;
  made["objective"] = facts.objective;
  made["lower_bound"] = facts.lower_bound;
  made["bound_name"] = facts.bound_name;
  made["gap"] = facts.gap ? nb::object(nb::float_(*facts.gap)) : nb::none();
  made["prices"] = facts.prices;
  made["search_seconds"] = facts.search_seconds;
  made["warnings"] = facts.warnings;
  made["remarks"] = facts.remarks;
  nb::list stages;
  for (const compiler::StageFacts& stage : facts.stages) stages.append(dict_of(stage));
  made["stages"] = stages;
  return made;
}

std::string summary(const Planned& planned) {
  const compiler::Plan::State& state = planned.plan.state();
  return tools::summary_text(state.planned, state.search);
}

std::string explain(const Planned& planned) {
  const compiler::Plan::State& state = planned.plan.state();
  return tools::explain(state.planned, state.options, state.search, state.modules);
}

/// Tensors that a graph trains, by `state_dict` names.
std::vector<std::string> trained(const Read& read) {
  const auto updates = ir::ParameterUpdates::of(read.model.state().prepared.graph, ir::UpdateRule(), {}).value();
  return updates.groups().front().tensors;
}

/// Names of all flags of `rannc-compile` for models, as keyword arguments.
std::vector<std::string> compile_flags() {
  CLI::App app;
  tools::CompileCommand command;
  tools::FlagTable table(app, compiler::kModelFile | compiler::kBundleFolder);
  tools::add_compile_flags(table, command);
  std::vector<std::string> names;
  for (const tools::FlagTable::Entry& entry : table.entries()) {
    if (entry.option->get_lnames().empty()) continue;
    names.push_back(entry.option->get_lnames().front());
    std::replace(names.back().begin(), names.back().end(), '-', '_');
  }
  return names;
}

std::string report(const Planned& planned) {
  const ir::Plan& plan = planned.plan.state().planned.plan;
  tools::RunFacts facts;
  facts.title = fmt::format("plan of {}", plan.graph.name());
  return tools::run_report(plan, facts, {}, tools::planned_spans(plan).value());
}

/// The bytes of a Python object, which lives as long.
compiler::SharedBytes shared(const nb::bytes& content) {
  // The last owner may be a thread that does not have the lock of the interpreter.
  const std::shared_ptr<nb::bytes> owner(new nb::bytes(content), [](nb::bytes* held) {
    const nb::gil_scoped_acquire lock;
    delete held;
  });
  return {{owner, reinterpret_cast<const std::byte*>(content.c_str())}, content.size()};
}

compiler::SharedBytes shared(const runtime::Value& tensor) {
  return {{tensor, static_cast<const std::byte*>(runtime::to_tensor(tensor).const_data_ptr())}, tensor->bytes()};
}

/// `tensors`: DLPack capsules of contiguous tensors on the processor, by `state_dict` names.
compiler::ModelSource source(const std::string& name, const nb::bytes& content,
                             const std::map<std::string, nb::object>& tensors) {
  compiler::ModelSource made{name, shared(content)};
  for (const auto& [tensor, capsule] : tensors) made.tensors[tensor] = shared(value_of(capsule, tensor.c_str()));
  return made;
}

/// A callback that may be called without the lock of the interpreter. Errors of the callback itself are printed.
Report locked(const nb::object& report) {
  if (report.is_none()) return {};
  return [report](const std::string& kind, const std::string& text) {
    const nb::gil_scoped_acquire lock;
    try {
      report(kind, text);
    } catch (nb::python_error& failure) {
      failure.discard_as_unraisable(report);
    }
  };
}

}  // namespace

void add_compiler(nb::module_& module) {
  nb::class_<Stop>(module, "Stop").def(nb::init<>()).def("request", &Stop::request);
  nb::class_<Planned>(module, "Planned")
      .def("facts", &facts)
      .def("summary", &summary)
      .def("explain", &explain, nb::call_guard<nb::gil_scoped_release>())
      .def("report", &report)
      .def("text", [](const Planned& planned) { return planned.plan.text(); })
      .def(
          "write",
          [](const Planned& planned, const std::string& bundle, bool replace, const std::string& stage_program,
             const nb::object& report) {
            const Report locked_report = locked(report);
            const nb::gil_scoped_release unlocked;
            write(planned, bundle, replace, stage_program, locked_report);
          },
          nb::arg("bundle"), nb::arg("replace"), nb::arg("stage_program"), nb::arg("report").none());
  nb::class_<Read>(module, "Read")
      .def_prop_ro("trains", [](const Read& read) { return read.model.trains(); })
      .def_prop_ro("tasks", [](const Read& read) { return read.model.tasks(); })
      .def_prop_ro("parameters", [](const Read& read) { return read.model.parameters(); })
      .def("trained", &trained)
      .def("report", [](const Read& read) { return read.model.report(); })
      .def("text", [](const Read& read) { return read.model.text(); })
      .def(
          "plan",
          [](const Read& read, bool for_bundle, const nb::object& report, const Stop& stop) {
            const Report locked_report = locked(report);
            const nb::gil_scoped_release unlocked;
            return plan(read, for_bundle, locked_report, stop);
          },
          nb::arg("for_bundle"), nb::arg("report").none(), nb::arg("stop"));
  module.def("compile_flags", &compile_flags);
  module.def(
      "read_memory",
      [](const std::string& name, const nb::bytes& content, const std::map<std::string, nb::object>& tensors,
         const Arguments& arguments, const nb::object& report) {
        const Report locked_report = locked(report);
        const compiler::ModelSource model = source(name, content, tensors);
        const nb::gil_scoped_release unlocked;
        return read(model, arguments, locked_report);
      },
      nb::arg("name"), nb::arg("content"), nb::arg("tensors"), nb::arg("arguments"), nb::arg("report").none());
  module.def(
      "read",
      [](const std::string& file, const Arguments& arguments, const nb::object& report) {
        const Report locked_report = locked(report);
        const nb::gil_scoped_release unlocked;
        return read(file, arguments, locked_report);
      },
      nb::arg("file"), nb::arg("arguments"), nb::arg("report").none());
}

}  // namespace rannc::python
