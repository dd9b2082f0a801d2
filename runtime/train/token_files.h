/// Samples of raw token files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/mapped_file.h"
#include "runtime/train/samples.h"

namespace rannc::runtime {

enum class TokenType : uint8_t {
  kOfVocabulary,  ///< the narrowest type that can hold the model's vocabulary
  kUInt8,         ///< bytes of text
  kUInt16,
  kUInt32,
};

/// Token files without a header, little-endian and memory-mapped. Sample i of a file has the tokens
/// [i * length, (i + 1) * length], so that neighbours share one token and each token except the first is predicted
/// once. No sample crosses the end of a file. The tokens of a file after its last whole sample are dropped.
class TokenFiles final : public Samples {
 public:
  /// Opens a file, or the files `*.bin` of a folder in the order of their names. Errors name the path:
  /// - no such file, or a folder without such files;
  /// - an empty file, or one whose size is no multiple of the type's;
  /// - a type that was selected by the vocabulary and that the first tokens do not confirm: every second one is 0;
  /// - fewer samples than `least`.
  static Result<std::unique_ptr<TokenFiles>> open(const std::string& path, TokenType type, const TokenInputs& inputs,
                                                  uint64_t least = 1);

  uint64_t samples() const override { return samples_; }
  /// An error names the file, the token and its position if the token is outside the vocabulary.
  Result<Batch> read(std::span<const uint64_t> numbers, const std::set<std::string>& inputs) const override;
  using Samples::read;
  std::string describe() const override;

 private:
  struct File {
    std::string path;
    MappedFile bytes;
    uint64_t tokens = 0;
    uint64_t first = 0;  ///< number of its first sample
  };
  explicit TokenFiles(TokenInputs inputs) : inputs_(std::move(inputs)) {}
  Result<void> add(const std::string& path);
  Result<void> check_type() const;
  uint64_t token(const File& file, uint64_t position) const;
  Result<void> read_sample(uint64_t number, std::span<int64_t> tokens) const;

  TokenInputs inputs_;
  uint64_t width_ = 2;  ///< bytes per token
  std::vector<File> files_;
  uint64_t samples_ = 0;
};

}  // namespace rannc::runtime
