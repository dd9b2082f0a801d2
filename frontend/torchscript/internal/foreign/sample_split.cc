#include "frontend/torchscript/internal/foreign/sample_split.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace rannc::frontend::torchscript {

namespace {

/// A batch layout in numbers.
struct Place {
  int64_t axis, outer, inner;
};

/// Properties of a result that hold in all runs so far.
struct Findings {
  std::vector<Place> places;
  bool adds_up = true;
  bool seen = false;       ///< whether a run has set `places`
  bool is_number = false;  ///< whether some sum was not 0
};

/// Compares with a tolerance, because sums over samples are computed in a different order.
bool are_close(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_floating_point()) return at::equal(a, b);
  const bool wide = a.scalar_type() == at::kDouble;
  const double relative = wide ? 1e-9 : a.scalar_type() == at::kFloat ? 1e-4 : 3e-2;
  const at::Tensor left = a.to(at::kDouble), right = b.to(at::kDouble), finite = left.masked_fill(~left.isfinite(), 0);
  const double largest = finite.numel() == 0 ? 0 : finite.abs().max().item<double>();
  return at::allclose(left, right, relative, relative * largest, /*equal_nan=*/true);
}

bool holds(const Place& place, const at::Tensor& whole, const at::Tensor& first, const at::Tensor& rest,
           int64_t samples, int64_t part) {
  const auto apart = [&](const at::Tensor& tensor, int64_t count) {
    std::vector<int64_t> extents = tensor.sizes().vec();
    const auto at = extents.begin() + place.axis;
    *at = place.inner;
    extents.insert(extents.begin() + place.axis, {place.outer, count});
    return tensor.reshape(extents);
  };
  const at::Tensor joined = at::cat({apart(first, part), apart(rest, samples - part)}, place.axis + 1);
  return are_close(apart(whole, samples), joined);
}

/// Returns the layouts that are consistent with the sizes of the whole and the parts.
std::vector<Place> possible(const at::Tensor& whole, const at::Tensor& first, const at::Tensor& rest, int64_t samples,
                            int64_t part) {
  std::vector<Place> found;
  if (first.dim() != whole.dim() || rest.dim() != whole.dim()) return found;
  for (int64_t axis = 0; axis < whole.dim(); ++axis) {
    const int64_t each = whole.size(axis) / samples;
    bool fits = each > 0 && whole.size(axis) == each * samples && first.size(axis) == each * part &&
                rest.size(axis) == each * (samples - part);
    for (int64_t other = 0; other < whole.dim(); ++other) {
      fits =
          fits && (other == axis || (first.size(other) == whole.size(other) && rest.size(other) == whole.size(other)));
    }
    for (int64_t outer = 1; fits && outer <= each; ++outer) {
      if (each % outer == 0) found.push_back({axis, outer, each / outer});
    }
  }
  return found;
}

class Splitter {
 public:
  Splitter(const ForeignRun& run, const ir::ForeignCall& call, const ir::Bindings& sizes, std::string_view batch)
      : run_(run), call_(call), sizes_(sizes), batch_(batch), found_(call.types.results.size()) {
    const auto at = sizes.find(batch);
    if (!batch.empty() && at != sizes.end()) samples_ = at->second;
  }

  Result<std::vector<ir::BatchLayout>> layouts(int64_t part) {
    const c10::NoGradGuard no_tape;
    bool ran = false;
    for (const Numbers numbers : kAllNumbers) {
      if (numbers == Numbers::kPositiveDefinite && ran) break;
      for (const int64_t first : {part, samples_ - part}) {
        RANNC_ASSIGN(const bool runs, look(numbers, first));
        ran = ran || runs;
      }
    }
    if (!ran) return error("it rejects all synthetic operands, so its batch axes cannot be determined: " + why_);
    std::vector<ir::BatchLayout> found;
    for (size_t i = 0; i < found_.size(); ++i) found.push_back(layout(i));
    return found;
  }

 private:
  /// Returns false if the operator does not accept such numbers.
  Result<bool> look(Numbers numbers, int64_t part) {
    std::vector<at::Tensor> whole, again, first, rest;
    RANNC_ASSIGN(const Operands operands, run_.operands(sizes_, at::kCPU, numbers, ++seed_));
    RANNC_ASSIGN(const Operands untouched, run_.operands(sizes_, at::kCPU, numbers, seed_));
    try {
      RANNC_ASSIGN(whole, run_(operands, sizes_, at::kCPU));
      RANNC_TRY(check_untouched(operands, untouched));
      RANNC_ASSIGN(again, run_(operands, sizes_, at::kCPU));
      for (size_t i = 0; i < whole.size(); ++i) {
        const bool same = whole[i].sizes() == again[i].sizes() && are_close(whole[i], again[i]);
        if (!same) return error("two runs on the same operands differ: it draws random numbers or keeps state");
      }
      if (samples_ == 0) return true;
      RANNC_ASSIGN(first, run_on(operands, 0, part));
      RANNC_ASSIGN(rest, run_on(operands, part, samples_ - part));
    } catch (const std::exception& failure) {
      if (why_.empty()) why_ = first_line(failure);
      return false;
    }
    for (size_t i = 0; i < found_.size(); ++i) compare(found_[i], whole[i], first[i], rest[i], part);
    return true;
  }

