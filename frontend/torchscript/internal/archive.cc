#include "frontend/torchscript/internal/archive.h"

#include <caffe2/serialize/read_adapter_interface.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <torch/csrc/jit/serialization/import.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace rannc::frontend::torchscript {

namespace {

constexpr uint64_t kInMemory = 256;

struct Range {
  uint64_t offset = 0, length = 0;
};

}  // namespace

/// A file as LibTorch's reader of archives asks for it. It reads records that are not compressed straight into the
/// memory of the tensors, so that what it asked for says where these lie in the file.
class RecordingReader : public caffe2::serialize::ReadAdapterInterface {
 public:
  RecordingReader(int file, uint64_t bytes) : file_(file), bytes_(bytes) {}
  RecordingReader(const RecordingReader&) = delete;
  RecordingReader& operator=(const RecordingReader&) = delete;
  ~RecordingReader() override { close(file_); }

  size_t size() const override { return bytes_; }
  size_t read(uint64_t offset, void* to, size_t length, const char* /*what*/) const override {
    const size_t got = read_all(offset, to, length);
    const std::lock_guard lock(mutex_);
    if (got == length && length > kInMemory) read_[to] = {offset, length};
    return got;
  }

  /// Where the bytes of that memory were read from, if they are still those of the file.
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
    size_t got = 0;
    while (got < length) {
      const ssize_t more = pread(file_, static_cast<char*>(to) + got, length - got, static_cast<off_t>(offset + got));
      if (more <= 0) break;
      got += static_cast<size_t>(more);
    }
    return got;
  }

  int file_;
  uint64_t bytes_;
  mutable std::mutex mutex_;
  mutable std::map<const void*, Range> read_;
};

namespace {

/// What a file that LibTorch does not load seems to be.
std::string advice(const std::string& refusal) {
  const auto says = [&](const char* text) { return refusal.find(text) != std::string::npos; };
  if (says("constants.pkl") || says("file not found"))
    return "it holds weights or a pickled module, not a program: export the model with "
           "torch.jit.save(torch.jit.trace(model, "
           "inputs), path) or torch.onnx.export";
  const size_t begins = std::min(refusal.find_first_not_of(" \n"), refusal.size());
  const std::string first = refusal.substr(begins, refusal.find('\n', begins) - begins);
  constexpr std::string_view kUnknown = "Unknown builtin op: ";
  if (!first.starts_with(kUnknown)) return first;
  std::string op = first.substr(kUnknown.size());
  if (op.ends_with('.')) op.pop_back();
  return fmt::format("it calls {}, which LibTorch does not have: --load-library FILE loads a library that brings it",
                     op);
}

Result<std::shared_ptr<RecordingReader>> open_file(const std::string& path, uint64_t max_bytes) {
  const Location where{path};
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0) return error(where, fmt::format("cannot be opened: {}", std::strerror(errno)));
  const bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  auto reader = std::make_shared<RecordingReader>(file, regular ? static_cast<uint64_t>(status.st_size) : 0);
  if (!regular) return error(where, "is no regular file");
  if (reader->size() > max_bytes)
    return error(where, fmt::format("has {} bytes; at most {} are read", reader->size(), max_bytes));
  return reader;
}

}  // namespace

Result<Archive> Archive::open(const std::filesystem::path& path, uint64_t max_bytes) {
  Archive archive;
  archive.path_ = path.string();
  RANNC_ASSIGN(archive.reader_, open_file(archive.path_, max_bytes));
  std::array<char, 4> magic{};
  const bool is_zip = archive.reader_->read(0, magic.data(), magic.size(), "magic") == magic.size() &&
                      std::memcmp(magic.data(), "PK\3\4", magic.size()) == 0;
  if (!is_zip) {
    return error(
        Location{archive.path_},
        "is no archive of TorchScript: export the model with torch.jit.save(torch.jit.trace(model, inputs), path)");
  }
  try {
    archive.module_ = torch::jit::load(archive.reader_, at::kCPU);
  } catch (const std::exception& failure) {
    return error(Location{archive.path_}, fmt::format("cannot be read as TorchScript: {}", advice(failure.what())));
  }
  return archive;
}

ir::TensorData Archive::data(const at::Tensor& tensor) const {
  const at::Storage& storage = tensor.storage();
  if (tensor.is_contiguous() && tensor.nbytes() > kInMemory) {
    if (const auto source = reader_->source(storage.data(), storage.nbytes())) {
      const uint64_t first = static_cast<uint64_t>(tensor.storage_offset()) * tensor.itemsize();
      return ir::TensorData::in_file(path_, source->offset + first, tensor.nbytes());
    }
  }
  const at::Tensor whole = tensor.detach().contiguous();
  std::vector<std::byte> bytes(whole.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), whole.const_data_ptr(), bytes.size());
  return ir::TensorData::in_memory(std::move(bytes));
}

}  // namespace rannc::frontend::torchscript
