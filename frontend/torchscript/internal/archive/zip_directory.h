/// The directory of a zip archive, checked before LibTorch reads it.
#pragma once

#include <caffe2/serialize/read_adapter_interface.h>

#include <cstdint>
#include <map>
#include <string>

#include "ir/base/diagnostic.h"

namespace rannc::frontend::torchscript {

struct ZipEntry {
  uint64_t packed = 0;  ///< bytes in the file
  uint64_t bytes = 0;   ///< bytes once unpacked
};

/// Entries by name, in lower case and without the folder that all of them are in. LibTorch ignores case, too.
using ZipDirectory = std::map<std::string, ZipEntry>;

/// Most bytes that the entries of an archive may have in all.
constexpr uint64_t most_unpacked(uint64_t file_bytes) { return (uint64_t{64} << 20) + 64 * file_bytes; }
/// Most bytes of one entry that is parsed: code, pickles, JSON. Parsers need a multiple of it.
constexpr uint64_t most_parsed(uint64_t file_bytes) { return (uint64_t{2} << 20) + 16 * file_bytes; }

/// Reads the directory at the end of a file. Errors name the entry and both numbers: an entry outside the file or over
/// another one, two of one name, more than `most_unpacked` in all.
Result<ZipDirectory> read_zip_directory(const caffe2::serialize::ReadAdapterInterface& file, const std::string& path);

}  // namespace rannc::frontend::torchscript
