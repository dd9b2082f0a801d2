/// The rules of fusions, a file each.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/match/rewrite_patterns.h"

namespace rannc::passes::fusion {

std::vector<ir::Rewrite> views();
std::vector<ir::Rewrite> selects();
std::vector<ir::Rewrite> linear();
std::vector<ir::Rewrite> convolution();
std::vector<ir::Rewrite> layer_norm();
std::vector<ir::Rewrite> rms_norm();
std::vector<ir::Rewrite> softmax();
std::vector<ir::Rewrite> cross_entropy();
std::vector<ir::Rewrite> gelu();
std::vector<ir::Rewrite> silu();
std::vector<ir::Rewrite> attention();
std::vector<ir::Rewrite> permutes();
std::vector<ir::Rewrite> powers();

// --- what they share

/// Permutations that keep the order go; permutations of permutations become one.
std::vector<ir::Rewrite> permutations();

/// How near a number of the graph must be to what an operator means.
enum class Near : uint8_t {
  kRounded,  ///< both round to the same number of the graph's element type, in float64 within two units in the last
             ///< place
  kAsFloat,  ///< both round to the same float32
};

/// Where rules keep the value that is replaced.
inline constexpr ir::Capture kResult{15};

/// What stands for a match: one task of these operands, of which those are left out that have no value.
struct Becomes {
  std::string_view op;
  std::vector<ir::Capture> operands;
  std::function<ir::Attributes(const ir::Match&)> attributes = {};  ///< none: no attributes
};
/// Whether no task of the match makes the value at that place: it is there still where they are gone.
bool outlives(const ir::Match& match, ir::Capture place);
/// A rule that holds only where the task that it makes has the type of what is replaced, samples included, and reads
/// nothing that is replaced.
ir::Rewrite rule(std::string name, const ir::Pattern& pattern, const Becomes& becomes);
/// Whether a task of such operands makes a value of the type of what is at `kResult`.
bool makes_result(const ir::Match& match, std::string_view op, const std::vector<const ir::ValueType*>& operands,
                  const ir::Attributes& attributes);
/// A scalar constant that is `meant`.
ir::Pattern number(ir::Capture place, double meant, Near near = Near::kRounded);
/// An axis, from the end where it is negative, counted from the front.
constexpr int64_t from_front(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }
/// The order of axes of a permutation, counted from the front.
std::vector<int64_t> order_of(const ir::Graph& graph, TaskId permute);
/// The last axes, from one on, that a reduction goes over and keeps as 1; nothing where they are others.
std::optional<int64_t> last_axes(const ir::Match& match, ir::Capture reduced, ir::Capture x);
/// Whether a value has exactly the sizes of `x` from an axis on.
bool has_sizes_from(const ir::Graph& graph, ValueId value, ValueId x, int64_t axis);

/// x * 0.5 * (1 + erf(x / sqrt(2))), and its approximation by tanh; numbers as near as said.
inline constexpr ir::Capture kGeluX{0};
std::vector<ir::Pattern> gelu_by_erf(Near near);
std::vector<ir::Pattern> gelu_by_tanh(Near near);

}  // namespace rannc::passes::fusion
