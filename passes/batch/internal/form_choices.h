/// Searches for task forms that together make a batch-polymorphic graph.
#pragma once

#include <bitset>
#include <map>
#include <string>
#include <vector>

namespace rannc::passes {

/// Choices by number, in the order of first use.
constexpr size_t kMostChoices = 512;  ///< later ones count as the last
using ChoiceSet = std::bitset<kMostChoices>;

/// Selects among several accepted forms for the reshapes of each kind. The caller walks the graph once for each
/// assignment and reports why it fails. The next assignment changes the last choice that the failure depends on and
/// keeps all earlier choices, so unrelated choices are not varied.
class FormChoices {
 public:
  struct Choice {
    size_t form;    ///< less than the `count` that was passed
    ChoiceSet set;  ///< this choice only
  };
  /// Returns the choice among `count` forms; the same for all tasks of one kind. `rests_on`: choices that determined
  /// the operands.
  Choice of(const std::string& kind, size_t count, const ChoiceSet& rests_on);
  /// Moves on after a failure that depends on these choices. Returns false if no other assignment can avoid it. Call
  /// once for each walk.
  bool advance(ChoiceSet failure);

 private:
  struct Taken {
    size_t form, count;
    ChoiceSet rests_on;
    ChoiceSet failures;  ///< what failures of the forms tried so far depend on, besides this choice
  };
  static ChoiceSet only(size_t choice);
  bool try_next(size_t choice, const ChoiceSet& others);

  std::map<std::string, size_t> index_;
  std::vector<Taken> taken_;  // of this walk
  std::vector<Taken> kept_;   // the first choices of this walk, fixed before it began
};

}  // namespace rannc::passes
