#include "frontend/torchscript/internal/archive/check_archive.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstring>
#include <exception>

#include "frontend/torchscript/internal/archive/check_code.h"
#include "frontend/torchscript/internal/archive/check_pickle.h"

namespace rannc::frontend::torchscript {

namespace {

constexpr uint64_t kLeastStack = uint64_t{64} << 20, kMostStack = uint64_t{16} << 30;

bool is_code(const std::string& record) { return record.starts_with("code/") && record.ends_with(".py"); }
bool is_debug(const std::string& record) { return record.starts_with("code/") && record.ends_with(".debug_pkl"); }

class ArchiveChecker {
 public:
  explicit ArchiveChecker(const ArchiveFile& file) : file_(file), reader_(file.reader()) {}

  Result<uint64_t> run() {
    if (file_.directory().contains("model.json"))
      return error(where({}), "was written by a PyTorch older than 1.4: load and save it with a newer one");
    RANNC_TRY(check_size());
    for (const auto& [name, entry] : file_.directory()) {
      if (is_code(name)) {
        RANNC_ASSIGN(const uint64_t bytes, code_stack_bytes(read(name), file_.path(), name));
        stack_bytes_ += bytes;
      } else if (is_debug(name) || name == "data.pkl" || name == "constants.pkl") {
        RANNC_TRY(check_objects(name));
      }
    }
    if (stack_bytes_ > kMostStack) {
      return error(where({}),
                   fmt::format("functions and classes of its code nest so deep that {} bytes of stack may be "
                               "needed; the limit is {}",
                               stack_bytes_, kMostStack));
    }
    return stack_bytes_;
  }

 private:
  Location where(const std::string& record) const { return {file_.path(), 0, 0, record}; }

  Result<void> check_size() const {
    uint64_t bytes = 0;
    for (const auto& [name, entry] : file_.directory()) {
      if (!is_code(name) && !name.ends_with("pkl")) continue;
      bytes += entry.bytes;
      if (bytes <= most_parsed(file_.bytes())) continue;
      return error(where(name),
                   fmt::format("with this record of {} bytes, the code and pickles of the archive have more "
                               "than {}, the limit for a file of {} bytes",
                               entry.bytes, most_parsed(file_.bytes()), file_.bytes()));
    }
    return {};
  }

  std::string read(const std::string& record) {
    const auto [bytes, size] = reader_.getRecord(record);
    return std::string(static_cast<const char*>(bytes.get()), size);
  }

  Result<void> check_objects(const std::string& name) {
    constexpr uint64_t kObjects = uint64_t{1} << 20;
    const PickleRecord record{file_.path(), name, name == "data.pkl" ? "data/" : "constants/", file_.directory(),
                              is_debug(name)};
    return check_pickle(read(name), record,
                        {kObjects + 16 * file_.bytes(), record.is_debug ? 0 : most_unpacked(file_.bytes())});
  }

  const ArchiveFile& file_;
  caffe2::serialize::PyTorchStreamReader reader_;
  uint64_t stack_bytes_ = kLeastStack;
};

struct StackCall {
  const std::function<void()>& run;
  std::exception_ptr failure;
};

void* run_call(void* given) {
  StackCall& call = *static_cast<StackCall*>(given);
  try {
    call.run();
  } catch (...) {
    call.failure = std::current_exception();
  }
  return nullptr;
}

/// Memory that is mapped while this lives.
class StackMemory {
 public:
  explicit StackMemory(size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK,
                     -1, 0)) {
    constexpr size_t kGuard = 1 << 16;  // below the stack
    if (present()) mprotect(memory_, kGuard, PROT_NONE);
  }
  StackMemory(const StackMemory&) = delete;
  StackMemory& operator=(const StackMemory&) = delete;
  ~StackMemory() {
    if (present()) munmap(memory_, bytes_);
  }
  bool present() const { return memory_ != MAP_FAILED; }
  void* memory() const { return memory_; }

 private:
  size_t bytes_;
  void* memory_;
};

}  // namespace

Result<uint64_t> check_archive(const ArchiveFile& file) {
  try {
    return ArchiveChecker(file).run();
  } catch (const c10::Error& failure) {
    return error(Location{file.path()},
                 fmt::format("cannot be read as TorchScript or torch.export: {}", failure.what_without_backtrace()));
  } catch (const std::exception& failure) {
    return error(Location{file.path()},
                 fmt::format("cannot be read as TorchScript or torch.export: {}", failure.what()));
  }
}

Result<void> run_on_stack(uint64_t bytes, const std::function<void()>& run) {
  constexpr uint64_t kPage = 1 << 16;
  bytes = (bytes + kPage - 1) / kPage * kPage;
  const StackMemory stack(bytes);
  StackCall call{run, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_t thread{};
  const bool started = stack.present() && pthread_attr_setstack(&attributes, stack.memory(), bytes) == 0 &&
                       pthread_create(&thread, &attributes, run_call, &call) == 0;
  pthread_attr_destroy(&attributes);
  if (!started)
    return error(fmt::format("its code may need a stack of {} bytes, which the system does not provide", bytes));
  pthread_join(thread, nullptr);
  if (call.failure) std::rethrow_exception(call.failure);
  return {};
}

}  // namespace rannc::frontend::torchscript
