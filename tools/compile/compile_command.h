/// The command line of `rannc-compile`.
#pragma once

#include <optional>
#include <string>

#include "rannc/compiler/plan_options.h"
#include "rannc/compiler/read_options.h"
#include "tools/common/flag_table.h"
#include "tools/compile/compile_flags.h"
#include "tools/compile/native_form.h"

namespace rannc::tools {

struct CompileCommand {
  std::string model;  ///< or bundle, or profile
  compiler::ReadOptions read;
  compiler::PlanOptions plan;  ///< without `programs`
  PassFlags passes;
  FormFlags form;
  std::string output, emit = "bundle", summary;
  std::string compared;  ///< `asynchronous`, or empty
  std::string bundle;    ///< whose plan `--emit stage-onnx` cuts at
  std::string rebuilt;   ///< bundle of `--rebuild`
  bool explain = false, verbose = false, replace = false, stage_onnx = false;
  std::optional<uint64_t> profile_batch;  ///< samples at which a profile was measured; absent: from its name, or 1
  bool exact = false;                     ///< placement graphs: search until the gap is closed

  /// Like `compiler::ReadOptions::rows`, for the flags of the program itself.
  template <class Table>
  static void rows(Table& table);
};

/// The part of a command that has the flags of a form.
inline FormFlags& part(CompileCommand& command, FormFlags* /*type*/) { return command.form; }

/// Adds all flags to the table.
void add_compile_flags(FlagTable& table, CompileCommand& command);

/// Throws a usage error if flags contradict each other or do not apply to the input. Reads no file.
void check_command(const FlagTable& table, const CompileCommand& command);

template <class Table>
void CompileCommand::rows(Table& table) {
  using namespace compiler;  // the inputs
  constexpr uint32_t kFile = kPlannedModel | kSavedPlan;
  constexpr uint32_t kAny = kFile | kProfileText | kPlacementGraph;
  table.group("Output");
  table.row({"model", "", kAny,
             "ONNX, TorchScript (.pt) or torch.export (.pt2) file, a graph as text (.rir), a bundle to plan again, a "
             "profile of PipeDream (.txt) or a placement graph (.json)"},
            &CompileCommand::model);
  table.row({"-o,--output", "FILE", kAny,
             "bundle to write, or file for the output of `--emit`; for a [profile](#published-profiles): plan (.json) "
             "or staged profile (.txt) (default: the model's name with .rannc)"},
            &CompileCommand::output);
  table.row({"--replace", "", kAny, "overwrite an existing output"}, &CompileCommand::replace);
  table.row(
      {"--emit", "", kAny,
       "stop and print this intermediate result; `programs`: what the stages run, instruction by "
       "[instruction](../../ir/functions.md#programs); `source`: the same as C++; `onnx`: write a copy of the model "
       "with the values of [`--weights`](parameters.md#weights-by-pytorch-names); `stage-onnx`: write a folder "
       "with an [ONNX file per stage](#stages-as-onnx-files) of `--bundle`"},
      &CompileCommand::emit,
      Choices{"graph", "atoms", "backward", "blocks", "plan", "schedule", "functions", "programs", "source", "bundle",
              "onnx", "stage-onnx"});
  table.row({"--bundle", "BUNDLE", kModelFile | kSavedPlan, "bundle at whose plan `--emit stage-onnx` cuts the model"},
            &CompileCommand::bundle);
  table.row({"--stage-onnx", "", kModelFile | kSavedPlan,
             "also write each stage as an [ONNX file](#stages-as-onnx-files), cut from the model's file"},
            &CompileCommand::stage_onnx);
  table.row({"--explain", "", kAny, "explain why this plan was chosen and why others lost"}, &CompileCommand::explain);
  table.row({"--compare", "", kFile,
             "simulate what PipeDream and PipeDream-2BW would buy with the stages of the plan, at what staleness and "
             "memory: [asynchronous pipelines](#asynchronous-pipelines)"},
            &CompileCommand::compared, Choices{"asynchronous"});
  table.row({"--summary", "", kAny, "plan, objective, bound and gap on one line"}, &CompileCommand::summary,
            Choices{"json"});
  table.row({"--verbose", "", kFile, "report everything that was recovered or changed in a model, with its location"},
            &CompileCommand::verbose);

  table.group("Form");
  table.row({"--form", "", kFile,
             "stages run as lists of calls, or as C++ that is [compiled](../../codegen/native.md) here into a shared "
             "library each"},
            &FormFlags::form, Choices{"interpreted", "native"});
  table.row({"--cxx", "COMPILER", kFile | kRebuiltBundle,
             "C++ compiler of `--form native` (default: c++, g++ or clang++ in the PATH)"},
            &FormFlags::cxx);
  table.row({"--rebuild", "BUNDLE", kRebuiltBundle,
             "compile the stages of this bundle of form native [again](#rebuild) if they are stale"},
            &CompileCommand::rebuilt);

  table.group("Published profiles");
  table.row({"--profile-batch", "N", kProfileText | kSavedStages,
             "number of samples at which a profile was measured (default: `pbs-N` in its name, else 1)"},
            &CompileCommand::profile_batch, Whole{});
  table.row({"--exact", "", kPlacementGraph, "placement graphs: search until the gap is closed"},
            &CompileCommand::exact);
}

}  // namespace rannc::tools
