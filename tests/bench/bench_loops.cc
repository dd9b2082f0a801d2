// Times operators with a loop rule: LibTorch's operator over the loop, by processor time of one thread.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>

#include "codegen/bundle_writer.h"
#include "ir/text/text.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/process.h"
#include "tests/runtime/support/loop_calls.h"
#include "tests/runtime/support/plan_builder.h"

namespace rannc {
namespace {

struct Flags {
  std::string cxx, cache;
  std::vector<int64_t> rows = {16, 512};
  std::vector<int64_t> columns = {4, 8, 16, 32, 64, 256, 1024};
  uint32_t rounds = 15;
  std::string only;  ///< calls that contain it
};

double now_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

/// The operands of `loop_calls.h`, over rows and columns.
const std::map<std::string, std::string> kOperands = {{"x", "f32[batch,c] samples 0"},
                                                      {"y", "f32[batch,c] samples 0"},
                                                      {"z", "f32[batch,c] samples 0"},
                                                      {"w", "f32[batch,c] samples 0"},
                                                      {"h", "f32[batch,c] samples 0"},
                                                      {"i", "f32[batch,c] samples 0"},
                                                      {"j", "f32[batch,c] samples 0"},
                                                      {"n", "i64[batch,c] samples 0"},
                                                      {"g", "bool[batch,c] samples 0"},
                                                      {"o", "bool[batch,c] samples 0"},
                                                      {"m", "f32[batch,1] samples 0"},
                                                      {"r", "f32[batch,1] samples 0"},
                                                      {"c", "f32[c]"},
                                                      {"d", "f32[c]"}};

/// A graph of one call.
ir::Graph graph_of(const std::string& call, const std::string& result) {
  std::string text = "rannc.graph 1\nbatch batch\n", inputs;
  for (const auto& [name, type] : kOperands) {
    const size_t at = call.find("%" + name);
    if (at == std::string::npos) continue;
    text += fmt::format("input %{}: {}\n", name, type);
    inputs += fmt::format("{}%{}", inputs.empty() ? "" : ", ", name);
  }
  std::string written = call;
  if (const size_t at = written.find("!T"); at != std::string::npos) written.replace(at, 2, "!f32");
  text += fmt::format("#0 %result: {} = {}\ninputs [{}]\noutputs [%result]\n", result, written, inputs);
  return ir::parse_graph(text, call).value();
}

/// The forward pass of a bundle of one stage on positive numbers.
class Runner {
 public:
  Runner(const runtime::Bundle& bundle, const char* engine, int64_t rows, int64_t columns)
      : rows_(static_cast<uint32_t>(rows)), sizes_{{"c", columns}} {
    program_ = runtime::find_engine(engine)
                   .value()
                   ->load(bundle, StageId(0), runtime::Origins::kForgotten, runtime::cpu())
                   .value();
    ir::Bindings sizes = sizes_;
    sizes["batch"] = rows;
    for (const runtime::Port& port : program_->signature().inputs) {
      std::vector<int64_t> extents;
      for (const ir::Dim& dim : *port.type.shape) extents.push_back(dim.evaluate(sizes).value());
      inputs_.push_back(runtime::to_value(made(port.type.dtype, extents)));
    }
  }

  /// Nanoseconds of a call.
  double round(int calls) {
    const double start = now_ns();
    for (int i = 0; i < calls; ++i) {
      runtime::Held saved;
      program_->forward({.stage = StageId(0), .samples = rows_, .training = false, .symbols = &sizes_}, inputs_, saved)
          .value();
    }
    return (now_ns() - start) / calls;
  }

 private:
  static at::Tensor made(ir::DType dtype, const std::vector<int64_t>& extents) {
    if (dtype == ir::DType::kBool) return at::rand(extents).gt(0.5);
    if (dtype == ir::DType::kI64) return at::randint(0, 9, extents);
    return at::rand(extents).add(0.1);
  }

