// Runs plans in threads of this process.
#include "tests/runtime/support/local_run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "codegen/native_compiler.h"
#include "codegen/stage_writer.h"
#include "runtime/engine/engine.h"
#include "runtime/internal/torch_value.h"
#include "runtime/transport/transport_local.h"

namespace rannc::testing {

std::string compiled_stages() { return RANNC_BINARY_DIR "/tests/compiled-stages"; }

namespace {

/// Stages of a plan as files in a folder that is removed in the end.
class Compiled {
 public:
  Compiled(const ir::Plan& plan, runtime::BundleForm form, bool loops) {
    static std::atomic<int> counter{0};
    bundle_.path = (std::filesystem::temp_directory_path() /
                    ("rannc-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++)))
                       .string();
    std::filesystem::create_directory(bundle_.path);
    bundle_.plan = plan.clone();
    bundle_.form = form;
    for (size_t i = 0; i < plan.stages.size(); ++i) {
      const auto stage = StageId::from(i);
      if (form == runtime::BundleForm::kNative) {
        codegen::write_native_source(plan, stage, {.loops = loops}, bundle_.path).value();
        codegen::NativeCompiler::open(RANNC_TEST_CXX, compiled_stages())
            .value()
            .compile(bundle_.path + "/" + runtime::source_file(stage), bundle_.compiled_path(stage))
            .value();
      }
      codegen::write_weights(plan, stage, bundle_.path).value();
      bundle_.signatures.push_back(runtime::signature(plan, stage));
      bundle_.weights.push_back(
          runtime::SafetensorsFile::open(bundle_.path + "/" + runtime::weights_file(stage)).value());
    }
  }
  ~Compiled() { std::filesystem::remove_all(bundle_.path); }
  const runtime::Bundle& bundle() const { return bundle_; }

 private:
  runtime::Bundle bundle_;
};

class PeakObserver final : public runtime::Observer {
 public:
  void finished(const runtime::ActionRecord& record) override { peak = std::max(peak, record.live_bytes); }
  uint64_t peak = 0;
};

/// One device with its programs.
struct Device {
  std::vector<std::unique_ptr<runtime::Program>> programs;
  PeakObserver observer;
  std::unique_ptr<runtime::Executor> executor;
  std::optional<Result<runtime::StepOutcome>> outcome;
};

void add_numbers(const runtime::Pipeline& pipeline, const ir::Plan& plan, const std::vector<double>& denominators,
                 std::vector<Device>& devices, Numbers& numbers) {
  std::map<ValueId, std::vector<runtime::OutputPart>> parts;
  numbers.loss = 0;
  for (Device& device : devices) {
    runtime::StepOutcome outcome = std::move(*device.outcome).value();
    for (const auto& part : outcome.outputs) parts[part.value].push_back(part);
    for (size_t term = 0; term < pipeline.losses.size(); ++term) {
      for (const auto& part : outcome.numerators[term]) {
        numbers.loss += plan.graph.losses()[term].weight * part.part->item() / denominators[term];
      }
    }
    numbers.peak_bytes = std::max(numbers.peak_bytes, device.observer.peak);
  }
  for (auto& [value, pieces] : parts) {
    std::sort(pieces.begin(), pieces.end(),
              [](const auto& a, const auto& b) { return a.samples.first < b.samples.first; });
    std::vector<at::Tensor> tensors;
    for (const auto& piece : pieces) tensors.push_back(runtime::to_tensor(piece.part));
    numbers.outputs[std::string(plan.graph.value(value).name)] = at::cat(tensors, plan.graph.type(value).batch.axis);
  }
}

void add_gradients(std::vector<Device>& devices, Numbers& numbers) {
  for (Device& device : devices) {
    for (const auto& program : device.programs) {
      if (program == nullptr) continue;
      for (uint32_t i = 0; i < program->signature().parameters.size(); ++i) {
        numbers.gradients[program->signature().parameters[i].name] =
            runtime::to_tensor(program->gradients({&i, 1})[0]).clone();
      }
      for (size_t i = 0; i < program->buffers().size(); ++i) {
        numbers.buffers[program->signature().buffers[i].name] = runtime::to_tensor(program->buffers()[i]).clone();
      }
    }
  }
}

}  // namespace

Result<runtime::Value> TensorFeed::input(const runtime::Port& port, ir::SampleRange samples) {
  const at::Tensor& whole = tensors_.at(port.name);
  return runtime::to_value(whole.narrow(port.type.batch.axis, samples.first, samples.size()));
}

Numbers run_locally(const ir::Plan& plan, const std::map<std::string, at::Tensor>& batch,
                    const std::vector<double>& denominators, const RunOptions& options) {
  const bool native = options.engine == "native";
  const Compiled compiled(plan, native ? runtime::BundleForm::kNative : runtime::BundleForm::kInterpreted,
                          options.loops);
  const runtime::Engine& engine = *runtime::find_engine(options.engine).value();
  const runtime::Pipeline pipeline = runtime::make_pipeline(plan);
  const auto handing_over = runtime::make_local_transports(pipeline.shape.devices, std::chrono::seconds(60));
  const auto transports = options.transports.empty() ? std::span(handing_over) : options.transports;
  TensorFeed feed(batch);
  std::vector<Device> devices(pipeline.shape.devices);
  for (uint32_t d = 0; d < pipeline.shape.devices; ++d) {
    std::vector<runtime::Program*> programs;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const auto& on = plan.stages[s].devices;
      const bool here = std::find(on.begin(), on.end(), DeviceId(d)) != on.end();
      devices[d].programs.push_back(
          here ? engine.load(compiled.bundle(), StageId::from(s), runtime::Origins::kForgotten, runtime::cpu()).value()
               : nullptr);
      programs.push_back(devices[d].programs.back().get());
    }
    devices[d].executor =
        std::make_unique<runtime::Executor>(pipeline, DeviceId(d), programs, *transports[d], &devices[d].observer);
  }
  Numbers numbers;
  for (uint32_t i = 0; i < options.steps; ++i) {
    runtime::StepInput input{.step = options.step + i,
                             .seed = options.seed,
                             .training = options.training,
                             .keep_outputs = true,
                             .feed = &feed,
                             .overlaps_sums = options.overlaps_sums};
    if (options.commit) input.update = [](StageId, runtime::Program&) { return Result<void>(); };
    for (size_t term = 0; term < denominators.size(); ++term) {
      const ir::LossTerm& loss = plan.graph.losses()[term];
      input.loss_seeds.push_back(
          runtime::to_value(at::full({}, loss.weight / denominators[term],
                                     at::TensorOptions(runtime::scalar_type(plan.graph.type(loss.numerator).dtype)))));
    }
    std::vector<std::thread> threads;
    for (Device& device : devices) threads.emplace_back([&] { device.outcome = device.executor->run(input); });
    for (std::thread& thread : threads) thread.join();
    add_numbers(pipeline, plan, denominators, devices, numbers);
  }
  if (options.training) add_gradients(devices, numbers);
  return numbers;
}

}  // namespace rannc::testing
