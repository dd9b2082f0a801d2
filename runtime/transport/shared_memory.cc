#include "runtime/transport/internal/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rannc::runtime {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Diagnostic cannot_reserve(size_t bytes) {
  return error(fmt::format("{} bytes of shared memory cannot be reserved: {}", bytes, std::strerror(errno)));
}

Result<std::span<std::byte>> map_range(int file, size_t offset, size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    return error(fmt::format("{} bytes of shared memory cannot be mapped: {}", bytes, std::strerror(errno)));
  }
  return std::span(static_cast<std::byte*>(data), bytes);
}

}  // namespace

Result<SharedMemory> SharedMemory::create(size_t bytes) {
  OwnedFile file(memfd_create("rannc", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return cannot_reserve(bytes);
  int reserved = 0;
  do {
    reserved = fallocate(file.get(), 0, 0, static_cast<off_t>(bytes));
  } while (reserved != 0 && errno == EINTR);
  if (reserved != 0 || fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return cannot_reserve(bytes);
  RANNC_ASSIGN(const std::span<std::byte> range, map_range(file.get(), 0, bytes));
  return SharedMemory(range, std::move(file));
}

Result<SharedMemory> SharedMemory::map(int file, size_t offset, size_t bytes) {
  struct stat about {};
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return error("the file is not shared memory of a fixed size");
  if (fstat(file, &about) != 0 || static_cast<size_t>(about.st_size) < offset + bytes) {
    return error(fmt::format("shared memory has {} bytes, at least {} were expected", about.st_size, offset + bytes));
  }
  RANNC_ASSIGN(const std::span<std::byte> range, map_range(file, offset, bytes));
  return SharedMemory(range, OwnedFile());
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  file_ = std::move(other.file_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace rannc::runtime
