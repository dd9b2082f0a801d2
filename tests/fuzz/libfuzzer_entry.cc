/// libFuzzer's way into a target.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rannc::fuzz::feed({reinterpret_cast<const char*>(data), size});
  return 0;
}
