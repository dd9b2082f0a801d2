// Hashes the text of a program.
#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include "ir/program/program_text.h"
#include "runtime/flat/flat_code.h"

namespace rannc::runtime {

std::string FlatProgram::fingerprint() const {
  const std::string text = ir::print(code_->program, 0);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace rannc::runtime
