#include "runtime/data/prefetch.h"

#include <exception>
#include <optional>

#include "runtime/internal/device_thread.h"

namespace rannc::runtime {

namespace {

class Prefetched final : public Dataset {
 public:
  explicit Prefetched(std::unique_ptr<const Dataset> source) : source_(std::move(source)) {}
  ~Prefetched() override { thread_.wait(); }

  Result<Batch> batch(uint64_t step) const override {
    thread_.wait();
    if (!read_ || read_->step != step) read(step);
    const std::optional<Read> own = std::exchange(read_, std::nullopt);
    thread_.post([this, next = step + 1] { read(next); });
    if (own->thrown) std::rethrow_exception(own->thrown);
    return *own->batch;
  }

  std::string describe() const override { return source_->describe(); }
  std::optional<uint64_t> steps_per_epoch() const override { return source_->steps_per_epoch(); }

 private:
  struct Read {
    uint64_t step = 0;
    std::optional<Result<Batch>> batch;
    std::exception_ptr thrown;
  };

  void read(uint64_t step) const {
    Read& made = read_.emplace(Read{.step = step, .batch = std::nullopt, .thrown = nullptr});
    try {
      made.batch = source_->batch(step);
    } catch (...) {
      made.thrown = std::current_exception();
    }
  }

  std::unique_ptr<const Dataset> source_;
  mutable std::optional<Read> read_;  // of the thread while it works, else of the caller
  mutable DeviceThread thread_;
};

}  // namespace

std::unique_ptr<Dataset> prefetched(std::unique_ptr<const Dataset> source) {
  return std::make_unique<Prefetched>(std::move(source));
}

}  // namespace rannc::runtime
