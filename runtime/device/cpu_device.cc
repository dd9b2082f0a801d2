// The device for which host memory is its own.
#include <stdexcept>

#include "runtime/device/device.h"

namespace rannc::runtime {
namespace {

class CpuDevice final : public Device {
 public:
  ir::DeviceType type() const override { return ir::DeviceType::kCpu; }
  bool has_flash_attention() const override { return false; }
  std::string address() const override { return "cpu"; }
  std::string model() const override { return {}; }
  uint64_t memory_bytes() const override { return 0; }
  uint64_t clock_khz() const override { return 0; }
  bool is_asynchronous() const override { return false; }

  std::unique_ptr<Device> with_own_streams() const override { return std::make_unique<CpuDevice>(); }

  std::unique_ptr<StreamScope> enter(Stream) override { return nullptr; }
  EventRef record(Stream) override { return nullptr; }
  EventRef stamp(Stream) override { return nullptr; }
  void await(Stream, const EventRef&) override {}
  bool is_reached(const EventRef&) const override { return true; }
  void synchronize(const EventRef&) override {}
  void synchronize() override {}
  void mark(uint64_t) override {}
  uint64_t marked() const override { return 0; }
  int64_t ns_between(const EventRef&, const EventRef&) const override { return 0; }

  Value allocate(const TensorSpec&) override { throw std::logic_error("messages are passed by reference"); }
  EventRef copy(Stream, const Value&, const Value&, std::span<const EventRef>) override {
    throw std::logic_error("messages are passed by reference");
  }
  Value pinned(const Value& value) override { return value; }
  Value stage(const Value& value) override { return value; }
  void drop_staged() override {}
  Value upload(const Value& value) override { return value; }
  Value download(const Value& value) override { return value; }
  Value fetch(const Value& value) override { return value; }
  void fill(const DeviceRandom&) override { throw std::logic_error("a processor has no plug-in"); }

  bool update(const DeviceUpdate&) override { return false; }

  std::unique_ptr<RecordedWork> capture(const std::function<void()>&, uint64_t) override { return nullptr; }

  const NcclTable* nccl() const override { return nullptr; }

  void give_back_memory() override {}
  uint64_t live_bytes() const override { return 0; }
  uint64_t peak_bytes() const override { return 0; }
  void restart_peak() override {}
};

}  // namespace

Device& cpu() {
  static CpuDevice device;
  return device;
}

}  // namespace rannc::runtime
