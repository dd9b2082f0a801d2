// Drives a device through c10's virtual guard, which all of LibTorch's backends implement.
#include "runtime/device/torch_device.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "runtime/device/internal/staged_values.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

class TorchEvent final : public Event {
 public:
  TorchEvent(const c10::Stream& stream, c10::EventFlag flag) : event_(stream.device_type(), flag) {
    event_.record(stream);
  }
  const c10::Event& event() const { return event_; }

 private:
  c10::Event event_;
};

const c10::Event& of(const EventRef& event) { return static_cast<const TorchEvent&>(*event).event(); }

class TorchScope final : public StreamScope {
 public:
  explicit TorchScope(const c10::Stream& stream) : guard_(stream) {}

 private:
  c10::StreamGuard guard_;
};

/// The streams that this process uses, of all devices. A backend has a few, which it hands out in turn.
class UsedStreams {
 public:
  c10::Stream take(const c10::impl::VirtualGuardImpl& guard, c10::Device device, int priority, bool shareable) {
    const std::lock_guard lock(mutex_);
    for (size_t tries = 0; tries < kMost; ++tries) {
      const c10::Stream stream = guard.getNewStream(device, priority);
      const auto used = used_.find(stream);
      const bool is_left = used == used_.end() || (shareable && used->second.shareable && tries + 1 >= kMost / 2);
      if (!is_left) continue;
      Use& use = used_[stream];
      use = {use.count + 1, shareable};
      return stream;
    }
    throw std::runtime_error(
        device.str() + " has no stream left: too many devices of the plan share it, or exchange messages with it");
  }
  void give_back(const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    if (--used_.at(stream).count == 0) used_.erase(stream);
  }

 private:
  static constexpr size_t kMost = 64;  ///< no backend has more
  std::mutex mutex_;
  struct Use {
    size_t count = 0;
    bool shareable = false;
  };
  std::unordered_map<c10::Stream, Use> used_;
};

UsedStreams& used_streams() {
  static auto* streams = new UsedStreams;  // outlives every device
  return *streams;
}

/// Switches off TF32 in this process, of which LibTorch's default rounds operands of convolutions and recurrent layers
/// to 10 bits, and restores it in the end.
class IeeeProducts {
 public:
  IeeeProducts() {
    for (size_t i = 0; i < kSettings.size(); ++i)
      precisions_[i] = context_.float32Precision(kSettings[i].first, kSettings[i].second);
    products_ = found([&] { return context_.float32MatmulPrecision(); });
    cudnn_ = found([&] { return context_.allowTF32CuDNN(); });
    context_.setAllowTF32CuDNN(false);
    context_.setAllowTF32CuBLAS(false);
  }
  IeeeProducts(const IeeeProducts&) = delete;
  IeeeProducts& operator=(const IeeeProducts&) = delete;
  ~IeeeProducts() {
    if (cudnn_) context_.setAllowTF32CuDNN(*cudnn_);
    if (products_ == at::Float32MatmulPrecision::HIGH) context_.setFloat32MatmulPrecision("high");
    if (products_ == at::Float32MatmulPrecision::MEDIUM) context_.setFloat32MatmulPrecision("medium");
    for (size_t i = 0; i < kSettings.size(); ++i)
      context_.setFloat32Precision(kSettings[i].first, kSettings[i].second, precisions_[i]);
  }

 private:
  /// The answer of an older function, which throws if a newer one has set something else.
  template <class Ask>
  static auto found(const Ask& ask) -> std::optional<decltype(ask())> {
    try {
      return ask();
    } catch (const c10::Error&) {
      return std::nullopt;
    }
  }

  static constexpr std::array<std::pair<at::Float32Backend, at::Float32Op>, 4> kSettings = {
      {{at::Float32Backend::CUDA, at::Float32Op::CONV},
       {at::Float32Backend::CUDA, at::Float32Op::RNN},
       {at::Float32Backend::CUDA, at::Float32Op::MATMUL},
       {at::Float32Backend::MKLDNN, at::Float32Op::MATMUL}}};

  at::Context& context_ = at::globalContext();
  std::array<at::Float32Precision, kSettings.size()> precisions_{};
  std::optional<at::Float32MatmulPrecision> products_;
  std::optional<bool> cudnn_;
};

/// One of the devices of this process, all of which share the setting.
class OneOfDevices {
 public:
  OneOfDevices() {
    const std::lock_guard lock(all().mutex);
    if (all().devices++ == 0) all().products.emplace();
  }
  OneOfDevices(const OneOfDevices&) = delete;
  OneOfDevices& operator=(const OneOfDevices&) = delete;
  ~OneOfDevices() {
    const std::lock_guard lock(all().mutex);
    if (--all().devices == 0) all().products.reset();
  }

 private:
  struct All {
    std::mutex mutex;
    size_t devices = 0;
    std::optional<IeeeProducts> products;
  };
  static All& all() {
    static auto* all = new All;  // outlives every device
    return *all;
  }
};

