#include "ir/base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "ir/base/owned_file.h"

namespace rannc {

/// Where a file is mapped. Places are reused and never freed, because a signal handler reads them.
struct MappedFile::Place {
  std::atomic<const char*> begin{nullptr};
  size_t size = 0;
  char* path = nullptr;
  Place* next = nullptr;  // of all
  Place* free = nullptr;  // of those without a file
};

namespace {

std::atomic<MappedFile::Place*> g_places{nullptr};
MappedFile::Place* g_free = nullptr;
std::mutex g_mutex;  // of `g_free`

MappedFile::Place* list(std::string_view bytes, const std::string& path) {
  const std::lock_guard lock(g_mutex);
  if (g_free == nullptr) {
    g_free = new MappedFile::Place();
    g_free->next = g_places;
    g_places = g_free;
  }
  MappedFile::Place* const place = std::exchange(g_free, g_free->free);
  place->size = bytes.size();
  place->path = ::strdup(path.c_str());
  place->begin = bytes.data();
  return place;
}

void unlist(MappedFile::Place* place) {
  const std::lock_guard lock(g_mutex);
  place->begin = nullptr;
  std::free(std::exchange(place->path, nullptr));
  place->free = std::exchange(g_free, place);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path, uint64_t max_bytes) {
  const Location where{path.string()};
  // O_NONBLOCK: opening a pipe must not block before it is rejected.
  const OwnedFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return error(where, fmt::format("cannot open: {}", std::strerror(errno)));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return error(where, fmt::format("cannot stat: {}", std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) return error(where, "not a regular file");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size == 0) return error(where, "the file is empty");
  if (size > max_bytes) return error(where, fmt::format("the file has {} bytes, at most {} are read", size, max_bytes));
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED) return error(where, fmt::format("cannot map: {}", std::strerror(errno)));
  return MappedFile(path.string(), {static_cast<const char*>(start), size}, status.st_dev, status.st_ino);
}

MappedFile::MappedFile(std::string path, std::string_view bytes, uint64_t device, uint64_t inode)
    : path_(std::move(path)), bytes_(bytes), place_(list(bytes_, path_)), device_(device), inode_(inode) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, {})),
      place_(other.place_),
      device_(other.device_),
      inode_(other.inode_) {}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  unlist(place_);
  ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

Result<void> MappedFile::check() const {
  struct stat status {};
  const bool is_it = ::stat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
  if (!is_it || static_cast<uint64_t>(status.st_size) >= bytes_.size()) return {};
  return error({path_, 0, 0, {}},
               fmt::format("was truncated while it is read: it had {} bytes, now {}", bytes_.size(), status.st_size));
}

const char* mapped_file_at(const void* address) {
  const auto* const byte = static_cast<const char*>(address);
  for (const MappedFile::Place* place = g_places; place != nullptr; place = place->next) {
    const char* const begin = place->begin;
    if (begin != nullptr && byte >= begin && byte < begin + place->size) return place->path;
  }
  return nullptr;
}

}  // namespace rannc