  uint32_t rows_;
  ir::Bindings sizes_;
  std::unique_ptr<runtime::Program> program_;
  runtime::Values inputs_;
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double ratio(const runtime::Bundle& torch, const runtime::Bundle& loops, int64_t rows, int64_t columns,
             const Flags& flags) {
  Runner theirs(torch, "explicit", rows, columns), ours(loops, "native", rows, columns);
  const int calls = static_cast<int>(std::max<int64_t>(1, (1 << 18) / (rows * columns)));
  std::vector<double> ratios;
  for (uint32_t i = 0; i < flags.rounds + 3; ++i) {
    const double first = i % 2 == 0 ? theirs.round(calls) : ours.round(calls);
    const double second = i % 2 == 0 ? ours.round(calls) : theirs.round(calls);
    if (i >= 3) ratios.push_back(i % 2 == 0 ? first / second : second / first);
  }
  return median(std::move(ratios));
}

/// `folder` is used once: a process opens a library of one path only once.
void compare(const std::string& call, const std::string& result, const std::string& folder, const Flags& flags) {
  const auto compiler = codegen::NativeCompiler::open(flags.cxx, flags.cache).value();
  const auto bundle = [&](const std::string& name, bool loops) {
    codegen::write_bundle(testing::build_plan(graph_of(call, result), {.training = false}),
                          {.native = codegen::NativeForm{compiler, {.loops = loops}}}, folder + "/" + name)
        .value();
    return runtime::open_bundle(folder + "/" + name).value();
  };
  const runtime::Bundle torch = bundle("torch", false), loops = bundle("loops", true);
  fmt::print("{:52}", call);
  for (const int64_t rows : flags.rows) {
    for (const int64_t columns : flags.columns) fmt::print(" {:5.2f}", ratio(torch, loops, rows, columns, flags));
    fmt::print("  ");
  }
  fmt::print("\n");
  std::fflush(stdout);
}

int run(const Flags& flags) {
  runtime::set_threads(1);
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("rannc-bench-loops-{}", ::getpid())).string();
  size_t count = 0;
  fmt::print("rows {}, columns {}: LibTorch's time over the loop's\n", fmt::join(flags.rows, ", "),
             fmt::join(flags.columns, ", "));
  const auto all = [&](std::span<const char* const> calls, const char* result) {
    for (const std::string call : calls) {
      if (call.find(flags.only) == std::string::npos) continue;
      const std::string own = fmt::format("{}/{}", folder, count++);
      std::filesystem::create_directories(own);
      compare(call, result, own, flags);
    }
  };
  all(testing::kElementCalls, "f32[batch,c] samples 0");
  all(testing::kTruthCalls, "bool[batch,c] samples 0");
  constexpr const char* kRowSums[] = {"core.sum(%x) {axes = [1]}", "core.mean(%x) {axes = [1]}",
                                      "core.amax(%x) {axes = [1]}"};
  all(kRowSums, "f32[batch] samples 0");
  constexpr const char* kColumnSums[] = {"core.sum(%x) {axes = [0]}", "core.layer_norm_grad_scale(%x, %y, %m, %r)"};
  all(kColumnSums, "f32[c] partial");
  constexpr const char* kTotals[] = {"core.sum(%x)", "core.mse_sum(%x, %y)", "core.bce_with_logits_sum(%x, %y)"};
  all(kTotals, "f32[] partial");
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace rannc

int main(int count, char** arguments) {
  rannc::Flags flags;
  CLI::App app("Compares loops of compiled stages with LibTorch's operators, one operator at a time.");
  app.add_option("--cxx", flags.cxx, "path of a C++ compiler")->required();
  app.add_option("--cache", flags.cache, "folder that keeps compiled stages");
  app.add_option("--rows", flags.rows, "by commas")->delimiter(',');
  app.add_option("--columns", flags.columns, "by commas")->delimiter(',');
  app.add_option("--rounds", flags.rounds, "counted rounds");
  app.add_option("--only", flags.only, "calls that contain this text");
  CLI11_PARSE(app, count, arguments);
  rannc::runtime::keep_freed_memory();
  return rannc::run(flags);
}
