// Memory of the test devices: best fit, in segments that belong to streams.
#include "tests/support/test_device/device_memory.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/test_device/thread_state.h"

namespace rannc::testing {
namespace {

/// Addresses of a device: more than its memory, so that blocks that don't fit between others find a place.
constexpr size_t kAddresses = size_t{64} << 30;
constexpr size_t kAllAddresses = kAddresses * kTestDevices;
constexpr size_t kSegment = size_t{4} << 20;
constexpr size_t kAlignment = 512;
/// Owners from here on are the recordings of each device.
constexpr StreamIndex kRecordings = StreamIndex{1} << 31;
constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

using MemoryLock = std::lock_guard<std::recursive_mutex>;

size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

char* mapped(int file, int rights) {
  void* view = ::mmap(nullptr, kAllAddresses, rights, MAP_SHARED | MAP_NORESERVE, file, 0);
  TORCH_CHECK(view != MAP_FAILED, "cannot map the memory of test devices: ", std::strerror(errno));
  return static_cast<char*>(view);
}

}  // namespace

DeviceMemory& DeviceMemory::instance() {
  static auto* const memory = new DeviceMemory;  // outlives the tensors of static objects
  return *memory;
}

DeviceMemory::DeviceMemory() : file_(::memfd_create("rannc-test-device", MFD_CLOEXEC)) {
  TORCH_CHECK(file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(kAllAddresses)) == 0,
              "cannot create the memory of test devices: ", std::strerror(errno));
  device_view_ = mapped(file_, PROT_NONE);
  shadow_view_ = mapped(file_, PROT_READ | PROT_WRITE);
}

c10::DataPtr DeviceMemory::allocate(size_t bytes) {
  const c10::DeviceIndex index = current_device();
  const c10::Device device(c10::kPrivateUse1, index);
  if (bytes == 0) return {nullptr, device};
  const MemoryLock lock(device_mutex());
  const c10::Stream stream = current_stream(index);
  const size_t rounded = rounded_up(bytes, kAlignment);
  auto& stats = stats_[static_cast<size_t>(index)];
  const auto live = static_cast<uint64_t>(stats.allocated_bytes[kAll].current);
  if (live + rounded > kTestDeviceBytes) {
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(rounded), live, live, device);
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     fmt::format("test device {} has {} bytes, of which {} are in use: no room for {}",
                                 static_cast<int>(index), kTestDeviceBytes, live, rounded));
  }
  Streams& streams = Streams::instance();
  const bool recorded = streams.recording(stream) != nullptr;
  const StreamIndex owner = recorded ? kRecordings + static_cast<StreamIndex>(index) : streams.index(stream);
  put_back_finished(owner, recorded ? streams.host() : streams.clock(stream));
  const auto block = take(index, owner, rounded);
  block->second.requested = bytes;
  char* address = device_view_ + block->first;
  stats.allocation[kAll].increase(1);
  stats.allocated_bytes[kAll].increase(rounded);
  stats.active_bytes[kAll].increase(rounded);
  stats.requested_bytes[kAll].increase(bytes);
  streams.allocated(stream, block->second.log, {address, bytes, true});
  c10::reportMemoryUsageToProfiler(address, static_cast<int64_t>(rounded), live + rounded,
                                   static_cast<size_t>(stats.reserved_bytes[kAll].current), device);
  return {address, address, raw_deleter(), device};
}

c10::DeleterFnPtr DeviceMemory::raw_deleter() const {
  return [](void* address) { instance().release(address); };
}

void DeviceMemory::copy_data(void* to, const void* from, size_t bytes) const {
  std::memcpy(shadow(to), shadow(from), bytes);
}

DeviceMemory::Blocks::iterator DeviceMemory::take(c10::DeviceIndex device, StreamIndex owner, size_t bytes) {
  auto& free = free_[owner];
  auto found = free.lower_bound({bytes, 0});
  if (found == free.end()) {
    add_segment(device, owner, bytes);
    found = free.lower_bound({bytes, 0});
  }
  const auto block = blocks_.find(found->second);
  free.erase(found);
  Block& taken = block->second;
  if (taken.bytes > bytes) {
    Block rest = taken;
    rest.bytes -= bytes;
    taken.bytes = bytes;
    free.emplace(rest.bytes, block->first + bytes);
    blocks_.emplace(block->first + bytes, std::move(rest));
  }
  taken.used = true;
  return block;
}

void DeviceMemory::add_segment(c10::DeviceIndex device, StreamIndex owner, size_t bytes) {
  const auto of = static_cast<size_t>(device);
  const size_t size = rounded_up(bytes, kSegment);
  TORCH_CHECK_WITH(OutOfMemoryError, end_[of] + size <= kAddresses, "test device ", of, " has no address left");
  const size_t offset = of * kAddresses + end_[of];
  end_[of] += size;
  stats_[of].segment[kAll].increase(1);
  stats_[of].reserved_bytes[kAll].increase(size);
  blocks_.emplace(offset, Block{size, 0, offset, owner, device, false, {}, {}});
  free_[owner].emplace(size, offset);
}

