#include "runtime/train/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/base/split_mix.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/internal/mapped_batch.h"
#include "runtime/train/sample_file.h"

namespace rannc::runtime {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestTextFile = uint64_t{1} << 26;

// Files under a folder, sorted by name. Skips hidden entries and `build`, which are not text of the user.
void collect(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::path> entries;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (name.starts_with(".") || name == "build" || fs::is_symlink(entry)) continue;
    if (fs::is_directory(entry)) {
      collect(entry, files);
    } else if (fs::is_regular_file(entry)) {
      files.push_back(entry);
    }
  }
}

bool is_text(const std::string& bytes) { return bytes.find('\0') == std::string::npos; }

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

class TextDataset : public Dataset {
 public:
  TextDataset(TextOptions options, std::string text, size_t files)
      : options_(std::move(options)), text_(std::move(text)), files_(files) {}

  Result<Batch> batch(uint64_t step) const override {
    return next_token_batch(options_.inputs, options_.samples, [&](uint64_t sample, std::span<int64_t> tokens) {
      const uint64_t draw = ir::split_mix(ir::split_mix(options_.seed) ^ (step * options_.samples + sample));
      const uint64_t start = draw % (text_.size() - options_.inputs.length);
      for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<unsigned char>(text_[start + i]);
      return Result<void>();
    });
  }

  std::string describe() const override {
    return fmt::format("{:.1f} MB of text from {} files", static_cast<double>(text_.size()) / 1e6, files_);
  }

 private:
  TextOptions options_;
  std::string text_;
  size_t files_;
};

}  // namespace

std::unique_ptr<Dataset> make_dataset(ReadBatch read, std::string description) {
  return std::make_unique<FunctionDataset>(std::move(read), std::move(description));
}

Result<std::unique_ptr<Dataset>> open_text(const TextOptions& options) {
  std::vector<fs::path> files;
  for (const std::string& path : options.paths) {
    std::error_code failed;
    const auto status = fs::status(path, failed);
    if (failed || !fs::exists(status))
      return error({path, 0, 0, {}}, "cannot be read as training text: there is no such file or folder");
    if (fs::is_directory(status)) {
      collect(path, files);
    } else {
      files.emplace_back(path);
    }
  }
  std::string text;
  size_t used = 0;
  for (const fs::path& path : files) {
    std::error_code failed;
    const uint64_t size = fs::file_size(path, failed);
    if (failed || size > kLargestTextFile) continue;
    std::ifstream file(path, std::ios::binary);
    if (!file) return error({path.string(), 0, 0, {}}, "cannot be opened");
    std::ostringstream bytes;
    bytes << file.rdbuf();
    if (!is_text(bytes.str())) continue;
    text += bytes.str();
    ++used;
  }
  const uint64_t needed = options.inputs.length + 1;
  if (text.size() < needed)
    return error(fmt::format("the training text has {} bytes, one sample needs {}", text.size(), needed));
  return std::unique_ptr<Dataset>(new TextDataset(options, std::move(text), used));
}

Result<Batch> read_batch(const std::string& path) {
  RANNC_ASSIGN(Batch batch, map_batch(path));
  for (auto& [name, value] : batch) value = to_value(to_tensor(value).clone());
  return batch;
}

Result<std::unique_ptr<Dataset>> open_samples(const std::string& path, const ir::Plan& plan,
                                              std::optional<uint64_t> shuffle_seed) {
  RANNC_ASSIGN(SampleFile file, SampleFile::open(path, plan, SampleUse::kTraining));
  const uint64_t mini_batch = file.mini_batch();
  return mini_batches(std::make_unique<SampleFile>(std::move(file)), mini_batch, shuffle_seed);
}

}  // namespace rannc::runtime
