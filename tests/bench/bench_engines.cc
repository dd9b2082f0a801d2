// Times forward and backward passes of each engine on one stage, in turns, by processor time of one thread.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>

#include "codegen/bundle_writer.h"
#include "ir/op/op.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/process.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/synthetic_tensors.h"
#include "tests/runtime/support/taped_run.h"

namespace rannc {
namespace {

struct Flags {
  std::vector<std::string> bundles;
  uint32_t samples = 8;
  uint32_t rounds = 30;
  uint32_t chain = 200;
  uint32_t convolutions = 20;
  double most = 1.1;         ///< of the tape's time; the medians of a busy machine differ by less
  std::string instructions;  ///< limit of oneDNN, as `AVX2`; empty: none
  std::string cxx;           ///< also compares the compiled chain
  bool alone = false;        ///< runs no tape beside it, for profilers
};

double now_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

ir::TensorData random_data(const std::vector<int64_t>& sizes) {
  const at::Tensor made = testing::synthetic_tensor(sizes, ir::DType::kF32, 0.05);
  const auto* first = static_cast<const std::byte*>(made.const_data_ptr());
  return ir::TensorData::in_memory({first, first + made.nbytes()});
}

ValueId add_input(ir::Graph& graph, const char* name, const ir::ValueType& type) {
  const ValueId value = graph.add_value(ir::ValueKind::kInput, name, type);
  graph.add_input(value);
  return value;
}

ValueId add_task(ir::Graph& graph, std::string_view op, std::initializer_list<ValueId> operands,
                 ir::Attributes attributes) {
  const ValueId made = graph.add(ir::core(op), operands, std::move(attributes));
  infer_types(graph, graph.producer(made)).value();
  return made;
}

/// `layers` × (linear 16 -> 16, relu, residual), with a loss.
ir::Graph chain(uint32_t layers) {
  ir::Graph graph;
  graph.set_batch_symbol("batch");
  const ir::ValueType of_samples{ir::DType::kF32, ir::Shape{ir::Dim::symbol("batch"), ir::Dim(16)}, {0, 1, 1}, {}};
  const auto task = [&](std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {}) {
    return add_task(graph, op, operands, std::move(attributes));
  };
  ValueId x = add_input(graph, "x", of_samples);
  const ValueId target = add_input(graph, "target", of_samples);
  for (uint32_t i = 0; i < layers; ++i) {
    const auto parameter = [&](const char* name, std::vector<int64_t> sizes) {
      return graph.add_value(ir::ValueKind::kParameter, fmt::format("{}{}", name, i),
                             {ir::DType::kF32, ir::Shape(sizes.begin(), sizes.end()), {}, {}}, random_data(sizes));
    };
    const ValueId weight = parameter("w", {16, 16}), bias = parameter("b", {16});
    const ValueId y = task("relu", {task("linear", {x, weight, bias}, {{"layout", std::string("oi")}})});
    x = task("add", {x, y});
  }
  const ValueId loss = task("mse_sum", {x, target});
  graph.add_loss({loss});
  return graph;
}

/// `layers` × (convolution of 3 x 3, 16 -> 16 channels of 16 x 16, relu, residual), with a loss.
ir::Graph convolutions(uint32_t layers) {
  ir::Graph graph;
  graph.set_batch_symbol("batch");
  const ir::ValueType images{
      ir::DType::kF32, ir::Shape{ir::Dim::symbol("batch"), ir::Dim(16), ir::Dim(16), ir::Dim(16)}, {0, 1, 1}, {}};
  const auto task = [&](std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {}) {
    return add_task(graph, op, operands, std::move(attributes));
  };
  ValueId x = add_input(graph, "x", images);
  const ValueId target = add_input(graph, "target", images);
  const ir::Attributes windows = {{"dilations", ir::Shape{1, 1}},
                                  {"groups", ir::Dim(1)},
                                  {"pads", ir::Shape{1, 1, 1, 1}},
                                  {"strides", ir::Shape{1, 1}}};
  for (uint32_t i = 0; i < layers; ++i) {
    const auto parameter = [&](const char* name, std::vector<int64_t> sizes) {
      return graph.add_value(ir::ValueKind::kParameter, fmt::format("{}{}", name, i),
                             {ir::DType::kF32, ir::Shape(sizes.begin(), sizes.end()), {}, {}}, random_data(sizes));
    };
    const ValueId weight = parameter("w", {16, 16, 3, 3}), bias = parameter("b", {16});
    x = task("add", {x, task("relu", {task("conv", {x, weight, bias}, windows)})});
  }
  graph.add_loss({task("mse_sum", {x, target})});
  return graph;
}

/// Of one engine, by round.
struct Times {
  std::vector<double> forward, backward, parted, step;
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// The median over the rounds of the ratio of two times of one round.
double median_ratio(std::vector<double> times, const std::vector<double>& base) {
  for (size_t i = 0; i < times.size(); ++i) times[i] /= base[i];
  return median(std::move(times));
}

/// One engine's program of the only stage.
class Runner {
 public:
  Runner(const runtime::Bundle& bundle, const runtime::Engine& engine, uint32_t samples) : samples_(samples) {
    program_ = engine.load(bundle, StageId(0), runtime::Origins::kForgotten, runtime::cpu()).value();
    const runtime::Signature& signature = program_->signature();
    ir::Bindings sizes;
    if (!signature.batch_symbol.empty()) sizes[signature.batch_symbol] = samples;
    const auto tensor = [&](const runtime::Port& port, bool gradient) {
      std::vector<int64_t> extents;
      for (const ir::Dim& dim : *port.type.shape) extents.push_back(dim.evaluate(sizes).value());
      return gradient ? testing::constant_tensor(extents, port.type.dtype, 1e-3)
                      : testing::synthetic_tensor(extents, port.type.dtype);
    };
    for (const runtime::Port& port : signature.inputs) inputs_.push_back(runtime::to_value(tensor(port, false)));
    for (const runtime::Port& port : signature.outputs) {
      gradients_.push_back(port.gradient ? runtime::to_value(tensor(port, true)) : nullptr);
    }
  }

