#include "frontend/torchscript/internal/archive/archive_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "ir/base/owned_file.h"

namespace rannc::frontend::torchscript {

namespace {

constexpr uint64_t kInMemory = 256;

struct Range {
  uint64_t offset = 0, length = 0;
};

}  // namespace

/// Records the reads of LibTorch's archive reader. It reads uncompressed records directly into the memory of tensors,
/// so the reads show where tensors are in the file.
class RecordingReader : public caffe2::serialize::ReadAdapterInterface {
 public:
  RecordingReader(int file, uint64_t bytes) : file_(file), bytes_(bytes) {}
  RecordingReader(std::shared_ptr<const std::byte> memory, uint64_t bytes)
      : memory_(std::move(memory)), file_(-1), bytes_(bytes) {}

  size_t size() const override { return bytes_; }
  size_t read(uint64_t offset, void* to, size_t length, const char* /*what*/) const override {
    const size_t got = read_all(offset, to, length);
    const std::lock_guard lock(mutex_);
    if (got == length && length > kInMemory) read_[to] = {offset, length};
    return got;
  }

  /// Returns the file offset that the memory was read from, if its bytes still equal those of the file.
  std::optional<Range> source(const void* memory, uint64_t length) const {
    const std::lock_guard lock(mutex_);
    const auto found = read_.find(memory);
    if (found == read_.end() || found->second.length != length) return std::nullopt;
    std::vector<std::byte> stored(std::min<uint64_t>(length, 1 << 20));
    for (uint64_t at = 0; at < length; at += stored.size()) {
      const size_t part = std::min<uint64_t>(stored.size(), length - at);
      const auto* const own = static_cast<const std::byte*>(memory) + at;
      if (read_all(found->second.offset + at, stored.data(), part) != part) return std::nullopt;
      if (std::memcmp(stored.data(), own, part) != 0) return std::nullopt;
    }
    return found->second;
  }

 private:
  size_t read_all(uint64_t offset, void* to, size_t length) const {
    if (memory_) {
      const size_t part = offset < bytes_ ? std::min<size_t>(length, bytes_ - offset) : 0;
      std::memcpy(to, memory_.get() + offset, part);
      return part;
    }
    size_t got = 0;
    while (got < length) {
      const ssize_t more =
          pread(file_.get(), static_cast<char*>(to) + got, length - got, static_cast<off_t>(offset + got));
      if (more <= 0) break;
      got += static_cast<size_t>(more);
    }
    return got;
  }

  std::shared_ptr<const std::byte> memory_;  // null: the file
  OwnedFile file_;
  uint64_t bytes_;
  mutable std::mutex mutex_;
  mutable std::map<const void*, Range> read_;
};

namespace {

Result<std::shared_ptr<RecordingReader>> open_file(const std::string& path) {
  const Location where{path};
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0) return error(where, fmt::format("cannot be opened: {}", std::strerror(errno)));
  const bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  auto reader = std::make_shared<RecordingReader>(file, regular ? static_cast<uint64_t>(status.st_size) : 0);
  if (!regular) return error(where, "is no regular file");
  return reader;
}

}  // namespace

Result<ArchiveFile> ArchiveFile::open(const ModelSource& source, uint64_t max_bytes) {
  ArchiveFile made;
  made.path_ = source.path.string();
  made.memory_ = source.bytes;
  made.tensors_ = source.tensors;
  const Location where{made.path_};
  if (source.bytes) {
    made.reader_ = std::make_shared<RecordingReader>(source.bytes, source.size);
  } else {
    RANNC_ASSIGN(made.reader_, open_file(made.path_));
  }
  if (made.bytes() > max_bytes)
    return error(where, fmt::format("has {} bytes; at most {} are read", made.bytes(), max_bytes));
  std::array<char, 4> magic{};
  const bool is_zip = made.reader_->read(0, magic.data(), magic.size(), "magic") == magic.size() &&
                      std::memcmp(magic.data(), "PK\3\4", magic.size()) == 0;
  if (!is_zip)
    return error(where,
                 "is no archive of PyTorch: export the model with torch.jit.save(torch.jit.trace(model, inputs), path) "
                 "or torch.export.save(torch.export.export(model, inputs), path)");
  RANNC_ASSIGN(made.directory_, read_zip_directory(*made.reader_, made.path_));
  return made;
}

uint64_t ArchiveFile::bytes() const { return reader_->size(); }

std::shared_ptr<caffe2::serialize::ReadAdapterInterface> ArchiveFile::reader() const { return reader_; }

Result<ir::TensorData> ArchiveFile::data(const at::Tensor& tensor, uint64_t& copied) const {
  const at::Storage& storage = tensor.storage();
  if (tensor.is_contiguous() && tensor.nbytes() > kInMemory) {
    if (const auto source = reader_->source(storage.data(), storage.nbytes())) {
      const uint64_t first = static_cast<uint64_t>(tensor.storage_offset()) * tensor.itemsize();
      const uint64_t offset = source->offset + first;
      if (!memory_) return ir::TensorData::in_file(path_, offset, tensor.nbytes());
      return ir::TensorData::shared({memory_, memory_.get() + offset}, tensor.nbytes());
    }
  }
  const uint64_t size = tensor.nbytes();
  copied = size > UINT64_MAX - copied ? UINT64_MAX : copied + size;
  if (copied > most_unpacked(bytes())) {
    return error(Location{path_},
                 fmt::format("tensors that are not stored as they are read take more than {} bytes, the "
                             "limit for a file of {}",
                             most_unpacked(bytes()), bytes()));
  }
  const at::Tensor whole = tensor.detach().contiguous();
  std::vector<std::byte> copy(whole.nbytes());
  if (!copy.empty()) std::memcpy(copy.data(), whole.const_data_ptr(), copy.size());
  return ir::TensorData::in_memory(std::move(copy));
}

}  // namespace rannc::frontend::torchscript
