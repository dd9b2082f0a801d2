/// Finds the tokens in a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/base/mapped_file.h"
#include "ir/graph/type.h"

namespace rannc::runtime {

/// `uint16` for `u16`.
std::string type_name(ir::DType type);

/// Integers that follow one another in a file, little-endian.
struct TokenArray {
  std::string path;
  MappedFile file;
  std::string_view format;  ///< that specifies the type, such as `.npy`; empty: the file has no header
  ir::DType type = ir::DType::kU16;
  uint64_t offset = 0;  ///< of the first token in the file
  uint64_t tokens = 0;  ///< at least one; all are in the file
};

/// Files that do not specify the type of their tokens.
struct RawTokens {
  ir::DType type = ir::DType::kU16;
  bool explicit_type = false;  ///< the user's choice; files that specify another type are an error
  bool as_text = false;        ///< all files are raw, whatever their bytes
};

/// Opens a file in one of the formats that `token_files.h` lists. It is recognized by its first bytes. Input is
/// untrusted: sizes in a header are checked before they are used. Errors name the file:
/// - it has another known format (`check_not_foreign`);
/// - a header that does not match the size of the file, or numbers that are no integers;
/// - a type other than the explicit one;
/// - no header, no explicit type, and numbers that look like those of a wider type (`wider_type`).
Result<TokenArray> open_token_array(const std::string& path, const RawTokens& raw);

}  // namespace rannc::runtime
