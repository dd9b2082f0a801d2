// Writes the report of a run of 256 layers on 32 devices with 64 micro-batches, whose times are those of the plan.
#include <cstdio>

#include "ir/base/replacement.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tools/run/run_report.h"

namespace {

constexpr uint32_t kLayers = 256, kDevices = 32, kMicroBatches = 64;

rannc::ir::Plan large_plan() {
  rannc::testing::PlanSpec spec{.micro_batches = std::vector<uint32_t>(kMicroBatches, 1)};
  for (uint32_t device = 1; device < kDevices; ++device) spec.cuts.push_back(device * kLayers / kDevices);
  rannc::ir::Plan plan = rannc::testing::build_plan(rannc::testing::chain(rannc::ir::DType::kF32, kLayers), spec);
  plan.stage_times.clear();
  plan.predictions.clear();
  for (uint32_t s = 0; s < kDevices; ++s) {
    const int64_t forward = 900'000 + 7'000 * static_cast<int64_t>(s);
    plan.stage_times.push_back(
        {.stage = rannc::StageId(s), .samples = 1, .forward_ns = forward, .backward_ns = 2 * forward});
    plan.finish_times.push_back({.stage = rannc::StageId(s), .optimizer_ns = 300'000});
    plan.predictions.push_back({.busy_ns = 64 * 3 * forward, .peak_bytes = 3'000'000'000});
  }
  plan.step_ns = 300'000'000;
  return plan;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const rannc::ir::Plan plan = large_plan();
  const auto planned = rannc::tools::planned_spans(plan).value();
  std::vector<rannc::runtime::ActionRecord> records;
  for (const uint64_t step : {0, 1}) {
    for (const rannc::runtime::PlannedSpan& span : planned) {
      const auto begin = static_cast<int64_t>(step) * 1'000'000'000;
      const auto start = static_cast<int64_t>(span.start_ns), end = static_cast<int64_t>(span.end_ns);
      records.push_back({step, span.device, span.action, begin + start, begin + end, 0, 0});
    }
  }
  rannc::tools::RunFacts facts{.title = "256 layers on 32 devices",
                               .command = "rannc-run large.rannc --data samples.safetensors"};
  for (int step = 0; step < 1000; ++step) facts.losses.push_back(3.0 / (1 + 0.01 * step));
  facts.steps = facts.losses.size();
  facts.seconds = 300;
  facts.samples_per_second = 213;
  facts.transport = "gloo";
  for (uint32_t device = 0; device < kDevices; ++device) facts.held.push_back({device, 1, 2'900'000'000});
  const auto written = rannc::write_file(argv[1], rannc::tools::run_report(plan, facts, records, planned));
  if (written.ok()) return 0;
  std::fprintf(stderr, "%s\n", written.diagnostic().str().c_str());
  return 1;
}
