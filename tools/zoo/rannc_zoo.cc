// rannc-zoo: writes the models of the papers as ONNX files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

#include "frontend/zoo/amoebanet.h"
#include "frontend/zoo/bert.h"
#include "frontend/zoo/gnmt.h"
#include "frontend/zoo/resnet.h"
#include "frontend/zoo/transformer.h"
#include "frontend/zoo/unet.h"
#include "frontend/zoo/vgg.h"
#include "frontend/zoo/xlnet.h"
#include "tools/common/driver.h"
#include "tools/common/number_checks.h"
#include "tools/common/programs.h"

namespace {

namespace zoo = rannc::frontend::zoo;

struct CommonOptions {
  std::string output;
  uint64_t seed = 0;
  bool without_weights = false;
};

void add_common(CLI::App& command, CommonOptions& options) {
  command.add_option("-o,--output", options.output, "ONNX file to write")->required();
  command.add_option("--seed", options.seed, "seed of the initial weights")
      ->transform(rannc::tools::whole_number(0, UINT64_MAX));
  command.add_flag("--without-weights", options.without_weights,
                   "declare the weights without writing them, to plan models that are too large to store");
}

template <class Config>
rannc::Result<void> write(const std::string& name, const CommonOptions& options, const Config& config,
                          rannc::Result<void> (*build)(zoo::OnnxWriter&, const Config&)) {
  zoo::WriterOptions writer_options;
  writer_options.seed = options.seed;
  writer_options.weights = options.without_weights ? zoo::Weights::kAbsent : zoo::Weights::kStored;
  zoo::OnnxWriter writer(name, writer_options);
  RANNC_TRY(build(writer, config));
  RANNC_TRY(writer.save(options.output));
  fmt::print("{}: {} with {} parameters{}\n", options.output, name, writer.parameters(),
             options.without_weights ? ", weights not stored" : "");
  return {};
}

/// The model to write after the command line is parsed.
using Job = std::function<rannc::Result<void>()>;

/// Adds a subcommand. `flags` adds the flags of its `Config`; `build` writes the model.
template <class Config>
void add_model(CLI::App& app, CommonOptions& common, Job& job, const std::string& name, const std::string& what,
               rannc::Result<void> (*build)(zoo::OnnxWriter&, const Config&), void (*flags)(CLI::App&, Config&)) {
  CLI::App* command = app.add_subcommand(name, what);
  add_common(*command, common);
  const auto config = std::make_shared<Config>();
  flags(*command, *config);
  command->callback([&common, &job, name, config, build] {
    job = [&common, name, config, build] { return write(name, common, *config, build); };
  });
}

void size(CLI::App& command, const std::string& flag, int64_t& value, const std::string& what, uint64_t least = 1) {
  command.add_option(flag, value, what)->transform(rannc::tools::whole_number(least, 1U << 24))->capture_default_str();
}

void gpt_flags(CLI::App& command, zoo::GptConfig& config) {
  size(command, "--layers", config.layers, "number of layers");
  size(command, "--width", config.width, "hidden size");
  size(command, "--heads", config.heads, "attention heads");
  size(command, "--context", config.context, "tokens per sample");
  size(command, "--vocabulary", config.vocabulary, "number of tokens");
  command.add_flag("--tied", config.tied, "use the token embedding as output projection");
}

void bert_flags(CLI::App& command, zoo::BertConfig& config) {
  size(command, "--layers", config.layers, "number of layers");
  size(command, "--width", config.width, "hidden size");
  size(command, "--heads", config.heads, "attention heads; 0: one per 64 of the width", 0);
  size(command, "--sequence", config.sequence, "tokens per sample");
  size(command, "--vocabulary", config.vocabulary, "number of tokens");
  command.add_flag("--unfused", config.unfused, "write normalization, GELU and softmax as primitive operators");
  command.add_flag("--untied", config.untied, "give the masked-language head a projection of its own");
  command.add_option("--dropout", config.dropout, "dropout ratio in training")
      ->transform(rannc::tools::in_range(rannc::NumberRange{0, 1}))
      ->capture_default_str();
}

void resnet_flags(CLI::App& command, zoo::ResNetConfig& config) {
  size(command, "--depth", config.depth, "50, 101 or 152");
  size(command, "--width", config.width, "multiplier of all filter counts");
  size(command, "--image", config.image, "height and width of an image");
  size(command, "--classes", config.classes, "number of classes");
  size(command, "--base", config.base, "channels of the stem before multiplication");
}

void vgg_flags(CLI::App& command, zoo::VggConfig& config) {
  size(command, "--image", config.image, "height and width of an image");
  size(command, "--classes", config.classes, "number of classes");
  size(command, "--base", config.base, "channels of the first group");
  size(command, "--hidden", config.hidden, "width of the dense layers");
}

void unet_flags(CLI::App& command, zoo::UNetConfig& config) {
  size(command, "--blocks", config.blocks, "B: convolutions per level");
  size(command, "--channels", config.channels, "C: channels after the first convolution");
  size(command, "--image", config.image, "height and width of an image");
  command.add_flag("--relay-skips", config.relay_skips, "skips pass through every level between their ends");
}

void amoebanet_flags(CLI::App& command, zoo::AmoebaNetConfig& config) {
  size(command, "--layers", config.layers, "L: normal cells");
  size(command, "--filters", config.filters, "D");
  size(command, "--image", config.image, "height and width of an image");
  size(command, "--classes", config.classes, "number of classes");
}

void xlnet_flags(CLI::App& command, zoo::XlnetConfig& config) {
  size(command, "--layers", config.layers, "number of layers");
  size(command, "--width", config.width, "hidden size");
  size(command, "--heads", config.heads, "attention heads; 0: one per 64 of the width", 0);
  size(command, "--sequence", config.sequence, "tokens per sample");
  size(command, "--vocabulary", config.vocabulary, "number of tokens");
}

void gnmt_flags(CLI::App& command, zoo::GnmtConfig& config) {
  size(command, "--layers", config.layers, "LSTM layers of the encoder, and of the decoder");
  size(command, "--width", config.width, "hidden size");
  size(command, "--sequence", config.sequence, "tokens on each side");
  size(command, "--vocabulary", config.vocabulary, "number of tokens");
}

}  // namespace

