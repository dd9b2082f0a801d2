#include "runtime/data/token_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "runtime/data/internal/shards.h"
#include "runtime/data/internal/token_array.h"

namespace rannc::runtime {

namespace {

constexpr int64_t kNarrow = int64_t{std::numeric_limits<uint16_t>::max()} + 1;

ir::DType dtype_of(TokenType type, int64_t vocabulary) {
  switch (type) {
    case TokenType::kUInt8:
      return ir::DType::kU8;
    case TokenType::kUInt16:
      return ir::DType::kU16;
    case TokenType::kUInt32:
      return ir::DType::kU32;
    case TokenType::kInt32:
      return ir::DType::kI32;
    case TokenType::kInt64:
      return ir::DType::kI64;
    case TokenType::kOfVocabulary:
      break;
  }
  return vocabulary > kNarrow ? ir::DType::kU32 : ir::DType::kU16;
}

template <class Number>
void decode_as(const char* from, std::span<int64_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    Number number{};
    std::memcpy(&number, from + i * sizeof(Number), sizeof(Number));  // little-endian
    tokens[i] = static_cast<int64_t>(number);
  }
}

/// Reads consecutive integers of this type. Those above 2^63-1 become negative.
void decode(ir::DType type, const char* from, std::span<int64_t> tokens) {
  switch (type) {
    case ir::DType::kI8:
      return decode_as<int8_t>(from, tokens);
    case ir::DType::kI16:
      return decode_as<int16_t>(from, tokens);
    case ir::DType::kI32:
      return decode_as<int32_t>(from, tokens);
    case ir::DType::kI64:
    case ir::DType::kU64:
      return decode_as<int64_t>(from, tokens);
    case ir::DType::kU8:
      return decode_as<uint8_t>(from, tokens);
    case ir::DType::kU16:
      return decode_as<uint16_t>(from, tokens);
    case ir::DType::kU32:
      return decode_as<uint32_t>(from, tokens);
    default:
      RANNC_CHECK(false) << "tokens are integers";
  }
}

}  // namespace

struct TokenFiles::File {
  TokenArray array;
  uint64_t first = 0;  ///< number of its first sample
};

TokenFiles::TokenFiles(TokenInputs inputs) : inputs_(std::move(inputs)) {}
TokenFiles::~TokenFiles() = default;

Result<std::unique_ptr<TokenFiles>> TokenFiles::open(const std::string& path, TokenType type, const TokenInputs& inputs,
                                                     uint64_t least) {
  std::unique_ptr<TokenFiles> all(new TokenFiles(inputs));
  const RawTokens raw{.type = dtype_of(type, inputs.vocabulary),
                      .explicit_type = type != TokenType::kOfVocabulary,
                      .as_text = type == TokenType::kUInt8};
  RANNC_ASSIGN(const std::vector<std::string> paths, shards_of(path, {".bin", ".npy", ".safetensors"}));
  for (const std::string& file : paths) {
    RANNC_ASSIGN(TokenArray array, open_token_array(file, raw));
    all->add(std::move(array));
  }
  if (all->samples_ < least) {
    return error({path, 0, 0, {}},
                 fmt::format("has {} samples of {} tokens and a label, {}", all->samples_, inputs.length,
                             least == 1 ? "at least one is needed" : fmt::format("one mini-batch needs {}", least)));
  }
  return all;
}

void TokenFiles::add(TokenArray array) {
  const uint64_t samples = (array.tokens - 1) / inputs_.length;
  files_.push_back({std::move(array), samples_});
  samples_ += samples;
}

Result<void> TokenFiles::read_sample(uint64_t number, std::span<int64_t> tokens) const {
  RANNC_CHECK(number < samples_) << number << " of " << samples_;
  const auto after = std::upper_bound(files_.begin(), files_.end(), number,
                                      [](uint64_t wanted, const File& file) { return wanted < file.first; });
  const File& file = *std::prev(after);
  const TokenArray& array = file.array;
  RANNC_TRY(array.file.check());
  const uint64_t begin = (number - file.first) * inputs_.length;
  decode(array.type, array.file.bytes().data() + array.offset + begin * ir::byte_size(array.type), tokens);
  const auto valid = [this](int64_t token) {
    return token >= 0 && (inputs_.vocabulary == 0 || token < inputs_.vocabulary);
  };
  const auto bad = std::find_if_not(tokens.begin(), tokens.end(), valid);
  if (bad == tokens.end()) return {};
  const bool negative = *bad < 0 && array.type != ir::DType::kU64;
  return error(
      {array.path, 0, 0, {}},
      fmt::format("token {} at position {} is {}, read as {}",
                  negative ? fmt::format("{}", *bad) : fmt::format("{}", static_cast<uint64_t>(*bad)),
                  begin + static_cast<uint64_t>(bad - tokens.begin()),
                  negative ? "negative" : fmt::format("outside of the model's vocabulary of {}", inputs_.vocabulary),
                  type_name(array.type)));
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
  std::set<std::string> types;
  std::set<std::string_view> formats;
  for (const File& file : files_) {
    tokens += file.array.tokens;
    types.insert(type_name(file.array.type));
    formats.insert(file.array.format);
  }
  const std::string_view format = formats.size() == 1 ? *formats.begin() : std::string_view();
  return fmt::format("{} samples of {} tokens ({} {} tokens in {} {}{}file{})", samples_, inputs_.length, tokens,
                     fmt::join(types, " and "), files_.size(), format, format.empty() ? "" : " ",
                     files_.size() == 1 ? "" : "s");
}

}  // namespace rannc::runtime
