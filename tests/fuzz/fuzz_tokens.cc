/// Whatever a file of tokens has: a diagnostic, or samples whose tokens are in the vocabulary.
///
/// An input is a line `EXTENSION VOCABULARY LENGTH`, then the bytes of the file. Those of an index of Megatron are
/// followed by a line `--- bin` and the bytes of the tokens.
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "runtime/data/token_files.h"
#include "tests/fuzz/target.h"

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostLength = 64;

/// A folder that is removed with what is in it.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "rannc-fuzz-XXXXXX").string();
    RANNC_CHECK(::mkdtemp(name.data()) != nullptr) << "no scratch folder";
    root_ = name;
  }
  ~Scratch() { fs::remove_all(root_); }
  std::string file(const std::string& extension) const { return (root_ / ("tokens" + extension)).string(); }
  void clear() const {
    for (const auto& entry : fs::directory_iterator(root_)) fs::remove(entry);
  }

 private:
  fs::path root_;
};

void write(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

void check(const rannc::runtime::Batch& batch, int64_t vocabulary) {
  for (const auto& [name, values] : batch) {
    const auto count = static_cast<int64_t>(values->bytes() / sizeof(int64_t));
    const auto list = values->contiguous();
    for (int64_t at = 0; at < count; ++at) {
      const double token = list->elements(at, at + 1)->item();
      RANNC_CHECK(token >= 0 && token < static_cast<double>(vocabulary)) << name << " has the token " << token;
    }
  }
}

}  // namespace

bool rannc::fuzz::feed(std::string_view input) {
  static const Scratch scratch;
  const size_t line = std::min(input.find('\n'), input.size());
  std::istringstream words{std::string(input.substr(0, line))};
  std::string kind;
  runtime::TokenInputs inputs;
  if (!(words >> kind >> inputs.vocabulary >> inputs.length) || inputs.vocabulary <= 0 || inputs.length == 0 ||
      inputs.length > kMostLength)
    return false;
  input.remove_prefix(std::min(line + 1, input.size()));
  scratch.clear();
  std::string_view tokens = input;
  const size_t mark = kind == "idx" ? input.find("\n--- bin\n") : std::string_view::npos;
  if (mark != std::string_view::npos) {
    write(scratch.file(".idx"), input.substr(0, mark));
    tokens = input.substr(mark + std::string_view("\n--- bin\n").size());
  }
  const std::string path = scratch.file(kind == "npy" ? ".npy" : kind == "safetensors" ? ".safetensors" : ".bin");
  write(path, tokens);
  const auto opened = runtime::TokenFiles::open(path, runtime::TokenType::kOfVocabulary, inputs);
  if (!opened.ok()) return false;
  RANNC_CHECK((*opened)->samples() > 0 && !(*opened)->describe().empty()) << "an empty file was opened";
  bool all = true;
  for (uint64_t sample : {uint64_t{0}, (*opened)->samples() / 2, (*opened)->samples() - 1}) {
    const auto batch = (*opened)->read({&sample, 1}, {});
    if (batch.ok()) check(*batch, inputs.vocabulary);
    all = all && batch.ok();
  }
  return all;
}
