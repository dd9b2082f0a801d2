// Training: a bundle opened by one process, step by step.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>

#include "ir/plan/functions.h"
#include "ir/plan/parameter_updates.h"
#include "ir/state/state_bytes.h"
#include "ir/text/text.h"
#include "partition/model/finish_plan.h"
#include "runtime/bundle/libraries.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/export_weights.h"
#include "runtime/train/process.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transports.h"
#include "tools/common/gpu_environment.h"
#include "tools/common/hardware.h"
#include "tools/common/worker_environment.h"
#include "tools/python/core/bindings.h"
#include "tools/python/core/tensors.h"
#include "tools/run/explain_step.h"
#include "tools/run/kept_flags.h"
#include "tools/run/run_flags.h"
#include "tools/run/run_report.h"
#include "tools/run/run_results.h"
#include "tools/run/run_start.h"
#include "tools/run/run_validation.h"

namespace rannc::python {

namespace nb = nanobind;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;
using Capsules = std::map<std::string, nb::object>;

/// Parses the flags of `rannc-run` for a bundle.
tools::RunFlags parse(const std::string& bundle, Arguments arguments) {
  CLI::App app;
  tools::RunFlags flags;
  tools::add_run_flags(app, flags);
  flags.bundle = bundle;
  std::reverse(arguments.begin(), arguments.end());  // as the parser reads them
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& failure) {
    throw Error(error(failure.what()));
  }
  return flags;
}

runtime::Batch batch_of(const Capsules& capsules) {
  runtime::Batch batch;
  for (const auto& [name, capsule] : capsules) batch[name] = value_of(capsule, name.c_str());
  return batch;
}

std::vector<runtime::Batch> batches_of(const std::vector<Capsules>& batches) {
  std::vector<runtime::Batch> made;
  for (const Capsules& batch : batches) made.push_back(batch_of(batch));
  return made;
}

nb::dict dict_of(const std::map<std::string, runtime::Value>& values) {
  nb::dict made;
  for (const auto& [name, value] : values) {
    if (value) made[name.c_str()] = capsule_of(value);
  }
  return made;
}

nb::dict dict_of(const runtime::StepResult& result) {
  nb::dict made;
  made["loss"] = result.loss;
  made["gradient_norm"] = result.gradient_norm;
  made["skipped"] = result.skipped;
  made["samples"] = result.samples;
  made["beyond_plan"] = result.beyond_plan;
  made["metrics"] = dict_of(result.metrics);
  made["outputs"] = dict_of(result.outputs);
  return made;
}

/// A bundle in training, run by this process alone or as one of several.
class Session {
 public:
  /// `worker`: this process is one of several, as its environment says. `torch_store`: MASTER_PORT is LibTorch's store.
  /// `round`: distinguishes the trainers of one store.
  Session(const std::string& bundle, const Arguments& arguments, bool worker, bool torch_store,
          const std::string& round)
      : flags_(parse(bundle, arguments)) {
    open(worker, torch_store, round).value();
  }

  runtime::Trainer& trainer() { return *trainer_; }
  const ir::Plan& plan() const { return trainer_->plan(); }

  /// Runs a step of the needed samples of each batch. Without the lock of the interpreter.
  runtime::StepResult step(const std::vector<runtime::Batch>& batches, bool whole, bool mean) {
    const auto how = mean ? runtime::Accumulated::kMean : runtime::Accumulated::kOneBatch;
    auto result = whole ? trainer_->step(batches, how) : trainer_->step_part(batches, how);
    return std::move(result).value();
  }

  /// Saves to `<folder>/checkpoints/step-<n>`, from where `rannc-run --resume` continues.
  std::string save(const std::string& folder, const std::string& data_state, bool waits) {
    const auto prepared = [&]() -> Result<void> {
      RANNC_TRY(tools::prepare_run_folder(folder, tools::RunFolderUse::kResume));
      return leads() ? tools::keep_flags(folder, flags_) : Result<void>();
    };
    if (folder != prepared_) prepared().value();
    prepared_ = folder;
    const std::string checkpoint =
        (tools::checkpoints_of(folder) / fmt::format("step-{}", trainer_->steps_done())).string();
    (waits ? trainer_->save(checkpoint, data_state) : trainer_->start_save(checkpoint, data_state)).value();
    return checkpoint;
  }