void DeviceMemory::release(void* device_address) {
  const MemoryLock lock(device_mutex());
  const auto found = block_of(device_address);
  Block& block = found->second;
  Streams& streams = Streams::instance();
  auto& stats = stats_[static_cast<size_t>(block.device)];
  stats.allocation[kAll].decrease(1);
  stats.allocated_bytes[kAll].decrease(block.bytes);
  stats.requested_bytes[kAll].decrease(block.requested);
  c10::reportMemoryUsageToProfiler(
      device_address, -static_cast<int64_t>(block.bytes), static_cast<size_t>(stats.allocated_bytes[kAll].current),
      static_cast<size_t>(stats.reserved_bytes[kAll].current), c10::Device(c10::kPrivateUse1, block.device));
  const bool recorded = block.owner >= kRecordings;
  const Clock reused = recorded ? streams.host() : streams.clock(block.owner);
  Clock until;
  if (recorded) {
    for (const StreamIndex stream : block.log.streams()) until.join(streams.clock(stream));
  }
  for (const c10::Stream& stream : block.recorded) until.join(streams.clock(stream));
  Clock allowed = reused;
  allowed.join(until);
  if (const auto access = block.log.unordered(allowed)) {
    streams.report_race(fmt::format("memory of {} is freed while {} on {} {} it, and no event orders them",
                                    streams.name(block.owner), access->op, streams.name(access->stream),
                                    access->write ? "writes" : "reads"));
  }
  block.log.clear();
  block.recorded.clear();
  if (!reused.covers(until)) return waiting_.push_back({found->first, until});
  put_back(found);
}

void DeviceMemory::put_back(Blocks::iterator block) {
  std::memset(shadow_view_ + block->first, 0xff, block->second.bytes);  // whoever still reads it sees no numbers
  stats_[static_cast<size_t>(block->second.device)].active_bytes[kAll].decrease(block->second.bytes);
  block->second.used = false;
  auto& free = free_[block->second.owner];
  const auto merges = [&](Blocks::iterator other) {
    return !other->second.used && other->second.segment == block->second.segment;
  };
  if (const auto next = std::next(block); next != blocks_.end() && merges(next)) {
    free.erase({next->second.bytes, next->first});
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin() && merges(std::prev(block))) {
    const auto before = std::prev(block);
    free.erase({before->second.bytes, before->first});
    before->second.bytes += block->second.bytes;
    blocks_.erase(block);
    block = before;
  }
  free.emplace(block->second.bytes, block->first);
}

/// Puts back what waited for recorded streams, where the next work of `owner`, which `clock` precedes, comes later.
void DeviceMemory::put_back_finished(StreamIndex owner, const Clock& clock) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    const auto block = blocks_.find(waiting.offset);
    if (block->second.owner != owner || !clock.covers(waiting.until)) return false;
    put_back(block);
    return true;
  });
}

void DeviceMemory::emptyCache(c10::MempoolId_t) {
  const MemoryLock lock(device_mutex());
  for (const auto& [offset, block] : blocks_) {
    if (block.used) continue;
    const size_t first = rounded_up(offset, 4096), end = (offset + block.bytes) / 4096 * 4096;
    if (first < end) {
      ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                  static_cast<off_t>(end - first));
    }
  }
}

void DeviceMemory::recordStream(const c10::DataPtr& memory, c10::Stream stream) {
  const MemoryLock lock(device_mutex());
  if (memory.get() != nullptr) block_of(memory.get())->second.recorded.push_back(stream);
}

c10::CachingDeviceAllocator::DeviceStats DeviceMemory::getDeviceStats(c10::DeviceIndex device) {
  const MemoryLock lock(device_mutex());
  return stats_.at(static_cast<size_t>(device));
}

void DeviceMemory::resetAccumulatedStats(c10::DeviceIndex device) {
  const MemoryLock lock(device_mutex());
  auto& stats = stats_.at(static_cast<size_t>(device));
  for (auto* stat : {&stats.allocation, &stats.segment, &stats.allocated_bytes, &stats.reserved_bytes,
                     &stats.active_bytes, &stats.requested_bytes}) {
    (*stat)[kAll].reset_accumulated();
  }
}

void DeviceMemory::resetPeakStats(c10::DeviceIndex device) {
  const MemoryLock lock(device_mutex());
  auto& stats = stats_.at(static_cast<size_t>(device));
  for (auto* stat : {&stats.allocation, &stats.segment, &stats.allocated_bytes, &stats.reserved_bytes,
                     &stats.active_bytes, &stats.requested_bytes}) {
    (*stat)[kAll].reset_peak();
  }
}

std::pair<size_t, size_t> DeviceMemory::getMemoryInfo(c10::DeviceIndex device) {
  const MemoryLock lock(device_mutex());
  const auto& stats = stats_.at(static_cast<size_t>(device));
  return {kTestDeviceBytes - static_cast<uint64_t>(stats.allocated_bytes[kAll].current), kTestDeviceBytes};
}

bool DeviceMemory::contains(const void* address) const {
  return address >= device_view_ && address < device_view_ + kAllAddresses;
}

void* DeviceMemory::shadow(const void* device_address) const {
  if (!contains(device_address)) return nullptr;
  return shadow_view_ + (static_cast<const char*>(device_address) - device_view_);
}

c10::DeviceIndex DeviceMemory::device_of(const void* device_address) const {
  const auto offset = static_cast<size_t>(static_cast<const char*>(device_address) - device_view_);
  return static_cast<c10::DeviceIndex>(offset / kAddresses);
}

DeviceMemory::Blocks::iterator DeviceMemory::block_of(const void* device_address) {
  const auto after = blocks_.upper_bound(static_cast<size_t>(static_cast<const char*>(device_address) - device_view_));
  TORCH_INTERNAL_ASSERT(after != blocks_.begin());
  return std::prev(after);
}

AccessLog* DeviceMemory::log(const void* device_address) {
  return contains(device_address) ? &block_of(device_address)->second.log : nullptr;
}

void DeviceMemory::forget(const Recording* recording) {
  const MemoryLock lock(device_mutex());
  for (auto& [offset, block] : blocks_) block.log.forget(recording);
}

}  // namespace rannc::testing
