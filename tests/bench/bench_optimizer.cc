// Updates made-up parameters, once for each line of standard input, as tests/bench/optimizer_speed.py asks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>

#include "runtime/train/gradient_norms.h"
#include "runtime/train/optimizer.h"
#include "runtime/train/process.h"
#include "tests/runtime/engine/held_tensors.h"

namespace rannc {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A line of sizes for each tensor.
std::vector<std::vector<int64_t>> read_shapes(const std::string& path) {
  std::vector<std::vector<int64_t>> shapes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    std::vector<int64_t>& shape = shapes.emplace_back();
    for (int64_t size = 0; numbers >> size;) shape.push_back(size);
  }
  return shapes;
}

/// `seconds processor-seconds norm`; without a limit the norm is 0.
void answer(runtime::Program& program, runtime::StageOptimizer& optimizer, uint64_t step, double limit) {
  const double start = seconds_of(CLOCK_MONOTONIC), ran = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  std::vector<uint32_t> all(limit > 0 ? program.parameters().size() : 0);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<double> squares = runtime::squared_norms(program, all);
  const double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  optimizer.update(step, limit > 0 ? runtime::clip_scale(norm, limit) : 1).value();
  fmt::print("{:.9f} {:.9f} {:.9g}\n", seconds_of(CLOCK_MONOTONIC) - start, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - ran,
             norm);
  std::fflush(stdout);
}

}  // namespace
}  // namespace rannc

int main(int argc, char** argv) {
  CLI::App app("Updates parameters, once for each line `step` of standard input", "bench-optimizer");
  std::string shapes, optimizer = "adam";
  rannc::runtime::OptimizerOptions options;
  double limit = 0;
  int threads = 1;
  app.add_option("shapes", shapes, "a line of sizes for each parameter")->required();
  app.add_option("--optimizer", optimizer, "sgd, adam or adamw");
  app.add_option("--momentum", options.momentum, "of sgd");
  app.add_option("--weight-decay", options.weight_decay, "");
  app.add_option("--clip-norm", limit, "0: gradients are not clipped");
  app.add_option("--threads", threads, "");
  CLI11_PARSE(app, argc, argv);
  try {
    rannc::runtime::keep_freed_memory();
    rannc::runtime::set_threads(threads);
    options.kind = rannc::runtime::parse_optimizer(optimizer).value();
    const auto sizes = rannc::read_shapes(shapes);
    rannc::testing::HeldTensors program(rannc::testing::made_up_tensors(sizes), rannc::testing::made_up_tensors(sizes));
    rannc::runtime::StageOptimizer updates(options, program);
    fmt::print("ready\n");
    std::fflush(stdout);
    uint64_t step = 0;
    for (std::string line; std::getline(std::cin, line);) rannc::answer(program, updates, step++, limit);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
}
