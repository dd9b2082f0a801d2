// Loops over codegen/native/vector.h beside LibTorch's operators, on one thread.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "tests/codegen/native/speed_cases.h"
#include "tests/codegen/native/variants.h"

namespace {

namespace native = rannc::native_kernels;
using Run = std::function<void()>;

double seconds(const Run& run, int repeats) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats;
}

/// Prints nanoseconds per number: the medians of rounds in which the programs take turns.
void measure(const native::SpeedCase& one, const std::vector<const native::Kernels*>& variants, std::int64_t count,
             int rounds) {
  std::vector<Run> runs{one.library};
  for (const native::Kernels* variant : variants) runs.push_back([&one, variant] { one.loop(*variant); });
  const int repeats = std::max(1, static_cast<int>(2e-3 / std::max(1e-9, seconds(runs[0], 3))));
  std::vector<std::vector<double>> times(runs.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < runs.size(); ++i) times[i].push_back(seconds(runs[i], repeats) * 1e9 / count);
  std::vector<double> medians;
  for (std::vector<double>& of_run : times) {
    std::nth_element(of_run.begin(), of_run.begin() + rounds / 2, of_run.end());
    medians.push_back(of_run[rounds / 2]);
  }
  fmt::print("{:<16}{:>10.3f}", one.name, medians[0]);
  for (std::size_t i = 1; i < medians.size(); ++i) fmt::print("{:>10.3f}{:>8.2f}", medians[i], medians[0] / medians[i]);
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Vector loops beside LibTorch's operators: nanoseconds per number on one thread."};
  std::int64_t rows = 64, columns = 768;
  int rounds = 21;
  app.add_option("--rows", rows, "rows of the input");
  app.add_option("--columns", columns, "columns of the input, a multiple of 16")->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "rounds, of which the median is taken")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const std::vector<const native::Kernels*> variants = native::usable_variants();
  fmt::print("{:<16}{:>10}", "operator", "LibTorch");
  for (const native::Kernels* variant : variants) fmt::print("{:>10}{:>8}", variant->variant, "ratio");
  fmt::print("\n");
  for (const native::SpeedCase& one : native::speed_cases(rows, columns))
    measure(one, variants, rows * columns, rounds);
}
