/// Trains models for a few steps as rannc-run does, without its processes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/batch.h"
#include "tools/common/scratch.h"
#include "tools/compiler/compiler.h"

namespace rannc::test {

/// A model, and what is fed to it.
struct RunModel {
  std::string name;
  std::string file;      ///< .onnx
  std::string loss;      ///< of `passes::parse_losses`; empty: it is evaluated
  std::string batch;     ///< .safetensors; empty: numbers are drawn
  uint32_t samples = 4;  ///< of the mini-batch
  double learning_rate = 1e-3;
};

/// How it is cut.
struct RunCut {
  std::vector<uint32_t> replicas{1};  ///< per stage
  uint32_t micro_batches = 1;
  bool gloo = false;  ///< every device joins over Gloo; else tensors are handed over
  std::string schedule = {};
  compiler::Recompute recompute = compiler::Recompute::kNever;
  std::string str() const;
};

/// What the steps found.
struct RunNumbers {
  std::vector<double> losses;                          ///< before each step
  std::map<std::string, std::vector<double>> outputs;  ///< of a model without a loss: one evaluation
};

/// Peak bytes of one pass above the memory in use before it.
struct PassMemory {
  std::string pass;  ///< `F1.0`, with the stage and the micro-batch
  int64_t measured = 0, predicted = 0;
};

/// A model after its passes, in float32, to be run under several cuts.
class ModelRuns {
 public:
  /// Imports the model. Throws `rannc::Error` with the diagnostic of what refuses it.
  explicit ModelRuns(RunModel model);

  /// Whether the file leaves its batch open.
  bool has_batch_symbol() const { return !prepared_.graph.batch_symbol().empty(); }
  /// Compiles under the cut and runs `steps` steps of SGD, or one evaluation.
  RunNumbers run(const RunCut& cut, uint32_t steps) const;
  /// Compiles under the cut and measures the passes of a step, in which every device has memory of its own.
  std::vector<PassMemory> memory(const RunCut& cut) const;

 private:
  std::string compile(const RunCut& cut) const;
  RunNumbers work(const std::string& bundle, std::shared_ptr<runtime::Transport> transport, uint32_t steps) const;
  runtime::Batch batch_of(const ir::Plan& plan) const;

  RunModel model_;
  compiler::ReadOptions read_;
  tools::PreparedModel prepared_;
  tools::Scratch scratch_;
};

}  // namespace rannc::test