  /// Saves a checkpoint to `folder`, and writes the weights by `state_dict` names to `file`, by one process.
  void export_weights(const std::string& folder, const std::string& file, bool averaged) {
    trainer_->save(folder).value();
    const auto which = averaged ? runtime::ExportedWeights::kAverages : runtime::ExportedWeights::kParameters;
    Result<void> written;
    if (leads()) {
      const auto result = runtime::export_weights(*start_.bundle, folder, file, which);
      if (!result.ok()) written = result.diagnostic();
    }
    trainer_->first_failure(written).value();
  }

  std::string load(const std::string& folder, bool keep_settings) {
    const std::string latest = runtime::latest_checkpoint(tools::checkpoints_of(folder).string());
    if (latest.empty()) throw Error(error({folder, 0, 0, {}}, "has no finished checkpoint in the folder checkpoints"));
    using Settings = runtime::Trainer::Settings;
    return trainer_->load(latest, keep_settings ? Settings::kOfOptions : Settings::kOfCheckpoint).value();
  }

  std::pair<std::vector<std::string>, std::vector<std::string>> load_weights(const std::string& file, bool partial) {
    const auto names = partial ? runtime::WeightNames::kThoseGiven : runtime::WeightNames::kAll;
    runtime::WeightsLoaded loaded = trainer_->load_weights(file, names).value();
    return {std::move(loaded.missing), std::move(loaded.unexpected)};
  }

  void set_groups(const std::vector<std::string>& texts) {
    std::vector<ir::ParameterGroup> groups;
    for (const std::string& text : texts) groups.push_back(ir::parse_group(text).value());
    trainer_->set_groups(std::move(groups)).value();
  }

  void reschedule(const partition::Reschedule& change) {
    trainer_->reschedule(partition::reschedule(plan(), change).value()).value();
  }

  /// What the last steps took, beside the plan. In a run of several processes, all must call it; the leader has the
  /// texts.
  struct Profile {
    std::string text, page, trace;  ///< tables, a page of HTML, a trace for Perfetto
    double step_ns = 0;             ///< median
  };
  Profile profile(const std::vector<double>& losses) {
    const tools::RunResults results = tools::gather_results(*trainer_, {.recorder = recorder_}).value();
    if (!leads()) return {};
    const std::vector<runtime::PlannedSpan> planned = tools::planned_spans(plan()).value();
    tools::RunFacts facts;
    facts.title = fs::path(flags_.bundle).stem().string();
    facts.losses = losses;
    facts.first_step = trainer_->steps_done() - losses.size();
    facts.steps = losses.size();
    facts.explains = true;
    return {tools::step_text(tools::planned_beside_actual(plan(), planned, results.records)),
            tools::run_report(plan(), facts, results.records, planned),
            runtime::chrome_trace(ir::pipeline_shape(plan()), results.records, planned),
            tools::measured_step_ns(results.records)};
  }

  /// Runs an evaluation, whose actions are none of a step.
  runtime::StepResult evaluate(const runtime::Batch& batch) {
    actions_.forward(false);
    auto result = trainer_->evaluate(batch);
    actions_.forward(true);
    return std::move(result).value();
  }

  /// Ends a step that runs, of another thread.
  void abort(const std::string& reason) { trainer_->abort(error(reason)); }

  /// Ends the run. Nothing else may be called afterwards.
  void close() { trainer_.reset(); }

  bool leads() const { return !worker_ || worker_->rank == 0; }
  const std::string& note() const { return hardware_.note; }

 private:
  Result<void> open(bool worker, bool torch_store, const std::string& round) {
    if (worker) {
      RANNC_ASSIGN(worker_, tools::read_worker_environment(flags_.worker));
    }
    if (worker_) {
      RANNC_ASSIGN(worker_->secret, tools::take_secret());
      worker_->torch_store = worker_->torch_store || torch_store;
      if (!round.empty()) worker_->torch_round = round;
    }
    RANNC_ASSIGN(start_, tools::prepare_run(flags_, worker_));
    tools::set_gpu_environment({.over_nccl = transport().needs_nccl,
                                .on_streams = transport().needs_nccl || !transport().between_processes(),
                                .deterministic = flags_.deterministic});
    RANNC_ASSIGN(hardware_, tools::open_hardware(flags_.device, ir::device_type(start_.bundle->plan)));
    if (flags_.deterministic) runtime::use_deterministic_kernels();
    if (flags_.time_convolutions) runtime::time_convolutions();
    if (flags_.matmul_precision == "high") runtime::set_product_precision(runtime::ProductPrecision::kHigh);
    RANNC_TRY(open_trainer());
    return trainer_->check_shared({{"steps done", fmt::format("{}", trainer_->steps_done())}});
  }

