// rannc-zoo: writes the models of the papers as ONNX files.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "frontend/zoo/transformer.h"
#include "tools/driver.h"

namespace {

namespace zoo = rannc::frontend::zoo;

struct CommonOptions {
  std::string output;
  uint64_t seed = 0;
  bool without_weights = false;
};

void add_common(CLI::App& command, CommonOptions& options) {
  command.add_option("-o,--output", options.output, "ONNX file to write")->required();
  command.add_option("--seed", options.seed, "seed of the initial weights");
  command.add_flag("--without-weights", options.without_weights,
                   "declare the weights but write none: for planning a model that fits nowhere");
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

void add_gpt(CLI::App& app, CommonOptions& common, zoo::GptConfig& config) {
  CLI::App* command = app.add_subcommand("gpt", "decoder-only language model, byte-level unless --vocabulary says otherwise");
  add_common(*command, common);
  command->add_option("--layers", config.layers, "number of layers")->capture_default_str();
  command->add_option("--width", config.width, "hidden size")->capture_default_str();
  command->add_option("--heads", config.heads, "attention heads")->capture_default_str();
  command->add_option("--context", config.context, "tokens a sample has")->capture_default_str();
  command->add_option("--vocabulary", config.vocabulary, "number of tokens")->capture_default_str();
  command->add_flag("--tied", config.tied, "use the token embedding as output projection");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes the papers' models as ONNX files.", "rannc-zoo");
  app.require_subcommand(1);
  CommonOptions common;
  zoo::GptConfig gpt;
  add_gpt(app, common, gpt);
  return rannc::tools::run_tool(app, argc, argv, [&]() -> rannc::Result<void> {
    return write("gpt", common, gpt, zoo::write_gpt);
  });
}
