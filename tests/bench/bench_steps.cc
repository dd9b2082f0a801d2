// Trains a bundle a step at a time, each when a line of standard input asks for it, as tests/bench/raw_speed.py does.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/data/dataset.h"
#include "runtime/train/process.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/measure/call_times.h"
#include "tools/common/hardware.h"

namespace rannc {
namespace {

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// Time that this process ran, of all its threads: what other programs took meanwhile is not in it.
double process_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

runtime::StepResult step(runtime::Trainer& trainer, const runtime::Batch& batch) { return trainer.step(batch).value(); }

/// `seconds processor-seconds loss`
void answer_step(runtime::Trainer& trainer, const runtime::Batch& batch) {
  const int64_t start_ns = now_ns();
  const double ran = process_seconds();
  const double loss = step(trainer, batch).loss;
  const double taken = process_seconds() - ran;
  fmt::print("{:.9f} {:.9f} {:.9g}\n", 1e-9 * static_cast<double>(now_ns() - start_ns), taken, loss);
}

/// One object: `seconds` of a step, and of it `kernels`: {name and shapes: [seconds, calls]}.
void answer_profile(runtime::Trainer& trainer, const runtime::Batch& batch, int steps) {
  const test::CallTimes times;
  const int64_t start_ns = now_ns();
  for (int i = 0; i < steps; ++i) step(trainer, batch);
  const double seconds = 1e-9 * static_cast<double>(now_ns() - start_ns - times.counting_ns()) / steps;
  nlohmann::json kernels = nlohmann::json::object();
  for (const auto& [name, found] : times.found())
    kernels[name] = {1e-9 * static_cast<double>(found.own_ns) / steps, static_cast<double>(found.calls) / steps};
  fmt::print("{}\n", nlohmann::json{{"seconds", seconds}, {"kernels", kernels}}.dump());
}

void serve(runtime::Trainer& trainer, const runtime::Batch& batch, int profiled_steps) {
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "profile") {
      answer_profile(trainer, batch, profiled_steps);
    } else {
      answer_step(trainer, batch);
    }
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace rannc

int main(int argc, char** argv) {
  CLI::App app("Trains a bundle on one mini-batch, a step for each line `step` of standard input", "bench-steps");
  std::string bundle, data, optimizer = "adam";
  rannc::runtime::TrainerOptions options;
  std::string device;
  int threads = 1, profiled_steps = 3;
  app.add_option("bundle", bundle, "bundle of rannc-compile")->required();
  app.add_option("--data", data, ".safetensors file with the mini-batch: x/<input> and labels/<name>")->required();
  app.add_option("--optimizer", optimizer, "sgd, adam or adamw");
  app.add_option("--learning-rate", options.optimizer.learning_rate, "");
  app.add_option("--momentum", options.optimizer.momentum, "of sgd");
  rannc::tools::add_device_flag(app, device);
  app.add_flag("!--no-cuda-graphs", options.records_steps, "enqueue each kernel in every step");
  app.add_option("--threads", threads, "threads of a device");
  app.add_option("--profiled-steps", profiled_steps,
                 "steps for a line `profile`, which asks for the time of each kernel");
  CLI11_PARSE(app, argc, argv);
  try {
    rannc::runtime::keep_freed_memory();
    rannc::runtime::set_threads(threads);
    options.optimizer.kind = rannc::runtime::parse_optimizer(optimizer).value();
    const rannc::tools::Hardware hardware = rannc::tools::open_hardware(device).value();
    options.hardware = hardware.all();
    const auto trainer = rannc::runtime::Trainer::open(bundle, options).value();
    rannc::serve(*trainer, rannc::runtime::read_batch(data).value(), profiled_steps);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
}
