#include "runtime/data/prefetch.h"

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/internal/device_thread.h"

namespace rannc::runtime {

namespace {

class Prefetched final : public Dataset {
 public:
  Prefetched(std::unique_ptr<const Dataset> source, PrepareValue prepare)
      : source_(std::move(source)), prepare_(std::move(prepare)) {}
  // A forked process has no thread, and what that was reading in the other one is of no use.
  ~Prefetched() override {
    if (thread_.exists()) {
      thread_.wait();
    } else {
      static_cast<void>(ahead_.release());
    }
  }

  Result<Batch> batch(uint64_t step) const override {
    if (!thread_.exists()) return source_->batch(step);
    thread_.wait();
    if (!ahead_->read || ahead_->read->step != step) read(step);
    const std::optional<Read> own = std::exchange(ahead_->read, std::nullopt);
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
  struct Ahead {
    std::optional<Read> read;  // of the thread while it works, else of the caller
  };

  void read(uint64_t step) const {
    Read& made = ahead_->read.emplace(Read{.step = step, .batch = std::nullopt, .thrown = nullptr});
    try {
      made.batch = source_->batch(step);
      if (prepare_ && made.batch->ok()) {
        for (auto& [name, value] : **made.batch) value = prepare_(value);
      }
    } catch (...) {
      made.thrown = std::current_exception();
    }
  }

  std::unique_ptr<const Dataset> source_;
  const PrepareValue prepare_;
  std::unique_ptr<Ahead> ahead_ = std::make_unique<Ahead>();
  mutable DeviceThread thread_;
};

}  // namespace

std::unique_ptr<Dataset> prefetched(std::unique_ptr<const Dataset> source, PrepareValue prepare) {
  return std::make_unique<Prefetched>(std::move(source), std::move(prepare));
}

}  // namespace rannc::runtime
