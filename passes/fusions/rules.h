/// Helpers that fusion rules share. `fuse.cc` lists the rules, one file per kind.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/match/rewrite_patterns.h"

namespace rannc::passes::fusion {

/// Rules of norms, which snap-constants matches as well.
std::vector<ir::Rewrite> layer_norm();
std::vector<ir::Rewrite> rms_norm();

/// Removes permutations that keep the order, and merges permutations of permutations.
std::vector<ir::Rewrite> permutations();

/// How close a number of the graph must be to an operator's constant.
enum class Near : uint8_t {
  kRounded,  ///< both round to the same number of the graph's element type, in float64 within two units in the last
             ///< place
  kAsFloat,  ///< both round to the same float32
};

/// Capture of the value that is replaced.
inline constexpr ir::Capture kResult{15};

/// Replacement of a match: one task with these operands. Captures without a value are omitted.
struct Becomes {
  std::string_view op;
  std::vector<ir::Capture> operands;
  std::function<ir::Attributes(const ir::Match&)> attributes = {};  ///< null: no attributes
};
/// Returns whether the captured value exists after the match is removed, because no task of the match makes it.
bool outlives(const ir::Match& match, ir::Capture place);
/// Returns a rule that applies only if the replacement task has the type of the replaced value, batch layout included,
/// and reads nothing that is replaced.
ir::Rewrite rule(std::string name, const ir::Pattern& pattern, const Becomes& becomes);
/// Returns whether a task with such operands makes a value of the type of `kResult`.
bool makes_result(const ir::Match& match, std::string_view op, const std::vector<const ir::ValueType*>& operands,
                  const ir::Attributes& attributes);
/// Matches a scalar constant equal to `meant`.
ir::Pattern number(ir::Capture place, double meant, Near near = Near::kRounded);
/// Counts an axis from the front; a negative one counts from the end.
constexpr int64_t from_front(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }
/// Returns the axis order of a permutation, counted from the front.
std::vector<int64_t> order_of(const ir::Graph& graph, TaskId permute);
/// Returns the first reduced axis of a reduction that covers all axes from there to the last and keeps them as 1;
/// nullopt for any other reduction.
std::optional<int64_t> last_axes(const ir::Match& match, ir::Capture reduced, ir::Capture x);
/// Returns whether the shape of a value equals the shape of `x` from an axis on.
bool has_sizes_from(const ir::Graph& graph, ValueId value, ValueId x, int64_t axis);

/// Patterns of x * 0.5 * (1 + erf(x / sqrt(2))) and of its approximation by tanh, with constants matched by `near`.
inline constexpr ir::Capture kGeluX{0};
std::vector<ir::Pattern> gelu_by_erf(Near near);
std::vector<ir::Pattern> gelu_by_tanh(Near near);

}  // namespace rannc::passes::fusion
