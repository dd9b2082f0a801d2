// Judges numbers by excerpts of their file.
#include "runtime/data/internal/token_width.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace rannc::runtime {

namespace {

constexpr uint64_t kLeast = 8, kExcerpts = 16, kExcerpt = 4096;  // numbers

/// Whether numbers of a wider type could be tokens, while those of a narrower one would not have this pattern.
class Judgement {
 public:
  explicit Judgement(uint64_t narrow) : narrow_bits_(8 * narrow) {}

  /// Returns false if the number cannot be a token.
  template <class Wide>
  bool add(Wide number) {
    constexpr int64_t kMostUpper = 15;  // ids below 2^20, read as uint16
    if constexpr (std::is_floating_point_v<Wide>) {
      if (!(std::abs(number) < 0x1p31) || number != std::trunc(number)) return false;
      large_ = large_ || number != 0;  // the bits of few integers are those of an integral number
      return true;
    } else {
      const int64_t upper = static_cast<int64_t>(number) >> narrow_bits_;
      const int64_t lower = static_cast<int64_t>(number) & ((int64_t{1} << narrow_bits_) - 1);
      if (upper < -1 || upper > kMostUpper) return false;
      zeros_ = zeros_ && upper == 0;
      some_ = some_ || number != 0;
      large_ = large_ || (upper >= 0 && lower >= 256);
      return true;
    }
  }
  bool telling() const { return large_ || (zeros_ && some_); }

 private:
  uint64_t narrow_bits_;
  bool zeros_ = true;   ///< the upper part of every number is 0
  bool some_ = false;   ///< a number is not 0
  bool large_ = false;  ///< the lower parts of some numbers are larger than any upper part
};

template <class Wide>
bool looks_like(std::string_view bytes, uint64_t narrow) {
  if (sizeof(Wide) <= narrow || bytes.size() % sizeof(Wide) != 0) return false;
  const uint64_t numbers = bytes.size() / sizeof(Wide);
  if (numbers < kLeast) return false;
  const bool all = numbers <= kExcerpts * kExcerpt;
  const uint64_t excerpts = all ? 1 : kExcerpts, length = all ? numbers : kExcerpt;
  Judgement found(narrow);
  for (uint64_t excerpt = 0; excerpt < excerpts; ++excerpt) {
    const uint64_t begin = all ? 0 : (numbers - length) / (excerpts - 1) * excerpt;
    for (uint64_t i = begin; i < begin + length; ++i) {
      Wide number{};
      std::memcpy(&number, bytes.data() + i * sizeof(Wide), sizeof(Wide));
      if (!found.add(number)) return false;
    }
  }
  return found.telling();
}

}  // namespace

std::string_view wider_type(std::string_view bytes, uint64_t narrow) {
  if (looks_like<int64_t>(bytes, narrow)) return "int64";
  if (looks_like<int32_t>(bytes, narrow)) return "int32 or uint32";
  if (looks_like<double>(bytes, narrow)) return "float64";
  if (looks_like<float>(bytes, narrow)) return "float32";
  return {};
}

}  // namespace rannc::runtime
