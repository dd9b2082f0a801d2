// Page-locked memory of the host, and the bytes that streams read and write in it.
#include "tests/support/test_device/pinned_memory.h"

#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/test_device/tensor_bytes.h"

namespace rannc::testing {
namespace {

using PinnedLock = std::lock_guard<std::recursive_mutex>;

std::pair<uint64_t, uint64_t> range_of(const at::Tensor& tensor) {
  const Touch touch = touch_of(tensor, false);
  const auto begin = reinterpret_cast<uint64_t>(touch.address);
  return {begin, begin + touch.bytes};
}

}  // namespace

PinnedMemory& PinnedMemory::instance() {
  static auto* const memory = new PinnedMemory;  // outlives the tensors of static objects
  return *memory;
}

c10::DataPtr PinnedMemory::allocate(size_t bytes) {
  if (bytes == 0) return {nullptr, c10::kCPU};
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 512));
  const PinnedLock lock(device_mutex());
  for (auto& [address, block] : blocks_) {
    if (block.used || block.bytes != size || block.log.unordered(Streams::instance().host())) continue;
    block.used = true;
    block.log.clear();
    auto* memory = reinterpret_cast<void*>(address);
    return {memory, memory, raw_deleter(), c10::kCPU};
  }
  void* memory = std::aligned_alloc(512, size);
  TORCH_CHECK(memory != nullptr, "no memory for ", size, " pinned bytes");
  blocks_.emplace(reinterpret_cast<uint64_t>(memory), Block{size, true, {}});
  return {memory, memory, raw_deleter(), c10::kCPU};
}

c10::DeleterFnPtr PinnedMemory::raw_deleter() const {
  return [](void* address) { instance().release(address); };
}

void PinnedMemory::release(void* address) {
  const PinnedLock lock(device_mutex());
  blocks_.at(reinterpret_cast<uint64_t>(address)).used = false;
}

bool PinnedMemory::record_event(void* address, void* /*context*/, c10::Stream stream) {
  const PinnedLock lock(device_mutex());
  if (log(address) == nullptr) return false;
  Streams::instance().begin(stream, "record_event", {{address, 1, false}});
  return true;
}

void PinnedMemory::empty_cache() {
  const PinnedLock lock(device_mutex());
  std::erase_if(blocks_, [](const auto& entry) {
    if (entry.second.used || entry.second.log.unordered(Streams::instance().host())) return false;
    std::free(reinterpret_cast<void*>(entry.first));
    return true;
  });
}

std::map<uint64_t, PinnedMemory::Block>::iterator PinnedMemory::block_of(const void* address) {
  const auto at = reinterpret_cast<uint64_t>(address);
  const auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return blocks_.end();
  const auto block = std::prev(after);
  return at < block->first + block->second.bytes ? block : blocks_.end();
}

bool PinnedMemory::contains(const void* address) {
  const PinnedLock lock(device_mutex());
  return block_of(address) != blocks_.end();
}

AccessLog* PinnedMemory::log(const void* address) {
  const auto block = block_of(address);
  return block == blocks_.end() ? nullptr : &block->second.log;
}

void PinnedMemory::read_later(const at::Tensor& from, StreamIndex stream, uint64_t tick) {
  const PinnedLock lock(device_mutex());
  const auto [begin, end] = range_of(from);
  const std::string bytes(reinterpret_cast<const char*>(begin), end - begin);
  const auto check = [bytes, stream, begin = begin] {
    if (std::memcmp(reinterpret_cast<const void*>(begin), bytes.data(), bytes.size()) == 0) return;
    Streams::instance().report_race(
        fmt::format("the host writes pinned memory that aten::copy_ on {} reads, and has not waited for it",
                    Streams::instance().name(stream)));
  };
  pending_.push_back({begin, end, stream, tick, check});
}

void PinnedMemory::write_later(const at::Tensor& to, const at::Tensor& staged, StreamIndex stream, uint64_t tick) {
  const PinnedLock lock(device_mutex());
  arrive(to);
  const auto [begin, end] = range_of(to);
  if (to.is_non_overlapping_and_dense()) std::memset(reinterpret_cast<void*>(begin), 0xff, end - begin);
  pending_.push_back({begin, end, stream, tick, [to, staged] { copy_on_host(to, staged); }});
}

void PinnedMemory::settle_where(const std::function<bool(const Pending&)>& chosen) {
  const auto later = std::stable_partition(pending_.begin(), pending_.end(), chosen);
  const std::vector<Pending> now(std::make_move_iterator(pending_.begin()), std::make_move_iterator(later));
  pending_.erase(pending_.begin(), later);
  for (const Pending& item : now) item.settle();
}

void PinnedMemory::arrive(const at::Tensor& tensor) {
  const PinnedLock lock(device_mutex());
  const auto [begin, end] = range_of(tensor);
  settle_where([begin = begin, end = end](const Pending& item) { return item.begin < end && begin < item.end; });
}

void PinnedMemory::host_reached(const Clock& host) {
  const PinnedLock lock(device_mutex());
  settle_where([&](const Pending& item) { return host.of(item.stream) >= item.tick; });
}

}  // namespace rannc::testing
