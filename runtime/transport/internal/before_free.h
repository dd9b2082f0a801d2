/// Waits of destructors.
#pragma once

#include <exception>

namespace rannc::runtime {

/// Calls `wait`, which makes a stream wait for others that use memory that is about to be freed. Errors mean that the
/// device has failed: it runs nothing that could use the memory again.
template <class Wait>
void before_free(Wait&& wait) {
  try {
    wait();
  } catch (const std::exception&) {
  }
}

}  // namespace rannc::runtime
