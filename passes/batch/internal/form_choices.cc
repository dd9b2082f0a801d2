#include "passes/batch/internal/form_choices.h"

#include <algorithm>

namespace rannc::passes {

ChoiceSet FormChoices::only(size_t choice) { return ChoiceSet().set(std::min(choice, kMostChoices - 1)); }

FormChoices::Choice FormChoices::of(const std::string& kind, size_t count, const ChoiceSet& rests_on) {
  const auto [found, is_new] = index_.emplace(kind, taken_.size());
  const size_t choice = found->second;
  if (is_new) {
    taken_.push_back(choice < kept_.size() ? kept_[choice] : Taken{0, count, rests_on, {}});
  }
  return {std::min(taken_[choice].form, count - 1), only(choice)};
}

// The next form of a choice; `others` is what the failure of its last one rests on besides.
bool FormChoices::try_next(size_t choice, const ChoiceSet& others) {
  taken_[choice].failures |= others;
  if (taken_[choice].form + 1 >= taken_[choice].count) return false;
  ++taken_[choice].form;
  kept_.assign(taken_.begin(), taken_.begin() + static_cast<int64_t>(choice) + 1);
  taken_.clear();
  index_.clear();
  return true;
}

bool FormChoices::advance(ChoiceSet failure) {
  for (size_t choice = taken_.size(); choice-- > 0;) {
    const ChoiceSet own = only(choice);
    if ((failure & own).none()) continue;
    // One number stands for all late choices: it goes with the first of them.
    if (choice < kMostChoices) failure &= ~own;
    if (try_next(choice, failure)) return true;
    failure |= taken_[choice].failures | taken_[choice].rests_on;
    if (choice < kMostChoices) failure &= ~own;
  }
  return false;
}

}  // namespace rannc::passes
