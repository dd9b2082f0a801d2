// A training program on rannc's runtime with its own data, training loop and learning rate.
//
//   rannc-compile tests/data/small_mlp/model.onnx -o mlp.rannc --cluster local:2 --stages 2 --mini-batch 32 \
//     --loss "cross_entropy(output=logits,labels=y)" --optimizer sgd
//   train mlp.rannc out 400                                               # all stages, as threads of one process
//   torchrun --no-python --nproc-per-node 2 train mlp.rannc out 400       # one process per stage
//   train mlp.rannc out 400 data.safetensors                              # with a file of samples
//
// Restarted with more steps, it continues from the checkpoint in `out`, under any plan of the same model.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/data/dataset.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transport_gloo.h"

namespace runtime = rannc::runtime;

// Points in 12 dimensions, labelled by the largest of 7 fixed projections. They depend only on the step, so that a
// resumed run sees the same data as an uninterrupted one. A worker uses the samples and inputs that its stage reads.
runtime::Batch points(uint64_t seed, int64_t count) {
  static const at::Tensor projections = at::randn({12, 7}, at::detail::createCPUGenerator(1));
  const at::Tensor x = at::randn({count, 12}, at::detail::createCPUGenerator(2 + seed));
  return {{"x", runtime::to_value(x)}, {"labels/y", runtime::to_value(x.matmul(projections).argmax(1))}};
}

// Opens one worker if torchrun's environment variables are set, otherwise all devices of the plan in this process.
std::unique_ptr<runtime::Trainer> open(const std::string& bundle, const runtime::TrainerOptions& options) {
  const char* const workers = std::getenv("WORLD_SIZE");
  if (workers == nullptr) return runtime::Trainer::open(bundle, options).value();
  runtime::Rendezvous meeting;
  meeting.host = std::getenv("MASTER_ADDR");
  meeting.port = static_cast<uint16_t>(std::atoi(std::getenv("MASTER_PORT")));
  meeting.rank = static_cast<uint32_t>(std::atoi(std::getenv("RANK")));
  meeting.workers = static_cast<uint32_t>(std::atoi(workers));
  if (const char* const secret = std::getenv("RANNC_SECRET")) meeting.secret = secret;  // needed on several hosts
  return runtime::Trainer::open_worker(bundle, options, runtime::join_gloo(meeting).value()).value();
}

// Samples of a file, split along the axes specified by the model; points if there is no file.
class Samples {
 public:
  Samples(const std::string& file, const rannc::ir::Plan& plan) : mini_batch_(plan.mini_batch) {
    if (!file.empty()) file_ = runtime::open_samples(file, plan).value();
  }
  runtime::Batch of(uint64_t step) const { return file_ ? file_->batch(step).value() : points(step, mini_batch_); }

 private:
  int64_t mini_batch_;
  std::unique_ptr<runtime::Dataset> file_;
};

void train(const std::string& bundle, const std::string& folder, uint64_t steps, const std::string& file) {
  runtime::TrainerOptions options;
  options.optimizer.momentum = 0.9;
  options.clip_norm = 1;
  const auto trainer = open(bundle, options);
  const char* const rank = std::getenv("RANK");
  const bool leads = rank == nullptr || std::atoi(rank) == 0;

  const std::string latest = runtime::latest_checkpoint(folder);
  if (!latest.empty()) trainer->load(latest).value();
  const Samples samples(file, trainer->plan());
  for (uint64_t step = trainer->steps_done(); step < steps; step = trainer->steps_done()) {
    trainer->set_learning_rate(step < 200 ? 0.1 : 0.02);
    const double loss = trainer->step(samples.of(step)).value().loss;
    if (leads && step % 50 == 0) std::printf("step %lu loss %.9g\n", static_cast<unsigned long>(step), loss);
  }
  // Evaluates on points that no step has seen: their seeds follow those of the steps. Files start over.
  const double loss = trainer->evaluate(samples.of(1U << 30)).value().loss;
  if (leads) std::printf("after %lu steps, on new points: loss %.9g\n", static_cast<unsigned long>(steps), loss);
  trainer->save(folder + "/step-" + std::to_string(steps)).value();
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return std::fputs("usage: train BUNDLE FOLDER STEPS [DATA]\n", stderr), 2;
  try {
    train(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10), argc > 4 ? argv[4] : "");
  } catch (const std::exception& failure) {
    return std::fprintf(stderr, "%s\n", failure.what()), 1;
  }
}
