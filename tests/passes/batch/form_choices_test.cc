// The search passes over choices that a failure does not rest on, and ends where no choice can avoid it.
#include "passes/batch/internal/form_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rannc::passes {
namespace {

using Forms = std::vector<size_t>;
/// What the failure of these forms rests on; nothing: there is none.
using Judge = std::function<std::optional<ChoiceSet>(const Forms&, const std::vector<ChoiceSet>&)>;

/// All assignments of `choices` kinds, of two forms each, that are tried. None rests on another.
std::vector<Forms> tried(size_t choices, const Judge& judge) {
  FormChoices search;
  std::vector<Forms> all;
  for (bool more = true; more;) {
    Forms forms;
    std::vector<ChoiceSet> sets;
    for (size_t i = 0; i < choices; ++i) {
      const auto [form, set] = search.of(std::to_string(i), 2, {});
      forms.push_back(form);
      sets.push_back(set);
    }
    all.push_back(forms);
    const auto failure = judge(forms, sets);
    more = failure && search.advance(*failure);
  }
  return all;
}

TEST(FormChoices, AFailureThatRestsOnNoneIsFinal) {
  EXPECT_THAT(tried(3, [](const Forms&, const auto&) { return ChoiceSet(); }), ::testing::SizeIs(1));
}

TEST(FormChoices, ChoicesThatAFailureDoesNotRestOnStay) {
  const auto first_is_wrong = [](const Forms& forms, const auto& sets) {
    return forms[0] == 0 ? std::optional(sets[0]) : std::nullopt;
  };
  EXPECT_THAT(tried(20, first_is_wrong), ::testing::SizeIs(2));
}

TEST(FormChoices, AllCombinationsOfWhatAFailureRestsOnAreTried) {
  const auto both_are_wrong = [](const Forms& forms, const auto& sets) {
    const bool right = forms[1] == 1 && forms[4] == 0 && forms[7] == 1;
    return right ? std::nullopt : std::optional(sets[1] | sets[4] | sets[7]);
  };
  const auto all = tried(9, both_are_wrong);
  EXPECT_EQ(all.back()[1] * 4 + all.back()[4] * 2 + all.back()[7], 5);
  EXPECT_THAT(tried(9, [](const Forms&, const auto& sets) { return std::optional(sets[1] | sets[4] | sets[7]); }),
              ::testing::SizeIs(8));
}

TEST(FormChoices, TasksOfOneKindTakeOneForm) {
  FormChoices search;
  const auto first = search.of("a", 3, {}), again = search.of("a", 3, {});
  EXPECT_EQ(first.set, again.set);
  ASSERT_TRUE(search.advance(first.set));
  EXPECT_EQ(search.of("a", 3, {}).form, 1U);
  EXPECT_EQ(search.of("a", 3, {}).form, 1U);
}

// A choice that is met only because of an earlier one is changed by that one, once its own forms are exhausted.
TEST(FormChoices, AChoiceRestsOnThoseThatMadeIt) {
  FormChoices search;
  ChoiceSet failure;
  const auto walk = [&] {
    const auto first = search.of("first", 2, {});
    search.of("between", 2, {});
    failure = search.of("last " + std::to_string(first.form), 2, first.set).set;
    return first.form;
  };
  EXPECT_EQ(walk(), 0U);
  ASSERT_TRUE(search.advance(failure));
  EXPECT_EQ(walk(), 0U);
  ASSERT_TRUE(search.advance(failure));
  EXPECT_EQ(walk(), 1U);
  ASSERT_TRUE(search.advance(failure));
  EXPECT_EQ(walk(), 1U);
  EXPECT_FALSE(search.advance(failure));
}

}  // namespace
}  // namespace rannc::passes
