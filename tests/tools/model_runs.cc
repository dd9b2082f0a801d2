#include "tests/tools/model_runs.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <thread>

#include "codegen/bundle_writer.h"
#include "passes/training/cut_functions.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/dataset.h"
#include "runtime/train/numbers.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transport_gloo.h"
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

}  // namespace

std::string RunCut::str() const {
  return fmt::format("replicas {}, {} micro-batches, {}", fmt::join(replicas, ","), micro_batches,
                     gloo ? "gloo" : "local");
}

ModelRuns::ModelRuns(RunModel model) : model_(std::move(model)) {
  options_.model = model_.file;
  options_.loss = model_.loss;
  options_.dtype = "float32";
  options_.costs = "analytic";
  options_.optimizer = "sgd";
  options_.mini_batch = model_.samples;
  options_.recompute = "never";
  prepared_ = tools::prepare_model(options_).value();
  if (!model_.batch.empty()) options_.assume = tools::assumed_sizes(prepared_.graph, model_.batch).value();
}

std::string ModelRuns::compile(const RunCut& cut) const {
  tools::CompileFlags options = options_;
  const uint32_t devices = std::accumulate(cut.replicas.begin(), cut.replicas.end(), 0U);
  options.cluster = fmt::format("local:{}", devices);
  options.stages = static_cast<uint32_t>(cut.replicas.size());
  options.replicas = cut.replicas;
  options.micro_batches = {cut.micro_batches};
  // Even stages, so that every one has something to get wrong; GPipe has no replicas.
  options.planner = devices == options.stages ? "gpipe" : "auto";
  const auto plan = tools::plan_options(options, prepared_).value();
  const std::string path =
      fmt::format("{}/{}-{}.rannc", scratch_.path(), fmt::join(cut.replicas, "-"), cut.micro_batches);
  ir::Plan planned = std::move(tools::plan_prepared(prepared_, plan).value().plan);
  passes::cut_functions(planned).value();
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

RunNumbers ModelRuns::run(const RunCut& cut, uint32_t steps) const {
  const std::string bundle = compile(cut);
  if (!cut.gloo) return work(bundle, nullptr, steps);
  const uint32_t devices = std::accumulate(cut.replicas.begin(), cut.replicas.end(), 0U);
  tools::Listener meeting = tools::Listener::open().value();
  const uint16_t port = meeting.port();
  std::vector<RunNumbers> found(devices);
  std::vector<std::string> failures(devices);
  {
    std::vector<std::jthread> workers;
    for (uint32_t rank = 0; rank < devices; ++rank) {
      workers.emplace_back([&, rank] {
        runtime::Rendezvous where;
        where.port = port;
        where.rank = rank;
        where.workers = devices;
        if (rank == 0) where.listening_socket = meeting.release();
        try {
          found[rank] = work(bundle, runtime::join_gloo(where).value(), steps);
        } catch (const std::exception& failure) {
          failures[rank] = failure.what();
        }
      });
    }
  }
  for (const std::string& failure : failures) {
    if (!failure.empty()) throw Error(error(failure));
  }
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