  void round(bool counted, Times& times) {
    const ir::Bindings none;
    runtime::At at{.stage = StageId(0), .samples = samples_, .seed = 1, .symbols = &none};
    program_->begin_step({}, runtime::StepKind::kOther);
    const auto timed = [&](std::vector<double>& to, const std::function<void()>& body) {
      const double start = now_ns();
      body();
      if (counted) to.push_back(now_ns() - start);
    };
    runtime::Held saved, pending;
    timed(times.forward, [&] { program_->forward(at, inputs_, saved).value(); });
    timed(times.backward, [&] { program_->backward(at, saved, gradients_).value(); });
    if (counted) times.step.push_back(times.forward.back() + times.backward.back());
    program_->begin_step(
        {}, runtime::StepKind::kOther);  // the first micro-batch of a step, as above: its gradients become the sums
    program_->forward(at, inputs_, saved).value();
    timed(times.parted, [&] {
      program_->backward_input(at, saved, gradients_, pending).value();
      program_->backward_weight(at, saved, pending).value();
    });
  }

 private:
  uint32_t samples_;
  std::unique_ptr<runtime::Program> program_;
  runtime::Values inputs_, gradients_;
};

/// The rival: the only stage's tasks under LibTorch's autograd, one tape per pass.
class Taped {
 public:
  Taped(const runtime::Bundle& bundle, uint32_t samples)
      : graph_(bundle.plan.graph), run_(graph_), values_(testing::stored_tensors(graph_, true)) {
    sizes_[std::string(graph_.batch_symbol())] = samples;
    for (const ValueId value : graph_.values()) {
      if (graph_.producer(value).valid() || values_[value.index()]) continue;
      const ir::ValueType& type = graph_.type(value);
      std::vector<int64_t> extents;
      for (const ir::Dim& dim : *type.shape) extents.push_back(dim.evaluate(sizes_).value());
      values_[value.index()] = testing::synthetic_tensor(extents, type.dtype);
    }
  }

  void round(bool counted, Times& times) {
    for (auto& value : values_) {
      if (value && value->requires_grad()) value->mutable_grad().reset();
    }
    std::vector<std::optional<at::Tensor>> values = values_;
    at::Tensor loss;
    double start = now_ns();
    run_.run(sizes_, true, values);
    loss = *values[graph_.losses()[0].numerator.index()];
    values.clear();
    if (counted) times.forward.push_back(now_ns() - start);
    start = now_ns();
    loss.backward(at::full({}, 1e-3, loss.options()));
    if (!counted) return;
    times.backward.push_back(now_ns() - start);
    times.step.push_back(times.forward.back() + times.backward.back());
  }

