#include "tests/tools/model_runs.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "codegen/bundle_writer.h"
#include "ir/plan/held_samples.h"
#include "runtime/data/dataset.h"
#include "runtime/data/numbers.h"
#include "runtime/engine/allocation_meter.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transport_gloo.h"
#include "runtime/transport/transport_local.h"
#include "tests/runtime/transport/forwarding_transport.h"
#include "tools/check/reference.h"
#include "tools/common/launcher.h"

namespace rannc::test {

namespace {

at::ScalarType torch_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF32:
      return at::kFloat;
    case ir::DType::kI32:
      return at::kInt;
    case ir::DType::kBool:
      return at::kBool;
    default:
      RANNC_CHECK(dtype == ir::DType::kI64) << "no model here has an input of " << ir::str(dtype);
      return at::kLong;
  }
}

// Tokens, types and labels that every model knows; nothing is masked out, lest a sample is left without any token.
at::Tensor drawn(const std::string& name, ir::DType dtype, const std::vector<int64_t>& shape, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::TensorOptions options(torch_type(dtype));
  if (ir::is_float(dtype)) return at::randn(shape, generator, options);
  if (name.find("mask") != std::string::npos) return at::ones(shape, options);
  return at::randint(2, shape, generator, options);
}

uint32_t devices_of(const RunCut& cut) { return std::accumulate(cut.replicas.begin(), cut.replicas.end(), 0U); }

}  // namespace

std::string RunCut::str() const {
  return fmt::format("replicas {}, {} micro-batches, {}", fmt::join(replicas, ","), micro_batches,
                     gloo ? "gloo" : "local");
}

ModelRuns::ModelRuns(RunModel model) : model_(std::move(model)) {
  read_.loss = model_.loss;
  read_.precision = compiler::Precision::kFloat32;
  read_.mini_batch = model_.samples;
  prepared_ = tools::prepare_model(model_.file, read_).value();
  if (!model_.batch.empty()) read_.assumed_sizes = tools::assumed_sizes(prepared_.graph, model_.batch).value();
}

std::string ModelRuns::compile(const RunCut& cut) const {
  compiler::PlanOptions options{.optimizer = compiler::Optimizer::kSgd, .costs = compiler::Costs::kAnalytic};
  const uint32_t devices = devices_of(cut);
  options.cluster = fmt::format("local:{}", devices);
  options.stages = static_cast<uint32_t>(cut.replicas.size());
  options.replicas = cut.replicas;
  options.micro_batches = {cut.micro_batches};
  // Even stages, so that every one has something to get wrong; GPipe has no replicas.
  options.planner = devices == options.stages ? "gpipe" : "auto";
  if (!cut.schedule.empty()) options.schedules = {cut.schedule};
  options.recompute = cut.recompute;
  const auto plan = tools::plan_options(tools::requested_plan(options, read_).value(), prepared_).value();
  const std::string path =
      fmt::format("{}/{}-{}.rannc", scratch_.path(), fmt::join(cut.replicas, "-"), cut.micro_batches);
  ir::Plan planned = std::move(tools::plan_prepared(prepared_, plan).value().plan);
  codegen::write_bundle(planned, {.replace = true}, path).value();
  return path;
}

runtime::Batch ModelRuns::batch_of(const ir::Plan& plan) const {
  if (!model_.batch.empty()) {
    runtime::Batch batch = runtime::to_model_types(plan, runtime::read_batch(model_.batch).value());
    if (!plan.training) std::erase_if(batch, [](const auto& entry) { return entry.first.starts_with("labels/"); });
    return batch;
  }
  runtime::Batch batch;
  for (const ValueId input : plan.graph.inputs()) {
    const std::string name(plan.graph.value(input).name);
    std::vector<int64_t> shape;
    for (const ir::Dim& dim : *plan.graph.type(input).shape)
      shape.push_back(dim.evaluate({{plan.graph.batch_symbol(), plan.mini_batch}}).value());
    batch[name] = runtime::to_value(drawn(name, plan.graph.type(input).dtype, shape, input.index()));
  }
  return batch;
}

RunNumbers ModelRuns::work(const std::string& bundle, std::shared_ptr<runtime::Transport> transport,
                           uint32_t steps) const {
  runtime::TrainerOptions options;
  options.optimizer.learning_rate = model_.learning_rate;
  const auto trainer = (transport ? runtime::Trainer::open_worker(bundle, options, std::move(transport))
                                  : runtime::Trainer::open(bundle, options))
                           .value();
  const runtime::Batch batch = batch_of(trainer->plan());
  RunNumbers numbers;
  if (!trainer->plan().training) {
    for (const auto& [name, value] : trainer->evaluate(batch).value().outputs)
      numbers.outputs[name] = runtime::to_doubles(value);
    return numbers;
  }
  for (uint32_t step = 0; step < steps; ++step) numbers.losses.push_back(trainer->step(batch).value().loss);
  return numbers;
}

