#include "runtime/train/token_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/train/internal/shards.h"

namespace rannc::runtime {

namespace {

constexpr int64_t kNarrow = int64_t{std::numeric_limits<uint16_t>::max()} + 1;
constexpr uint64_t kExamined = 4096;  // tokens

std::string type_name(uint64_t width) { return fmt::format("uint{}", 8 * width); }

/// Bytes per token.
uint64_t width_of(TokenType type, int64_t vocabulary) {
  switch (type) {
    case TokenType::kUInt8:
      return 1;
    case TokenType::kUInt16:
      return 2;
    case TokenType::kUInt32:
      return 4;
    case TokenType::kOfVocabulary:
      break;
  }
  return vocabulary > kNarrow ? 4 : 2;
}

}  // namespace

Result<std::unique_ptr<TokenFiles>> TokenFiles::open(const std::string& path, TokenType type, const TokenInputs& inputs,
                                                     uint64_t least) {
  std::unique_ptr<TokenFiles> all(new TokenFiles(inputs));
  all->width_ = width_of(type, inputs.vocabulary);
  RANNC_ASSIGN(const std::vector<std::string> paths, shards_of(path, ".bin"));
  for (const std::string& file : paths) RANNC_TRY(all->add(file));
  if (type == TokenType::kOfVocabulary && all->width_ == 2) RANNC_TRY(all->check_type());
  if (all->samples_ < least) {
    return error({path, 0, 0, {}},
                 fmt::format("has {} samples of {} tokens and a label, {}", all->samples_, inputs.length,
                             least == 1 ? "at least one is needed" : fmt::format("one mini-batch needs {}", least)));
  }
  return all;
}

Result<void> TokenFiles::add(const std::string& path) {
  RANNC_ASSIGN(MappedFile bytes, MappedFile::open(path));
  const uint64_t size = bytes.bytes().size();
  if (size % width_ != 0) {
    return error({path, 0, 0, {}}, fmt::format("has {} bytes, which is no multiple of the {} bytes of a {} token", size,
                                               width_, type_name(width_)));
  }
  const uint64_t tokens = size / width_;
  files_.push_back({path, std::move(bytes), tokens, samples_});
  samples_ += (tokens - 1) / inputs_.length;
  return {};
}

// Little-endian uint32 tokens of a small vocabulary are pairs of a uint16 token and 0.
Result<void> TokenFiles::check_type() const {
  const File& file = files_.front();
  const uint64_t examined = std::min(file.tokens, kExamined);
  for (uint64_t position = 1; position < examined; position += 2) {
    if (token(file, position) != 0) return {};
  }
  if (examined < 16 || file.tokens % 2 != 0) return {};
  for (uint64_t position = 0; position < examined; position += 2) {
    if (token(file, position) == 0) continue;
    return error({file.path, 0, 0, {}}, fmt::format("every second uint16 token is 0, as in a file of uint32 tokens"))
        .note("specify the type: uint16 or uint32");
  }
  return {};
}

uint64_t TokenFiles::token(const File& file, uint64_t position) const {
  const char* const from = file.bytes.bytes().data() + position * width_;
  uint32_t value = 0;
  std::memcpy(&value, from, width_);  // little-endian
  return value;
}

Result<void> TokenFiles::read_sample(uint64_t number, std::span<int64_t> tokens) const {
  RANNC_CHECK(number < samples_) << number << " of " << samples_;
  const auto after = std::upper_bound(files_.begin(), files_.end(), number,
                                      [](uint64_t wanted, const File& file) { return wanted < file.first; });
  const File& file = *std::prev(after);
  const uint64_t begin = (number - file.first) * inputs_.length;
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int64_t>(token(file, begin + i));
    if (inputs_.vocabulary == 0 || tokens[i] < inputs_.vocabulary) continue;
    return error({file.path, 0, 0, {}},
                 fmt::format("token {} at position {} is outside of the model's vocabulary of {}, read as {}",
                             tokens[i], begin + i, inputs_.vocabulary, type_name(width_)));
  }
  return {};
}

Result<Batch> TokenFiles::read(std::span<const uint64_t> numbers, const std::set<std::string>& inputs) const {
  const auto tokens_of = [&](uint64_t sample, std::span<int64_t> tokens) {
    return read_sample(numbers[sample], tokens);
  };
  RANNC_ASSIGN(Batch batch, next_token_batch(inputs_, numbers.size(), tokens_of));
  if (!inputs.empty()) std::erase_if(batch, [&](const auto& entry) { return !inputs.contains(entry.first); });
  return batch;
}

std::string TokenFiles::describe() const {
  uint64_t tokens = 0;
  for (const File& file : files_) tokens += file.tokens;
  return fmt::format("{} samples of {} tokens ({} {} tokens in {} file{})", samples_, inputs_.length, tokens,
                     type_name(width_), files_.size(), files_.size() == 1 ? "" : "s");
}

}  // namespace rannc::runtime