class TorchDevice final : public Device {
 public:
  TorchDevice(DevicePlugin& plugin, uint32_t index)
      : plugin_(plugin),
        facts_(plugin.facts(index)),
        device_(std::string(plugin.type()) + ":" + std::to_string(index)),
        guard_(device_.type()) {}

  TorchDevice(const TorchDevice&) = delete;
  TorchDevice& operator=(const TorchDevice&) = delete;
  ~TorchDevice() override {
    for (const auto& [name, stream] : streams_) used_streams().give_back(stream);
  }

  // Other backends than CUDA run the kernels of a CPU.
  ir::DeviceType type() const override { return device_.is_cuda() ? ir::DeviceType::kCuda : ir::DeviceType::kCpu; }
  bool has_flash_attention() const override { return facts_.flash_attention; }
  std::string address() const override { return device_.str(); }
  std::string model() const override { return facts_.name; }
  uint64_t memory_bytes() const override { return facts_.memory_bytes; }
  uint64_t clock_khz() const override { return facts_.clock_khz; }
  bool is_asynchronous() const override { return true; }

  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<TorchDevice>(plugin_, static_cast<uint32_t>(device_.index()));
  }

  std::unique_ptr<StreamScope> enter(Stream stream) override { return std::make_unique<TorchScope>(at(stream)); }
  EventRef record(Stream stream) override {
    return std::make_shared<TorchEvent>(at(stream), c10::EventFlag::PYTORCH_DEFAULT);
  }
  EventRef stamp(Stream stream) override {
    return std::make_shared<TorchEvent>(at(stream), c10::EventFlag::BACKEND_DEFAULT);
  }
  void await(Stream stream, const EventRef& event) override {
    if (event != nullptr) of(event).block(at(stream));
  }
  bool is_reached(const EventRef& event) const override { return event == nullptr || of(event).query(); }
  void synchronize(const EventRef& event) override {
    if (event != nullptr) of(event).synchronize();
  }
  // Not the whole device, which fails while another thread records its work.
  void synchronize() override {
    std::vector<c10::Stream> streams;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [name, stream] : streams_) {
        // Uploads are of the next step. Streams of other devices wait for copies, on streams of this one.
        if (name.first != Stream::kUploads && name.second == device_.index()) streams.push_back(stream);
      }
    }
    for (const c10::Stream& stream : streams) guard_.synchronizeStream(stream);
  }
  // The compute stream writes the number to host memory, which stays readable when the device has failed.
  void mark(uint64_t number) override {
    const c10::NoGradGuard no_grad;
    const c10::StreamGuard on(at(Stream::kCompute));
    if (!mark_.defined()) mark_ = at::zeros({1}, at::kLong).pin_memory();
    if (number == 0) {
      mark_.fill_(0);
      return;
    }
    if (!numbers_.defined() || static_cast<int64_t>(number) >= numbers_.numel())
      numbers_ = to_tensor(upload(to_value(at::arange(std::bit_ceil(number + kMarks), at::kLong))));
    mark_.copy_(numbers_.narrow(0, static_cast<int64_t>(number), 1), /*non_blocking=*/true);
  }
  uint64_t marked() const override {
    return mark_.defined() ? std::atomic_ref(*mark_.mutable_data_ptr<int64_t>()).load() : 0;
  }
  int64_t ns_between(const EventRef& from, const EventRef& to) const override {
    return static_cast<int64_t>(of(from).elapsedTime(of(to)) * 1e6);
  }

  Value allocate(const TensorSpec& spec) override {
    const c10::StreamGuard on(at(Stream::kCompute));
    return to_value(at::empty(spec.shape, at::TensorOptions().dtype(scalar_type(spec.dtype)).device(device_)));
  }

  EventRef copy(Stream stream, const Value& from, const Value& to, std::span<const EventRef> after) override {
    const c10::NoGradGuard no_grad;
    const at::Tensor& into = to_tensor(to);
    if (into.is_cpu() != to_tensor(from).is_cpu())
      throw std::logic_error("a message leads from host memory to that of a device, or back");
    if (into.is_cpu()) {
      into.copy_(to_tensor(from));
      return nullptr;
    }
    for (const EventRef& event : after) await(stream, event);
    {
      // LibTorch makes the current streams of both devices wait for each other. That of the other one has no other
      // work.
      const c10::StreamGuard there(at(stream, into.device()));
      const c10::StreamGuard here(at(stream));
      into.copy_(to_tensor(from), /*non_blocking=*/true);
    }
    return record(stream);
  }

  Value pinned(const Value& value) override {
    const at::Tensor& tensor = to_tensor(value);
    return tensor.is_cpu() && tensor.numel() > 0 ? to_value(tensor.contiguous().pin_memory()) : value;
  }

  Value stage(const Value& value) override {
    const c10::NoGradGuard no_grad;
    const Value host = pinned(value);
    const at::Tensor& tensor = to_tensor(host);
    if (!tensor.is_cpu() || tensor.numel() == 0 || tensor.storage_offset() > 0 ||
        tensor.storage().nbytes() != tensor.nbytes())
      return host;
    try {
      const c10::StreamGuard on(at(Stream::kUploads));
      const at::Tensor copy = tensor.to(device_, /*non_blocking=*/true);
      staged_values().add(tensor, {copy, record(Stream::kUploads)});
    } catch (const c10::OutOfMemoryError&) {  // `upload` copies a part at a time
    }
    return host;
  }

  void drop_staged() override { staged_values().drop_expired(device_); }

  Value upload(const Value& value) override {
    const at::Tensor& tensor = to_tensor(value);
    if (tensor.device() == device_) return value;
    const c10::NoGradGuard no_grad;
    const c10::StreamGuard on(at(Stream::kCompute));
    if (const auto copy = tensor.is_cpu() ? staged_values().find(tensor, device_) : std::nullopt) {
      await(Stream::kCompute, copy->ready);
      return to_value(copy->tensor);
    }
    if (!tensor.is_cpu()) return to_value(tensor.to(device_, /*non_blocking=*/true));
    // A copy from memory that the system may page out makes the host wait.
    return to_value(tensor.contiguous().pin_memory().to(device_, /*non_blocking=*/true));
  }

  Value download(const Value& value) override {
    const at::Tensor& tensor = to_tensor(value);
    if (tensor.is_cpu()) return value;
    const c10::NoGradGuard no_grad;
    const c10::StreamGuard on(at(Stream::kCompute));
    return to_value(tensor.cpu());
  }

  Value fetch(const Value& value) override {
    const at::Tensor& tensor = to_tensor(value);
    if (tensor.is_cpu()) return value;
    const c10::NoGradGuard no_grad;
    const c10::StreamGuard on(at(Stream::kCompute));
    const at::Tensor host = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
    host.copy_(tensor, /*non_blocking=*/true);
    return to_value(host);
  }

  void fill(const DeviceRandom& random_input) override {
    const c10::StreamGuard on(at(Stream::kCompute));
    plugin_.fill(random_input);
  }

  bool update(const DeviceUpdate& update) override {
    const c10::StreamGuard on(at(Stream::kCompute));
    return plugin_.update(update);
  }

  std::unique_ptr<RecordedWork> capture(const std::function<void()>& work, uint64_t pool) override {
    const c10::StreamGuard on(at(Stream::kCompute));
    return plugin_.record(work, number_ * kPools + pool);
  }

  const NcclTable* nccl() const override { return plugin_.nccl(); }

  void give_back_memory() override { c10::getDeviceAllocator(device_.type())->emptyCache(); }
  uint64_t live_bytes() const override { return static_cast<uint64_t>(bytes().current); }
  uint64_t peak_bytes() const override { return static_cast<uint64_t>(bytes().peak); }
  void restart_peak() override { c10::getDeviceAllocator(device_.type())->resetPeakStats(device_.index()); }

 private:
  c10::CachingAllocator::Stat bytes() const {
    return c10::getDeviceAllocator(device_.type())->getDeviceStats(device_.index()).allocated_bytes[0];
  }

  c10::Stream at(Stream stream) { return at(stream, device_); }
  /// On any device of this type.
  c10::Stream at(Stream stream, c10::Device device) {
    const std::lock_guard lock(mutex_);
    const StreamName name{stream, device.index()};
    const auto found = streams_.find(name);
    if (found != streams_.end()) return found->second;
    const int priority = stream == Stream::kCompute ? 0 : kHighPriority;
    const bool shareable = stream >= shareable_stream(0);
    return streams_.emplace(name, used_streams().take(guard_, device, priority, shareable)).first->second;
  }

  static constexpr int kHighPriority = -1;  ///< messages start before computations that wait too
  static constexpr uint64_t kMarks = 1024;  ///< least capacity
  static constexpr uint64_t kPools = 1024;  ///< per device
  static inline std::atomic<uint64_t> devices{0};

  const OneOfDevices counted_;
  DevicePlugin& plugin_;
  const uint64_t number_ = devices++;
  const DeviceFacts facts_;
  const c10::Device device_;
  const c10::impl::VirtualGuardImpl guard_;
  at::Tensor mark_, numbers_;  // in pinned memory; 0, 1, … on the device
  using StreamName = std::pair<Stream, c10::DeviceIndex>;
  std::mutex mutex_;  // of the streams, which peers use too
  std::map<StreamName, c10::Stream> streams_;
};

}  // namespace

std::shared_ptr<Device> make_torch_device(DevicePlugin& plugin, uint32_t index) {
  return std::make_shared<TorchDevice>(plugin, index);
}

}  // namespace rannc::runtime