  const runtime::TransportKind& transport() const {
    return flags_.transport.empty() ? runtime::default_transport(worker_.has_value())
                                    : *runtime::find_transport(flags_.transport);
  }

  Result<void> open_trainer() {
    runtime::TrainerOptions options = tools::trainer_options(flags_, start_);
    actions_.forward_to(&recorder_);
    options.observer = &actions_;
    if (!worker_) {
      options.transport = transport().name;
      options.hardware = hardware_.all();
      RANNC_ASSIGN(trainer_, runtime::Trainer::open(flags_.bundle, options));
      return {};
    }
    RANNC_ASSIGN(auto joined,
                 transport().join(tools::rendezvous_of(*worker_, start_), hardware_.at(worker_->local_rank)));
    RANNC_ASSIGN(trainer_, runtime::Trainer::open_worker(flags_.bundle, options, std::move(joined)));
    return {};
  }

  tools::RunFlags flags_;
  runtime::TraceRecorder recorder_;
  tools::TrainingActions actions_{nullptr};
  std::optional<tools::WorkerEnvironment> worker_;
  tools::RunStart start_;
  tools::Hardware hardware_;  // outlives the trainer
  std::unique_ptr<runtime::Trainer> trainer_;
  std::string prepared_;  // folder of checkpoints
};

nb::dict input_facts(const ir::Graph& graph, ValueId input) {
  const ir::ValueType& type = graph.type(input);
  nb::dict made;
  made["dtype"] = std::string(ir::str(type.dtype));
  nb::list sizes;
  if (type.shape) {
    for (const ir::Dim& dim : *type.shape) sizes.append(dim.str());
  }
  made["shape"] = sizes;
  made["axis"] = type.batch.axis;
  return made;
}

nb::dict facts(Session& session) {
  const ir::Plan& plan = session.plan();
  const ir::Graph& graph = plan.graph;
  nb::dict made, inputs;
  for (const ValueId input : graph.inputs())
    inputs[std::string(graph.value(input).name).c_str()] = input_facts(graph, input);
  std::vector<std::string> outputs;
  for (const ValueId output : graph.outputs()) outputs.emplace_back(graph.value(output).name);
  made["inputs"] = inputs;
  made["outputs"] = outputs;
  made["mini_batch"] = plan.mini_batch;
  made["micro_batches"] = plan.micro_batches.size();
  made["training"] = plan.training;
  made["schedule"] = plan.schedule.name;
  made["step_ns"] = plan.step_ns;
  made["stages"] = plan.stages.size();
  made["devices"] = plan.devices.size();
  made["note"] = session.note();
  return made;
}

nb::dict needed(Session& session) {
  const runtime::NeededSamples& needed = session.trainer().needed_samples();
  nb::dict made;
  made["inputs"] = std::vector<std::string>(needed.inputs.begin(), needed.inputs.end());
  std::vector<std::pair<uint32_t, uint32_t>> ranges;
  for (const ir::SampleRange& range : needed.ranges) ranges.emplace_back(range.first, range.last);
  made["ranges"] = ranges;
  return made;
}

nb::list groups(Session& session) {
  nb::list made;
  for (const ir::UpdateGroup& group : session.trainer().updates().groups()) {
    nb::dict entry;
    entry["rule"] = ir::describe(group.rule);
    entry["tensors"] = group.tensors;
    entry["elements"] = group.elements;
    made.append(entry);
  }
  return made;
}

/// Names of the files of a bundle that the process of a device needs.
std::vector<std::string> files_of_device(const std::string& path, uint32_t device) {
  const runtime::Bundle bundle = runtime::open_bundle(path, {.device = DeviceId(device)}).value();
  std::vector<std::string> names{runtime::kManifestFile};
  for (const runtime::BundleFile& file : bundle.files) names.push_back(file.name);
  return names;
}

