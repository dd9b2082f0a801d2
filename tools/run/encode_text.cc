#include "tools/run/encode_text.h"

#include <fmt/format.h>

#include <filesystem>

#include "ir/base/replacement.h"
#include "ir/base/subprocess.h"
#include "partition/text_digest.h"
#include "runtime/bundle/bundle.h"
#include "runtime/data/text_files.h"
#include "tools/common/environment.h"
#include "tools/common/scratch.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

constexpr int kNoPackage = 3;

/// Arguments: tokenizer, file for the tokens, file with the paths of the texts, each ended by a zero byte.
constexpr const char* kScript = R"(
import array, sys
try:
    import tokenizers
except ImportError as missing:
    print(missing)
    sys.exit(3)
try:
    tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
except Exception as wrong:
    sys.exit(f"cannot be read as a tokenizer: {wrong}")
with open(sys.argv[3], encoding="utf-8", errors="surrogateescape") as file:
    paths = file.read().split("\0")[:-1]
with open(sys.argv[2], "wb") as tokens:
    for path in paths:
        try:
            with open(path, encoding="utf-8", newline="") as text:
                while lines := text.readlines(1 << 20):
                    ids = array.array("I", tokenizer.encode("".join(lines), add_special_tokens=False).ids)
                    if sys.byteorder == "big":
                        ids.byteswap()
                    ids.tofile(tokens)
        except (OSError, UnicodeDecodeError) as wrong:
            sys.exit(f"cannot encode {path}: {wrong}")
)";

Result<std::string> digest_of(const std::string& tokenizer, const std::vector<std::string>& files) {
  RANNC_ASSIGN(std::string all, runtime::file_digest(tokenizer));
  for (const std::string& file : files) {
    RANNC_ASSIGN(const std::string digest, runtime::file_digest(file));
    all += digest;
  }
  return partition::text_digest(all);
}

Result<void> encode(const std::string& tokenizer, const std::vector<std::string>& files, const std::string& to) {
  const std::string python = find_program("python3");
  if (python.empty()) return error({.file = tokenizer}, "--tokenizer needs `python3` in the PATH");
  const Scratch scratch;
  const std::string list = scratch.path() + "/files";
  std::string names;
  for (const std::string& file : files) names += file + '\0';
  RANNC_TRY(write_file(list, names));
  RANNC_ASSIGN(const Ended ended,
               run_program({python, "-c", kScript, tokenizer, to, list}, scratch.path() + "/output"));
  if (ended.status == 0) return {};
  if (ended.status == kNoPackage) {
    return error({.file = tokenizer}, fmt::format("--tokenizer needs Python's package tokenizers: {}", ended.output))
        .note(fmt::format("install it with: {} -m pip install tokenizers", python));
  }
  return error({.file = tokenizer}, ended.output.empty()
                                        ? fmt::format("{} ended with {}", python, ended.status)
                                        : ended.output.substr(0, ended.output.find_last_not_of('\n') + 1));
}

}  // namespace

Result<std::string> encode_text(const std::string& tokenizer, const std::vector<std::string>& paths) {
  RANNC_ASSIGN(const runtime::TextFiles found, runtime::find_text_files(paths));
  RANNC_ASSIGN(const std::string digest, digest_of(tokenizer, found.paths));
  const std::string cache = cache_folder("tokens");
  if (cache.empty()) return error({.file = tokenizer}, "--tokenizer keeps tokens in $HOME/.cache, but HOME is not set");
  std::string tokens = fmt::format("{}/{}.bin", cache, digest);
  std::error_code failed;
  if (fs::exists(tokens, failed)) return tokens;
  fs::create_directories(cache, failed);
  if (failed) return error({.file = cache}, "cannot be created: " + failed.message());
  Replacement file(tokens);
  RANNC_TRY(encode(tokenizer, found.paths, file.temporary()));
  RANNC_TRY(file.commit());
  return tokens;
}

}  // namespace rannc::tools
