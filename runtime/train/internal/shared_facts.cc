#include "runtime/train/internal/shared_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rannc::runtime {

namespace {

// No name or value contains these.
constexpr char kBetween = '\t', kEnd = '\n';

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
      {"bucket size", fmt::format("{}", options.bucket_bytes)},
  };
  // Programs may be compiled on each host. Weights and plan are those of one compilation.
  for (const BundleFile& file : bundle.files) {
    if (file.name.ends_with(".rir") || file.name.ends_with(".safetensors"))
      facts.emplace("the bundle's " + file.name + " of digest", file.digest);
  }
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