  static Result<void> check_untouched(const Operands& operands, const Operands& untouched) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const bool same = !operands[i] || at::equal(operands[i]->nan_to_num(), untouched[i]->nan_to_num());
      if (!same) return error("it writes into operand " + std::to_string(i) + ", contrary to its schema");
    }
    return {};
  }

  /// Runs on `count` samples starting at `first`.
  Result<std::vector<at::Tensor>> run_on(const Operands& operands, int64_t first, int64_t count) const {
    Operands parts;
    for (size_t i = 0; i < operands.size(); ++i) {
      parts.push_back(operands[i]);
      if (!operands[i] || !call_.types.operands[i]->batch.has_batch()) continue;
      const ir::BatchLayout& layout = call_.types.operands[i]->batch;
      const auto outer = layout.outer.evaluate(sizes_), inner = layout.inner.evaluate(sizes_);
      if (!outer || !inner) return error("the batch layout of an operand is unknown");
      std::vector<int64_t> extents = operands[i]->sizes().vec();
      const auto axis = static_cast<size_t>(layout.axis);
      extents[axis] = *inner;
      extents.insert(extents.begin() + layout.axis, {*outer, samples_});
      const at::Tensor part = operands[i]->reshape(extents).narrow(layout.axis + 1, first, count);
      extents = operands[i]->sizes().vec();
      extents[axis] = *outer * count * *inner;
      parts.back() = part.reshape(extents).contiguous();
    }
    ir::Bindings sizes = sizes_;
    sizes[std::string(batch_)] = count;
    return run_(parts, sizes, at::kCPU);
  }

  void compare(Findings& found, const at::Tensor& whole, const at::Tensor& first, const at::Tensor& rest,
               int64_t part) const {
    if (!found.seen) found.places = possible(whole, first, rest, samples_, part);
    found.seen = true;
    const std::vector<Place> now = possible(whole, first, rest, samples_, part);
    std::erase_if(found.places, [&](const Place& place) {
      const bool still = std::any_of(now.begin(), now.end(), [&](const Place& each) {
        return each.axis == place.axis && each.outer == place.outer && each.inner == place.inner;
      });
      return !still || !holds(place, whole, first, rest, samples_, part);
    });
    found.adds_up = found.adds_up && whole.is_floating_point() && whole.sizes() == first.sizes() &&
                    whole.sizes() == rest.sizes() && are_close(whole, first + rest);
    found.is_number = found.is_number || (found.adds_up && whole.abs().sum().item<double>() > 0);
  }

  ir::BatchLayout layout(size_t result) const {
    if (samples_ == 0) return {};
    const Findings& found = found_[result];
    std::vector<Place> places = found.places;
    std::stable_sort(places.begin(), places.end(),
                     [&](const Place& a, const Place& b) { return is_of_operand(a) && !is_of_operand(b); });
    for (const Place& place : places) {
      if (const auto spelled = symbolic(place, *call_.types.results[result].shape)) return *spelled;
    }
    return {.mix = found.adds_up && found.is_number ? ir::Mix::kPartial : ir::Mix::kMixed};
  }

  bool is_of_operand(const Place& place) const {
    return std::any_of(call_.types.operands.begin(), call_.types.operands.end(),
                       [&](const auto& type) { return type && type->batch.axis == place.axis; });
  }

  /// Converts a layout to symbols. Nothing if they cannot express it.
  std::optional<ir::BatchLayout> symbolic(const Place& place, const ir::Shape& shape) const {
    const auto each = ir::exact_div(shape[static_cast<size_t>(place.axis)], ir::Dim::symbol(batch_));
    if (!each) return std::nullopt;
    std::vector<ir::Dim> outers = {1, *each, place.outer};
    for (const auto& operand : call_.types.operands) {
      if (operand) outers.push_back(operand->batch.outer);
    }
    for (const ir::Dim& outer : outers) {
      const auto inner = ir::exact_div(*each, outer);
      if (!inner || outer.evaluate(sizes_) != place.outer || inner->evaluate(sizes_) != place.inner) continue;
      return ir::BatchLayout{.axis = static_cast<int32_t>(place.axis), .outer = outer, .inner = *inner};
    }
    return std::nullopt;
  }

  const ForeignRun& run_;
  const ir::ForeignCall& call_;
  const ir::Bindings& sizes_;
  std::string_view batch_;
  int64_t samples_ = 0;  // 0: no symbol counts them
  std::vector<Findings> found_;
  uint64_t seed_ = 0;
  std::string why_;
};

}  // namespace

Result<std::vector<ir::BatchLayout>> sample_layouts(const ForeignRun& run, const ir::ForeignCall& call,
                                                    const ir::Bindings& sizes, std::string_view batch, int64_t part) {
  return Splitter(run, call, sizes, batch).layouts(part);
}

}  // namespace rannc::frontend::torchscript
