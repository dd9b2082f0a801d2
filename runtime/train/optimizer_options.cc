#include "runtime/train/optimizer_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace rannc::runtime {

namespace {

constexpr std::array<std::string_view, 5> kDecays = {"cosine", "linear", "wsd", "inverse-sqrt", "constant"};

}  // namespace

std::string_view str(Decay decay) { return kDecays[static_cast<size_t>(decay)]; }
Result<Decay> parse_decay(std::string_view name) {
  const auto found = std::find(kDecays.begin(), kDecays.end(), name);
  if (found != kDecays.end()) return static_cast<Decay>(found - kDecays.begin());
  return error(fmt::format("decay '{}' is not one of {}", name, fmt::join(kDecays, ", ")));
}

uint64_t OptimizerOptions::decay_begin() const {
  const bool is_late = decay == Decay::kWsd && decay_from == 0;
  return std::max(warmup_steps, is_late ? decay_steps - decay_steps / 5 : decay_from);
}

double OptimizerOptions::rate_at(uint64_t update, double rate) const {
  if (update < warmup_steps) return rate * static_cast<double>(update + 1) / static_cast<double>(warmup_steps);
  if (decay == Decay::kInverseSqrt) {
    const auto scale = static_cast<double>(std::max<uint64_t>(warmup_steps, 1));
    return rate * std::sqrt(scale / (scale + static_cast<double>(update - warmup_steps)));
  }
  const uint64_t begin = decay_begin();
  if (decay == Decay::kConstant || decay_steps <= begin || update < begin) return rate;
  const double done = std::min(1.0, static_cast<double>(update - begin) / static_cast<double>(decay_steps - begin));
  const double left = decay == Decay::kCosine ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done;
  return rate * (decay_to + (1 - decay_to) * left);
}

}  // namespace rannc::runtime
