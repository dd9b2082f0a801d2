#include "tools/run/run_data.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "ir/plan/fixed_samples.h"
#include "runtime/data/prefetch.h"
#include "runtime/data/sample_file.h"
#include "runtime/data/token_files.h"
#include "tools/measure/memory_gauge.h"
#include "tools/run/encode_text.h"

namespace rannc::tools {

namespace {

const std::map<std::string, runtime::TokenType> kTokenTypes = {{"", runtime::TokenType::kOfVocabulary},
                                                               {"uint16", runtime::TokenType::kUInt16},
                                                               {"uint32", runtime::TokenType::kUInt32},
                                                               {"int32", runtime::TokenType::kInt32},
                                                               {"int64", runtime::TokenType::kInt64}};

runtime::TokenType type_of(const DataFlags& flags) {
  if (!flags.tokenizer.empty()) return runtime::TokenType::kUInt32;
  if (!flags.text.empty()) return runtime::TokenType::kUInt8;
  return kTokenTypes.at(flags.token_type);
}

Result<runtime::TokenInputs> token_inputs(const DataFlags& flags, const ir::Plan& plan) {
  auto found = runtime::find_token_inputs(plan, flags.sequence);
  if (found.ok()) return found;
  return error(fmt::format("{}: {}; use --data instead", flags.text.empty() ? "--tokens" : "--text",
                           found.diagnostic().message));
}

/// Opens the token files at `path`, with at least `least` samples.
Result<std::unique_ptr<runtime::TokenFiles>> open_tokens(const DataFlags& flags, const std::string& path,
                                                         const ir::Plan& plan, uint64_t least) {
  RANNC_ASSIGN(const runtime::TokenInputs inputs, token_inputs(flags, plan));
  return runtime::TokenFiles::open(path, type_of(flags), inputs, least);
}

/// A data set whose memory is not counted.
class UncountedData final : public runtime::Dataset {
 public:
  explicit UncountedData(std::unique_ptr<const runtime::Dataset> source) : source_(std::move(source)) {}
  Result<runtime::Batch> batch(uint64_t step) const override {
    const MemoryGauge::Uncounted uncounted;
    return source_->batch(step);
  }
  std::string describe() const override { return source_->describe(); }
  std::optional<uint64_t> steps_per_epoch() const override { return source_->steps_per_epoch(); }

 private:
  std::unique_ptr<const runtime::Dataset> source_;
};

Result<std::unique_ptr<runtime::Dataset>> open_source(const DataFlags& flags, const ir::Plan& plan, uint64_t seed) {
  if (!flags.data.empty()) {
    RANNC_ASSIGN(const runtime::SampleSizes sizes, flags.sizes());
    return runtime::open_samples(flags.data, plan, flags.shuffle ? std::optional(seed) : std::nullopt, sizes);
  }
  if (!flags.tokens.empty()) {
    RANNC_ASSIGN(auto files, open_tokens(flags, flags.tokens, plan, plan.mini_batch));
    return runtime::mini_batches(std::move(files), plan.mini_batch, seed);
  }
  if (!flags.tokenizer.empty()) {
    RANNC_ASSIGN(const std::string tokens, encode_text(flags.tokenizer, flags.text));
    RANNC_ASSIGN(auto files, open_tokens(flags, tokens, plan, plan.mini_batch));
    return runtime::mini_batches(std::move(files), plan.mini_batch, seed);
  }
  runtime::TextOptions options{.paths = flags.text, .inputs = {}, .samples = plan.mini_batch, .seed = seed};
  RANNC_ASSIGN(options.inputs, token_inputs(flags, plan));
  return runtime::open_text(options);
}

}  // namespace

Result<runtime::SampleSizes> DataFlags::sizes() const {
  runtime::SampleSizes sizes{.vary = by_length, .multiple = static_cast<int64_t>(pad_multiple), .pads = {}};
  for (const std::string& text : pads) {
    const size_t equal = text.rfind('=');
    const auto number = parse_number(std::string_view(text).substr(std::min(equal + 1, text.size())), NumberRange());
    if (equal == std::string::npos || equal == 0 || !number)
      return error(fmt::format("--pad {}: expected INPUT=NUMBER, such as labels/y=-100", text));
    if (!sizes.pads.emplace(text.substr(0, equal), *number).second)
      return error(fmt::format("--pad {}: {} has two numbers", text, text.substr(0, equal)));
  }
  return sizes;
}

Result<std::unique_ptr<runtime::Dataset>> open_data(const DataFlags& flags, const ir::Plan& plan, uint64_t seed,
                                                    const runtime::NeededSamples& needed,
                                                    runtime::PrepareValue prepare) {
  const MemoryGauge::Uncounted uncounted;
  RANNC_ASSIGN(auto source, open_source(flags, plan, seed));
  source = runtime::part_of(std::move(source), needed);
  return runtime::prefetched(std::make_unique<UncountedData>(std::move(source)), std::move(prepare));
}

Result<std::unique_ptr<runtime::Samples>> open_validation(const DataFlags& flags, const ir::Plan& plan) {
  if (!flags.data.empty()) {
    RANNC_ASSIGN(const runtime::SampleSizes sizes, flags.sizes());
    RANNC_ASSIGN(auto file, runtime::SampleFile::open(flags.validate, plan, runtime::SampleUse::kValidation, sizes));
    return std::unique_ptr<runtime::Samples>(new runtime::SampleFile(std::move(file)));
  }
  std::error_code ignored;
  if (!flags.text.empty() && std::filesystem::is_directory(flags.validate, ignored))
    return error({flags.validate, 0, 0, {}}, "is a folder; with --text, --validate requires a file of text");
  const bool fixed = ir::samples_symbol(plan.graph).empty();  // only whole mini-batches can be evaluated
  std::string path = flags.validate;
  if (!flags.tokenizer.empty()) {
    RANNC_ASSIGN(path, encode_text(flags.tokenizer, {flags.validate}));
  }
  RANNC_ASSIGN(auto files, open_tokens(flags, path, plan, fixed ? plan.mini_batch : 1));
  return std::unique_ptr<runtime::Samples>(std::move(files));
}

uint64_t tokens_per_step(const DataFlags& flags, const ir::Plan& plan) {
  if (flags.by_length) return 0;  // each mini-batch has its own
  const uint64_t planned = runtime::planned_length(plan);
  return plan.mini_batch * (planned == 0 ? 0 : flags.sequence.value_or(planned));
}

}  // namespace rannc::tools