 private:
  const ir::Graph& graph_;
  testing::TapedGraph run_;
  ir::Bindings sizes_;
  std::vector<std::optional<at::Tensor>> values_;
};

/// Runs one engine without a rival.
void run_alone(const std::string& name, const runtime::Bundle& bundle, const char* engine, const Flags& flags) {
  Runner runner(bundle, *runtime::find_engine(engine).value(), flags.samples);
  Times times;
  for (uint32_t i = 0; i < flags.rounds; ++i) runner.round(true, times);
  fmt::print("{:28} {:>9} {:>9} {:9.3f} {:9.3f}\n", name, "", "", 1e-6 * median(times.forward),
             1e-6 * median(times.backward));
}

/// Compares an engine with the tape. Returns whether a step takes at most `flags.most` of the tape's.
bool compare(const std::string& name, const runtime::Bundle& bundle, const char* engine, const Flags& flags) {
  if (flags.alone) {
    run_alone(name, bundle, engine, flags);
    return true;
  }
  Taped taped(bundle, flags.samples);
  Runner explicitly(bundle, *runtime::find_engine(engine).value(), flags.samples);
  Times tape, own;
  for (uint32_t i = 0; i < flags.rounds + 3; ++i) {
    const bool counted = i >= 3;
    if (i % 2 == 0) taped.round(counted, tape);
    explicitly.round(counted, own);
    if (i % 2 == 1) taped.round(counted, tape);
  }
  const double step = median_ratio(own.step, tape.step);
  fmt::print("{:28} {:9.3f} {:9.3f} {:9.3f} {:9.3f}   F {:.3f}  B {:.3f}  I+W {:.3f}  step {:.3f}{}\n", name,
             1e-6 * median(tape.forward), 1e-6 * median(tape.backward), 1e-6 * median(own.forward),
             1e-6 * median(own.backward), median_ratio(own.forward, tape.forward),
             median_ratio(own.backward, tape.backward), median_ratio(own.parted, tape.backward), step,
             step > flags.most ? "  SLOWER" : "");
  return step <= flags.most;
}

int run(const Flags& flags) {
  runtime::set_threads(1);
  fmt::print("{:28} {:>9} {:>9} {:>9} {:>9}   ours / autograd, {} samples, medians of {} rounds\n", "ms", "tape F",
             "tape B", "F", "B", flags.samples, flags.rounds);
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("rannc-bench-engines-{}", ::getpid())).string();
  const auto written = [&](ir::Graph graph) {
    codegen::write_bundle(testing::build_plan(std::move(graph), {.micro_batches = {flags.samples}}), {}, folder)
        .value();
    return runtime::open_bundle(folder).value();
  };
  const runtime::Bundle whole = written(chain(flags.chain));
  const std::string name = fmt::format("chain of {}", flags.chain);
  bool fast = compare(name, whole, "explicit", flags);
  for (const bool loops : {false, true}) {
    if (flags.cxx.empty()) break;
    const std::string native = fmt::format("{}-{}", folder, loops);
    const auto compiler = codegen::NativeCompiler::open(flags.cxx, "").value();
    codegen::write_bundle(whole.plan, {.native = codegen::NativeForm{compiler, {.loops = loops}}}, native).value();
    fast &= compare(name + (loops ? ", native" : ", native, no loops"), runtime::open_bundle(native).value(), "native",
                    flags);
    std::filesystem::remove_all(native);
  }
  std::filesystem::remove_all(folder);
  const std::string limit = flags.instructions.empty() ? "" : ", " + flags.instructions;
  fast &= compare(fmt::format("{} convolutions{}", flags.convolutions, limit),
                  written(convolutions(flags.convolutions)), "explicit", flags);
  std::filesystem::remove_all(folder);
  for (const std::string& path : flags.bundles) {
    const runtime::Bundle bundle = runtime::open_bundle(path).value();
    fast &= compare(std::filesystem::path(path).filename().string(), bundle, "explicit", flags);
  }
  if (!fast) fmt::print(stderr, "a step takes more than {} of autograd's time\n", flags.most);
  return fast ? 0 : 1;
}

}  // namespace
}  // namespace rannc

int main(int count, char** arguments) {
  rannc::Flags flags;
  CLI::App app("Compares the engines on a chain of small layers and on bundles of one stage.");
  app.add_option("bundles", flags.bundles, "bundles of one stage, with a loss");
  app.add_option("--samples", flags.samples, "samples of a micro-batch");
  app.add_option("--rounds", flags.rounds, "counted rounds");
  app.add_option("--chain", flags.chain, "layers of the chain");
  app.add_option("--convolutions", flags.convolutions, "layers of the chain of convolutions");
  app.add_option("--most", flags.most, "exit with 1 if a step takes more of the tape's time");
  app.add_option("--instructions", flags.instructions, "limit of oneDNN's instruction set, such as AVX2");
  app.add_option("--cxx", flags.cxx, "path of a C++ compiler: also compares the compiled chain");
  app.add_flag("--alone", flags.alone, "times no tape, for profilers");
  CLI11_PARSE(app, count, arguments);
  if (!flags.instructions.empty()) ::setenv("ONEDNN_MAX_CPU_ISA", flags.instructions.c_str(), 1);
  rannc::runtime::keep_freed_memory();
  return rannc::run(flags);
}
