/// Has libFuzzer make the edits that a target knows beside its own.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

std::string text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

size_t edited(std::string input, const std::string& other, uint8_t* out, size_t max_size, unsigned seed) {
  rannc::fuzz::Random random(seed);
  const std::string before = input;
  for (size_t edits = 1 + rannc::fuzz::below(4, random); edits > 0; --edits) rannc::fuzz::edit(input, other, random);
  if (input.size() > max_size) input = before;
  if (input.size() > max_size) input.resize(max_size);
  std::copy(input.begin(), input.end(), out);
  return input.size();
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string input = text(data, size);
  return edited(input, input, data, max_size, seed);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size, const uint8_t* other, size_t other_size,
                                            uint8_t* out, size_t max_size, unsigned seed) {
  return edited(text(data, size), text(other, other_size), out, max_size, seed);
}