namespace {

/// Measures what each pass of a device's thread allocates.
class PassMeter final : public runtime::Observer {
 public:
  explicit PassMeter(const std::string& bundle) : plan_(runtime::open_bundle(bundle).value().plan) {
    for (const auto& row : plan_.schedule.rows) {
      for (const ir::Action& action : row) {
        if (action.kind == ir::ActionKind::kRecompute) recomputed_.insert({action.stage, action.micro_batch});
      }
    }
  }
  void started(DeviceId) override {
    if (!meter_) meter_.emplace();
    meter_->restart();
    before_ = meter_->live_bytes();
  }
  void finished(const runtime::ActionRecord& record) override {
    if (!ir::is_compute(record.action.kind)) return;
    const std::lock_guard lock(mutex_);
    const auto predicted = prediction(record.action);
    if (record.step > 0) {
      passes_.push_back({ir::to_string(record.action), meter_->peak_bytes() - before_, predicted});
    }
  }
  std::vector<PassMemory> passes() const { return passes_; }

 private:
  int64_t prediction(const ir::Action& action) {
    const ir::Stage& stage = plan_.stages[action.stage.index()];
    const auto replicas = static_cast<uint32_t>(stage.devices.size());
    const uint32_t share = (plan_.micro_batches[action.micro_batch] + replicas - 1) / replicas;
    for (const ir::StageTime& time : plan_.stage_times) {
      if (time.stage == action.stage && time.samples == share) return peak(action, time);
    }
    return 0;
  }

  int64_t peak(const ir::Action& action, const ir::StageTime& time) {
    const int64_t samples = ir::held_sample_bytes(plan_, action.stage) * time.samples / plan_.mini_batch;
    if (action.kind == ir::ActionKind::kForward && action.micro_batch == 0) added_.erase(action.stage.index());
    const bool repeated = recomputed_.contains({action.stage, action.micro_batch});
    const bool begins = ir::is_forward(action.kind) && repeated;
    const ir::ProgramKind kind = (begins ? ir::kRepeatedForward : ir::traits(action.kind).memory).peak;
    const bool first = ir::adds_weight_gradient(action.kind) && added_.insert(action.stage.index()).second;
    const auto bytes = static_cast<int64_t>((first ? time.peaks.first : time.peaks.usual)[kind]);
    return ir::is_forward(action.kind) ? bytes - samples : bytes;
  }

  const ir::Plan plan_;
  std::set<std::pair<StageId, uint32_t>> recomputed_;
  std::set<size_t> added_;  ///< stages whose gradients were added in this step
  std::mutex mutex_;
  std::vector<PassMemory> passes_;
  static thread_local std::optional<runtime::AllocationMeter> meter_;
  static thread_local int64_t before_;
};
thread_local std::optional<runtime::AllocationMeter> PassMeter::meter_;
thread_local int64_t PassMeter::before_ = 0;

/// Hands over copies, so that a reader frees what it received although the sender keeps the original, as between hosts.
class CopyingTransport final : public testing::ForwardingTransport {
 public:
  using testing::ForwardingTransport::ForwardingTransport;
  Result<void> send(const runtime::MessageKey& key, DeviceId to, runtime::Value value,
                    runtime::SentValue sent) override {
    return ForwardingTransport::send(key, to, runtime::to_value(runtime::to_tensor(value).clone()), sent);
  }
};

/// Runs the work of every device on a thread of its own. Throws the first failure.
void in_parallel(uint32_t devices, const std::function<void(uint32_t device)>& work) {
  std::vector<std::string> failures(devices);
  {
    std::vector<std::jthread> workers;
    for (uint32_t device = 0; device < devices; ++device) {
      workers.emplace_back([&, device] {
        try {
          work(device);
        } catch (const std::exception& failure) {
          failures[device] = failure.what();
        }
      });
    }
  }
  for (const std::string& failure : failures) {
    if (!failure.empty()) throw Error(error(failure));
  }
}

}  // namespace

std::vector<PassMemory> ModelRuns::memory(const RunCut& cut) const {
  const std::string bundle = compile(cut);
  PassMeter meter(bundle);
  runtime::TrainerOptions options;
  options.optimizer.learning_rate = model_.learning_rate;
  options.observer = &meter;
  auto ends = runtime::make_local_transports(devices_of(cut), std::chrono::minutes(1));
  in_parallel(devices_of(cut), [&](uint32_t device) {
    auto end = std::make_shared<CopyingTransport>(std::move(ends[device]));
    const auto trainer = runtime::Trainer::open_worker(bundle, options, std::move(end)).value();
    const runtime::Batch batch = batch_of(trainer->plan());
    for (int step = 0; step < 2; ++step) trainer->step(batch).value();
  });
  return meter.passes();
}

RunNumbers ModelRuns::run(const RunCut& cut, uint32_t steps) const {
  const std::string bundle = compile(cut);
  if (!cut.gloo) return work(bundle, nullptr, steps);
  const uint32_t devices = devices_of(cut);
  tools::Listener meeting = tools::Listener::open().value();
  const uint16_t port = meeting.port();
  std::vector<RunNumbers> found(devices);
  in_parallel(devices, [&](uint32_t rank) {
    runtime::Rendezvous where;
    where.port = port;
    where.rank = rank;
    where.workers = devices;
    if (rank == 0) where.listening_socket = meeting.release();
    found[rank] = work(bundle, runtime::join_gloo(where).value(), steps);
  });
  // Every worker knows the loss; an output is known to those that hold the stage that makes it.
  for (const RunNumbers& other : found) {
    if (other.losses != found[0].losses) throw Error(error("workers disagree about the loss"));
    for (const auto& [name, values] : other.outputs) {
      auto& whole = found[0].outputs[name];
      if (&other != &found[0]) whole.insert(whole.end(), values.begin(), values.end());
    }
  }
  return found[0];
}

}  // namespace rannc::test
