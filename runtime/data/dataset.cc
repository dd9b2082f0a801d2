#include "runtime/data/dataset.h"

#include <fmt/format.h>

#include <numeric>

#include "ir/base/replacement.h"
#include "ir/base/split_mix.h"
#include "runtime/data/internal/mapped_batch.h"
#include "runtime/data/sample_file.h"
#include "runtime/data/text_files.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

class FunctionDataset final : public Dataset {
 public:
  FunctionDataset(ReadBatch read, std::string description)
      : read_(std::move(read)), description_(std::move(description)) {}
  Result<Batch> batch(uint64_t step) const override { return read_(step); }
  std::string describe() const override { return description_; }

 private:
  ReadBatch read_;
  std::string description_;
};

class PartOfDataset final : public Dataset {
 public:
  PartOfDataset(std::unique_ptr<const Dataset> source, NeededSamples needed)
      : source_(std::move(source)), needed_(std::move(needed)) {}
  Result<Batch> batch(uint64_t step) const override { return source_->part(step, needed_); }
  std::string describe() const override { return source_->describe(); }
  std::optional<uint64_t> steps_per_epoch() const override { return source_->steps_per_epoch(); }

 private:
  std::unique_ptr<const Dataset> source_;
  NeededSamples needed_;
};

class TextDataset : public Dataset {
 public:
  TextDataset(TextOptions options, std::string text, const TextFiles& files)
      : options_(std::move(options)), text_(std::move(text)), files_(files.paths.size()), skipped_(files.skipped) {}

  Result<Batch> batch(uint64_t step) const override {
    std::vector<uint64_t> samples(options_.samples);
    std::iota(samples.begin(), samples.end(), 0);
    return read(step, samples);
  }
  Result<Batch> part(uint64_t step, const NeededSamples& needed) const override {
    RANNC_ASSIGN(Batch batch, read(step, needed.numbers()));
    std::erase_if(batch, [&](const auto& entry) { return !needed.inputs.contains(entry.first); });
    return batch;
  }

  std::string describe() const override {
    return fmt::format("{:.1f} MB of text from {} files{}", static_cast<double>(text_.size()) / 1e6, files_,
                       skipped_ > 0 ? fmt::format(", without {} that are no text", skipped_) : "");
  }

 private:
  Result<Batch> read(uint64_t step, const std::vector<uint64_t>& samples) const {
    return next_token_batch(options_.inputs, samples.size(), [&](uint64_t i, std::span<int64_t> tokens) {
      const uint64_t random = ir::split_mix(ir::split_mix(options_.seed) ^ (step * options_.samples + samples[i]));
      const uint64_t start = random % (text_.size() - options_.inputs.length);
      for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<unsigned char>(text_[start + i]);
      return Result<void>();
    });
  }

  TextOptions options_;
  std::string text_;
  size_t files_, skipped_;
};

}  // namespace

Result<Batch> Dataset::part(uint64_t, const NeededSamples&) const {
  return error(fmt::format("{} is read in whole mini-batches only", describe()));
}

std::unique_ptr<Dataset> part_of(std::unique_ptr<const Dataset> source, NeededSamples needed) {
  return std::make_unique<PartOfDataset>(std::move(source), std::move(needed));
}

std::unique_ptr<Dataset> make_dataset(ReadBatch read, std::string description) {
  return std::make_unique<FunctionDataset>(std::move(read), std::move(description));
}

Result<std::unique_ptr<Dataset>> open_text(const TextOptions& options) {
  RANNC_ASSIGN(const TextFiles files, find_text_files(options.paths));
  std::string text;
  for (const std::string& path : files.paths) {
    RANNC_ASSIGN(const std::string bytes, read_file(path));
    text += bytes;
  }
  const uint64_t needed = options.inputs.length + 1;
  if (text.size() < needed)
    return error(fmt::format("the training text has {} bytes, one sample needs {}", text.size(), needed));
  return std::unique_ptr<Dataset>(new TextDataset(options, std::move(text), files));
}

Result<Batch> read_batch(const std::string& path) {
  RANNC_ASSIGN(const MappedBatch mapped, map_batch(path));
  Batch batch = mapped.tensors;
  for (auto& [name, value] : batch) value = to_value(to_tensor(value).clone());
  return batch;
}

Result<std::unique_ptr<Dataset>> open_samples(const std::string& path, const ir::Plan& plan,
                                              std::optional<uint64_t> shuffle_seed, const SampleSizes& sizes) {
  RANNC_ASSIGN(SampleFile file, SampleFile::open(path, plan, SampleUse::kTraining, sizes));
  const uint64_t mini_batch = file.mini_batch();
  return mini_batches(std::make_unique<SampleFile>(std::move(file)), mini_batch, shuffle_seed);
}

}  // namespace rannc::runtime
