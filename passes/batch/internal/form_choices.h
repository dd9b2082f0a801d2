/// Search for the forms of tasks that together make a graph that takes any number of samples.
#pragma once

#include <bitset>
#include <map>
#include <string>
#include <vector>

namespace rannc::passes {

/// Choices by their number, in the order in which they are met.
constexpr size_t kMostChoices = 512;  ///< later ones count as the last
using ChoiceSet = std::bitset<kMostChoices>;

/// Which of several accepted forms the reshapes of one kind take. The caller walks the graph once for each assignment
/// and reports why it fails. The next assignment changes the last choice that the failure rests on, and keeps all
/// choices before that one: choices that have nothing to do with a failure are not tried out.
class FormChoices {
 public:
  struct Choice {
    size_t form;    ///< below the `count` that was passed
    ChoiceSet set;  ///< this choice alone
  };
  /// Of `count` forms; the same for all tasks of one kind. `rests_on`: choices that made the operands what they are.
  Choice of(const std::string& kind, size_t count, const ChoiceSet& rests_on);
  /// Moves on after a failure that rests on these choices; false where no other assignment can avoid it. Call once for
  /// each walk.
  bool advance(ChoiceSet failure);

 private:
  struct Taken {
    size_t form, count;
    ChoiceSet rests_on;
    ChoiceSet failures;  ///< what failures of the forms that were tried rest on, besides this choice
  };
  static ChoiceSet only(size_t choice);
  bool try_next(size_t choice, const ChoiceSet& others);

  std::map<std::string, size_t> index_;
  std::vector<Taken> taken_;  // of this walk
  std::vector<Taken> kept_;   // the first choices of this walk, fixed before it began
};

}  // namespace rannc::passes
