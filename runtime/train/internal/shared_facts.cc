#include "runtime/train/internal/shared_facts.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rannc::runtime {

namespace {

// No name or value contains these.
constexpr char kBetween = '\t', kEnd = '\n';

std::string on_or_off(bool on) { return on ? "on" : "off"; }

std::string_view name_of(at::Float32Precision precision) {
  switch (precision) {
    case at::Float32Precision::NONE:
    case at::Float32Precision::IEEE:
      return "ieee";  // of a setting that nobody made, too
    case at::Float32Precision::TF32:
      return "tf32";
    case at::Float32Precision::BF16:
      return "bf16";
  }
  return "unknown";
}

/// Of products, convolutions and recurrent layers.
std::string precisions(at::Float32Backend backend) {
  const at::Context& context = at::globalContext();
  return fmt::format("{} {} {}", name_of(context.float32Precision(backend, at::Float32Op::MATMUL)),
                     name_of(context.float32Precision(backend, at::Float32Op::CONV)),
                     name_of(context.float32Precision(backend, at::Float32Op::RNN)));
}

}  // namespace

SharedFacts shared_facts(const Bundle& bundle, const TrainerOptions& options) {
  const OptimizerOptions& optimizer = options.optimizer;
  std::vector<std::string> groups;
  for (const ir::ParameterGroup& group : optimizer.grouping.groups) groups.push_back(str(group));
  if (optimizer.grouping.no_decay) groups.emplace_back("no decay");
  if (optimizer.grouping.no_decay_embeddings) groups.emplace_back("no decay of embeddings");
  SharedFacts facts = {
      {"optimizer", std::string(str(optimizer.kind))},
      {"learning rate", fmt::format("{}", optimizer.learning_rate)},
      {"momentum", fmt::format("{}{}", optimizer.momentum, optimizer.nesterov ? " of Nesterov" : "")},
      {"weight decay", fmt::format("{}", optimizer.weight_decay)},
      {"betas and epsilon", fmt::format("{} {} {}{}", optimizer.beta1, optimizer.beta2, optimizer.epsilon,
                                        optimizer.amsgrad ? ", amsgrad" : "")},
      {"muon rate", optimizer.match_rms_adamw ? "of adamw" : "original"},
      {"groups", fmt::format("[{}]", fmt::join(groups, "] ["))},
      {"average of weight", fmt::format("{}", optimizer.grouping.average)},
      {"warm-up steps", fmt::format("{}", optimizer.warmup_steps)},
      {"decay steps", fmt::format("{} from {} to {}, {}", optimizer.decay_steps, optimizer.decay_from,
                                  optimizer.decay_to, str(optimizer.decay))},
      {"clip norm", fmt::format("{}", options.clip_norm)},
      {"seed", fmt::format("{}", options.seed)},
      {"loss scale", fmt::format("{}", options.loss_scale)},
  };
  // Programs may be compiled on each host. Weights and plan are those of one compilation.
  for (const BundleFile& file : bundle.files) {
    if (file.name.ends_with(".rir") || file.name.ends_with(".safetensors"))
      facts.emplace("the bundle's " + file.name + " of digest", file.digest);
  }
  return facts;
}

SharedFacts process_facts(ir::DeviceType hardware) {
  const at::Context& context = at::globalContext();
  SharedFacts facts = {
      {"LibTorch's threads per operator", fmt::format("{}", at::get_num_threads())},
      {"LibTorch's deterministic algorithms", on_or_off(context.deterministicAlgorithms())},
  };
  if (hardware == ir::DeviceType::kCuda) {
    facts.insert({
        {"LibTorch's float32 precision of GPUs", precisions(at::Float32Backend::CUDA)},
        {"LibTorch's cuDNN", on_or_off(context.userEnabledCuDNN())},
        {"LibTorch's deterministic cuDNN", on_or_off(context.deterministicCuDNN())},
        {"LibTorch's benchmarks of cuDNN", on_or_off(context.benchmarkCuDNN())},
        {"LibTorch's 16-bit sums of cuBLAS",
         fmt::format("{} {} {}", static_cast<int>(context.allowFP16ReductionCuBLAS()),
                     static_cast<int>(context.allowBF16ReductionCuBLAS()), context.allowFP16AccumulationCuBLAS())},
    });
    return facts;
  }
  facts.insert({
      {"LibTorch's float32 precision of oneDNN", precisions(at::Float32Backend::MKLDNN)},
      {"LibTorch's oneDNN", on_or_off(context.userEnabledMkldnn())},
      {"LibTorch's deterministic oneDNN", on_or_off(context.deterministicMkldnn())},
      {"LibTorch's NNPACK", on_or_off(context.userEnabledNNPACK())},
      {"LibTorch's 16-bit sums of processors", on_or_off(context.allowFP16ReductionCPU())},
  });
  return facts;
}

std::string to_text(const SharedFacts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + kBetween + value + kEnd;
  return text;
}

Result<void> FactComparison::add(uint32_t process, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const size_t between = text.find(kBetween, at), end = text.find(kEnd, between);
    const std::string name = text.substr(at, between - at), value = text.substr(between + 1, end - between - 1);
    const auto [known, is_new] = known_.try_emplace(name, process, value);
    if (!is_new && known->second.second != value) {
      return error(
          fmt::format("worker {} has {} {}, worker {} has {}; all workers of a run need the same bundle and options",
                      known->second.first, name, known->second.second, process, value));
    }
    at = end + 1;
  }
  return {};
}

}  // namespace rannc::runtime
