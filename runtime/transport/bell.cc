#include "runtime/transport/internal/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace rannc::runtime {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel reads the number of rings");

void Bell::ring() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  const Listener who = device_waits_.load(std::memory_order_seq_cst) != 0 ? Listener::kDevice : Listener::kHelper;
  if ((sleeping_.load(std::memory_order_seq_cst) & static_cast<uint32_t>(who)) == 0) return;
  syscall(SYS_futex, &rings_, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, static_cast<uint32_t>(who));
}

// FUTEX_WAIT_BITSET takes the time at which it ends.
void Bell::listen(Listener who, uint32_t seen, std::chrono::milliseconds limit) {
  const auto bit = static_cast<uint32_t>(who);
  timespec end{};
  clock_gettime(CLOCK_MONOTONIC, &end);
  const int64_t ns = end.tv_nsec + std::chrono::nanoseconds(limit).count();
  end.tv_sec += ns / 1'000'000'000;
  end.tv_nsec = ns % 1'000'000'000;
  sleeping_.fetch_or(bit, std::memory_order_seq_cst);
  syscall(SYS_futex, &rings_, FUTEX_WAIT_BITSET, seen, &end, nullptr, bit);
  sleeping_.fetch_and(~bit, std::memory_order_seq_cst);
}

}  // namespace rannc::runtime