int rannc::tools::zoo_main(int argc, char** argv) {
  CLI::App app("Writes the papers' models as ONNX files.", "rannc-zoo");
  app.require_subcommand(1);
  CommonOptions common;
  Job job;
  add_model<zoo::GptConfig>(app, common, job, "gpt", "decoder-only language model, byte-level by default",
                            zoo::write_gpt, gpt_flags);
  add_model<zoo::BertConfig>(app, common, job, "bert", "BERT with both pre-training heads (RaNNC)", zoo::write_bert,
                             bert_flags);
  add_model<zoo::ResNetConfig>(app, common, job, "resnet", "ResNet with a width factor (RaNNC)", zoo::write_resnet,
                               resnet_flags);
  add_model<zoo::VggConfig>(app, common, job, "vgg", "VGG-19 (DAPPLE)", zoo::write_vgg, vgg_flags);
  add_model<zoo::UNetConfig>(app, common, job, "unet", "U-Net (B, C) (torchgpipe)", zoo::write_unet, unet_flags);
  add_model<zoo::AmoebaNetConfig>(app, common, job, "amoebanet", "AmoebaNet-D (L, D) (GPipe, torchgpipe, DAPPLE)",
                                  zoo::write_amoebanet, amoebanet_flags);
  add_model<zoo::GnmtConfig>(app, common, job, "gnmt", "GNMT (DAPPLE)", zoo::write_gnmt, gnmt_flags);
  add_model<zoo::XlnetConfig>(app, common, job, "xlnet", "XLNet fine-tuned for question answering (DAPPLE)",
                              zoo::write_xlnet, xlnet_flags);
  return rannc::tools::run_tool(app, argc, argv, [&job] { return job(); });
}
