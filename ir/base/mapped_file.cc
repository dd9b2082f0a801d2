#include "ir/base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rannc {

namespace {
/// Closes the descriptor when the scope ends.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};
}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path, uint64_t max_bytes) {
  const Location where{path.string()};
  // O_NONBLOCK: opening a pipe must not block before it is rejected.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) return error(where, fmt::format("cannot open: {}", std::strerror(errno)));
  struct stat status {};
  if (::fstat(file.value, &status) != 0) return error(where, fmt::format("cannot stat: {}", std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) return error(where, "not a regular file");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size == 0) return error(where, "the file is empty");
  if (size > max_bytes) return error(where, fmt::format("the file has {} bytes, at most {} are read", size, max_bytes));
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (start == MAP_FAILED) return error(where, fmt::format("cannot map: {}", std::strerror(errno)));
  return MappedFile(std::string_view(static_cast<const char*>(start), size));
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace rannc
