// Orders work by vector clocks.
#include "tests/support/test_device/access_log.h"

namespace rannc::testing {

void Clock::join(const Clock& other) {
  if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
  for (size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
}

uint64_t Clock::tick(StreamIndex stream) {
  if (ticks_.size() <= stream) ticks_.resize(stream + size_t{1});
  return ++ticks_[stream];
}

bool Clock::covers(const Clock& other) const {
  for (size_t i = 0; i < other.ticks_.size(); ++i) {
    if (of(static_cast<StreamIndex>(i)) < other.ticks_[i]) return false;
  }
  return true;
}

std::optional<Access> AccessLog::add(const Access& access, const Clock& clock) {
  const auto conflicts = [&](const Access& earlier) {
    const bool overlaps = earlier.begin < access.end && access.begin < earlier.end;
    return overlaps && earlier.recording == access.recording && (earlier.write || access.write) &&
           !earlier.precedes(clock);
  };
  const auto last = std::find_if(accesses_.rbegin(), accesses_.rend(), conflicts);
  if (last != accesses_.rend()) return *last;
  // What the new access covers precedes it, or is an earlier read by the same stream: later work has only to be
  // ordered after the new one.
  std::erase_if(accesses_, [&](const Access& earlier) {
    if (earlier.recording != access.recording) return false;
    const bool covered = access.begin <= earlier.begin && earlier.end <= access.end;
    return covered && (access.write || (!earlier.write && earlier.stream == access.stream));
  });
  accesses_.push_back(access);
  return std::nullopt;
}

std::optional<Access> AccessLog::unordered(const Clock& clock) const {
  const auto last = std::find_if(accesses_.rbegin(), accesses_.rend(), [&](const Access& access) {
    return access.recording == nullptr && !access.precedes(clock);
  });
  return last == accesses_.rend() ? std::nullopt : std::optional(*last);
}

void AccessLog::forget(const Recording* recording) {
  std::erase_if(accesses_, [&](const Access& access) { return access.recording == recording; });
}

std::vector<StreamIndex> AccessLog::streams() const {
  std::vector<StreamIndex> streams;
  for (const Access& access : accesses_) streams.push_back(access.stream);
  return streams;
}

}  // namespace rannc::testing