/// Runs a function of a session without the lock of the interpreter.
template <class Function>
auto unlocked(Function function) {
  const nb::gil_scoped_release released;
  return function();
}

}  // namespace

void add_trainer(nb::module_& module) {
  module.def("files_of_device", &files_of_device, nb::arg("bundle"), nb::arg("device"));
  module.def("use_tensor_heap", &runtime::use_tensor_heap);
  nb::class_<Session>(module, "Session")
      .def(
          "__init__",
          [](Session* made, const std::string& bundle, const Arguments& arguments, bool worker, bool torch_store,
             const std::string& round) {
            unlocked([&] { return new (made) Session(bundle, arguments, worker, torch_store, round); });
          },
          nb::arg("bundle"), nb::arg("arguments"), nb::arg("worker"), nb::arg("torch_store"), nb::arg("round"))
      .def("facts", &facts)
      .def("needed", &needed)
      .def("groups", &groups)
      .def_prop_ro("leads", &Session::leads)
      .def_prop_ro("steps_done", [](Session& session) { return session.trainer().steps_done(); })
      .def_prop_ro("updates_done", [](Session& session) { return session.trainer().updates_done(); })
      .def_prop_ro("loss_scale", [](Session& session) { return session.trainer().loss_scale(); })
      .def_prop_ro("seed", [](Session& session) { return session.trainer().seed(); })
      .def(
          "step",
          [](Session& session, const std::vector<Capsules>& capsules, bool whole, bool mean) {
            const std::vector<runtime::Batch> batches = batches_of(capsules);
            return dict_of(unlocked([&] { return session.step(batches, whole, mean); }));
          },
          nb::arg("batches"), nb::arg("whole"), nb::arg("mean"))
      .def("accumulate",
           [](Session& session, const Capsules& capsules) {
             const runtime::Batch batch = batch_of(capsules);
             return dict_of(unlocked([&] { return session.trainer().accumulate(batch).value(); }));
           })
      .def("evaluate",
           [](Session& session, const Capsules& capsules) {
             const runtime::Batch batch = batch_of(capsules);
             return dict_of(unlocked([&] { return session.evaluate(batch); }));
           })
      .def("gradients",
           [](Session& session) { return dict_of(unlocked([&] { return session.trainer().gradients().value(); })); })
      .def(
          "set_learning_rate", [](Session& session, double rate) { session.trainer().set_learning_rate(rate); },
          nb::arg("rate"))
      .def("set_groups", &Session::set_groups, nb::arg("texts"))
      .def("swap_averages", [](Session& session) { unlocked([&] { session.trainer().swap_averages().value(); }); })
      .def("save", &Session::save, nb::arg("folder"), nb::arg("data_state"), nb::arg("waits"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("finish_save", [](Session& session) { unlocked([&] { session.trainer().finish_save().value(); }); })
      .def("load", &Session::load, nb::arg("folder"), nb::arg("keep_settings"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("load_weights", &Session::load_weights, nb::arg("file"), nb::arg("partial"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("export_weights", &Session::export_weights, nb::arg("folder"), nb::arg("file"), nb::arg("averaged"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("profile",
           [](Session& session, const std::vector<double>& losses) {
             const Session::Profile found = unlocked([&] { return session.profile(losses); });
             nb::dict made;
             made["text"] = found.text;
             made["page"] = found.page;
             made["trace"] = found.trace;
             made["step_ns"] = found.step_ns;
             return made;
           })
      .def("abort", &Session::abort, nb::arg("reason"), nb::call_guard<nb::gil_scoped_release>())
      .def("close", &Session::close, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "reschedule",
          [](Session& session, uint32_t micro_batches, const std::string& schedule, bool repeats, bool repeats_last) {
            partition::Reschedule change{micro_batches, schedule, {}};
            using Which = ir::RecomputedMicroBatches;
            if (repeats) change.recompute = repeats_last ? Which::kAll : Which::kAllButLast;
            unlocked([&] { session.reschedule(change); });
          },
          nb::arg("micro_batches"), nb::arg("schedule"), nb::arg("repeats"), nb::arg("repeats_last"))
      .def("all_agree", [](Session& session, bool own) {
        return unlocked([&] { return session.trainer().all_agree(own).value(); });
      });
}

}  // namespace rannc::python
