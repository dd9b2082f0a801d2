// A program that compiles a model file for training and shows the plan.
//
//   compile model.onnx "cross_entropy(output=logits,labels=y)" local:2 model.rannc
//
// The bundle can then be trained, by `rannc-run model.rannc` or by a program on `rannc::runtime`.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "rannc/compiler.h"

namespace compiler = rannc::compiler;

// Shows what the compiler does meanwhile, each on a line of standard error.
compiler::Progress progress() {
  compiler::Progress progress;
  progress.phase = [](compiler::Phase phase) {
    const char* const names[] = {"reading the model", "pricing its tasks", "searching for a plan", "measuring the plan",
                                 "writing the bundle"};
    std::fprintf(stderr, "%s\n", names[static_cast<int>(phase)]);
  };
  progress.remark = [](const std::string& text) { std::fprintf(stderr, "remark: %s\n", text.c_str()); };
  return progress;
}

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }
double mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void show(const compiler::PlanFacts& plan) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const compiler::StageFacts& stage = plan.stages[s];
    std::printf("stage %zu on %s: %s ... %s; forward %.3f ms, backward %.3f ms; %.1f of %.1f MiB\n", s,
                stage.devices.front().c_str(), stage.first_task.c_str(), stage.last_task.c_str(), ms(stage.forward_ns),
                ms(stage.backward_ns), mib(stage.peak_bytes), mib(stage.memory_bytes));
  }
  std::printf("step %.3f ms, %s; %lu micro-batches, schedule %s\n", ms(plan.step_ns),
              plan.measured ? "measured" : "simulated", static_cast<unsigned long>(plan.micro_batches),
              plan.schedule.c_str());
  if (plan.gap) std::printf("gap to the lower bound (%s): %.2f %%\n", plan.bound_name.c_str(), *plan.gap * 100);
  for (const std::string& warning : plan.warnings) std::printf("warning: %s\n", warning.c_str());
}

void compile(const std::string& file, const std::string& loss, const std::string& cluster, const std::string& bundle) {
  const compiler::Model model = compiler::read(file, {.loss = loss, .mini_batch = 32}, progress()).value();
  std::printf("%s", model.report().c_str());

  compiler::PlanOptions options;
  options.cluster = cluster;
  options.stages = 2;  // a pipeline, even where one device would be faster
  options.optimizer = compiler::Optimizer::kSgd;
  options.momentum = 0.9;
  const compiler::Plan plan = compiler::plan(model, options, progress()).value();
  show(plan.facts());

  compiler::write(plan, bundle, {.replace = true}, progress()).value();
}

int main(int argc, char** argv) {
  if (argc != 5) return std::fputs("usage: compile MODEL LOSS CLUSTER BUNDLE\n", stderr), 2;
  try {
    compiler::keep_freed_memory();
    compile(argv[1], argv[2], argv[3], argv[4]);
  } catch (const rannc::Error& failure) {
    return std::fprintf(stderr, "%s\n", failure.what()), 1;
  }
}
