/// Encodes text by a tokenizer of Hugging Face.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// Returns a file of raw `uint32` tokens of the text files, without special tokens. Python's package `tokenizers`
/// reads `tokenizer`, a `tokenizer.json`. Each file is encoded in pieces of about a megabyte that end with a line. The
/// tokens are kept in the user's cache, so that the same files are encoded once. Errors: Python or the package is
/// missing, a file is no UTF-8 text, the user has no cache folder, or those of `find_text_files`.
Result<std::string> encode_text(const std::string& tokenizer, const std::vector<std::string>& paths);

}  // namespace rannc::tools
