/// Samples of token files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/samples.h"

namespace rannc::runtime {

struct TokenArray;

/// Type of the tokens of a file without a header. A file that specifies another type is an error.
enum class TokenType : uint8_t {
  kOfVocabulary,  ///< `uint16` if it can hold the model's vocabulary, else `uint32`; not checked against headers
  kUInt8,         ///< bytes of text, whatever the format of the file
  kUInt16,
  kUInt32,
  kInt32,
  kInt64,
};

/// Lists of tokens, memory-mapped. Sample i of a file has the tokens [i * length, (i + 1) * length], so that neighbours
/// share one token and each token except the first is predicted once. No sample crosses the end of a file. The tokens
/// of a file after its last whole sample are dropped.
///
/// Formats, recognized by their first bytes: .npy and .safetensors with one array of integers, whose rows follow one
/// another if it has two axes; llm.c's; .bin and .idx of Megatron; little-endian numbers without a header.
class TokenFiles final : public Samples {
 public:
  /// Opens a file, or the .bin, .npy or .safetensors files of a folder in the order of their names. Errors name the
  /// path:
  /// - no such file, a folder without such files, or one with files of different extensions;
  /// - a file that has another format, a damaged one, or no tokens;
  /// - a size that is no multiple of the type's;
  /// - a type that was selected by the vocabulary and that the numbers do not confirm, because they look like parts of
  ///   numbers of a wider type;
  /// - fewer samples than `least`.
  static Result<std::unique_ptr<TokenFiles>> open(const std::string& path, TokenType type, const TokenInputs& inputs,
                                                  uint64_t least = 1);

  ~TokenFiles() override;

  uint64_t samples() const override { return samples_; }
  /// An error names the file, the token and its position if the token is negative or outside the vocabulary.
  Result<Batch> read(std::span<const uint64_t> numbers, const std::set<std::string>& inputs) const override;
  using Samples::read;
  std::string describe() const override;

 private:
  struct File;
  explicit TokenFiles(TokenInputs inputs);
  void add(TokenArray tokens);
  Result<void> read_sample(uint64_t number, std::span<int64_t> tokens) const;

  TokenInputs inputs_;
  std::vector<File> files_;
  uint64_t samples_ = 0;
};

}  // namespace rannc::runtime
