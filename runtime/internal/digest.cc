#include "runtime/internal/digest.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "ir/base/owned_file.h"
#include "runtime/bundle/bundle.h"

namespace rannc::runtime {

namespace {

std::string text_of(const XXH128_hash_t& hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

std::string digest_of(std::span<const std::byte> bytes) { return text_of(XXH3_128bits(bytes.data(), bytes.size())); }

std::string digest_of(std::string_view text) { return digest_of(std::as_bytes(std::span(text))); }

Result<std::string> file_digest(const std::string& path) {
  const auto failed = [&](const char* why) { return error({.file = path}, std::string("cannot read: ") + why); };
  // O_NONBLOCK: a pipe is refused, not waited for.
  const OwnedFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return failed(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return failed("not a regular file");
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed(std::strerror(errno));
    if (count == 0) return text_of(XXH3_128bits_digest(state.get()));
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<size_t>(count));
  }
}

}  // namespace rannc::runtime
