/// Counts what a piece of code allocates.
#pragma once

#include <cstdint>

namespace rannc::fuzz {

/// The most bytes that the process held at once since this was made, beyond those it held then. One at a time.
class PeakAllocation {
 public:
  PeakAllocation();
  uint64_t bytes() const;

 private:
  int64_t held_before_;
};

}  // namespace rannc::fuzz
