// Which rule updates which elements: by PyTorch's names and orientation, whatever the exporter stored.
#include "ir/plan/parameter_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace rannc::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// `fc.weight` is transposed; %joined holds two biases and %gates three matrices behind one another; %beside two
// matrices side by side; `head.weight` is the table.
constexpr const char* kGraph = R"(rannc.graph 1
batch batch
input %tokens: i64[batch] samples 0
parameter %table: f32[10,4]
parameter %scale: f32[4]
parameter %w: f32[4,6]
parameter %joined: f32[12]
parameter %gates: f32[12,6]
parameter %beside: f32[6,4]
#0 %e: f32[batch,4] samples 0 = core.gather(%table, %tokens)
#1 %n: f32[batch,4] samples 0 = core.layer_norm(%e, %scale)
#2 %h: f32[batch,6] samples 0 = core.matmul(%n, %w)
#3 %k: f32[batch,12] samples 0 = core.linear(%h, %gates, %joined)
#4 %b: f32[batch,4] samples 0 = core.matmul(%h, %beside)
#5 %y: f32[batch,10] samples 0 = core.linear(%b, %table)
state "wte.weight" [10,4] = %table
state "norm.weight" [4] = %scale
state "fc.weight" [6,4] = %w from [0,0] extent [4,6] axes [1,0]
state "rnn.bias_ih" [6] = %joined from [0] extent [6] axes [0]
state "rnn.bias_hh" [6] = %joined from [6] extent [6] axes [0]
state "rnn.weight" [12,6] = %gates from [4,0] extent [8,6] axes [0,1] + %gates from [0,0] extent [4,6] axes [0,1]
state "left.weight" [6,2] = %beside from [0,0] extent [6,2] axes [0,1]
state "right.weight" [6,2] = %beside from [0,2] extent [6,2] axes [0,1]
state "head.weight" [10,4] = %table
inputs [%tokens]
outputs [%k, %y]
)";

class Updates : public ::testing::Test {
 protected:
  static Grouping grouping(const std::vector<const char*>& groups) {
    Grouping found;
    for (const char* text : groups) found.groups.push_back(parse_group(text).value());
    return found;
  }
  Result<ParameterUpdates> updates(const UpdateRule& rule, const Grouping& grouping = {}) const {
    return ParameterUpdates::of(graph_, rule, grouping);
  }
  std::string fault(const std::vector<const char*>& groups, OptimizerKind kind = OptimizerKind::kAdamW) const {
    const auto found = updates(default_rule(kind, 0.1), grouping(groups));
    return found.ok() ? "" : found.diagnostic().message;
  }
  ValueId value(const char* name) const { return graph_.find(name); }

  const Graph graph_ = parse_graph(kGraph, "t.rir").value();
};

TEST_F(Updates, OfOneRuleAreOneGroup) {
  const ParameterUpdates found = updates(default_rule(OptimizerKind::kAdam, 0.1)).value();
  ASSERT_EQ(found.groups().size(), 1U);
  EXPECT_THAT(found.groups()[0].tensors, ElementsAre("wte.weight", "norm.weight", "fc.weight", "rnn.bias_ih",
                                                     "rnn.bias_hh", "rnn.weight", "left.weight", "right.weight"));
  EXPECT_EQ(found.groups()[0].elements, 40 + 4 + 24 + 12 + 72 + 24) << "a tied tensor counts once";
  EXPECT_EQ(found.state_elements(), 2 * found.groups()[0].elements);
  EXPECT_EQ(found.state_elements(value("w"), 3, 7), 8);
  EXPECT_THAT(found.of(value("w")).states, ElementsAre("exp_avg", "exp_avg_sq"));
}

// Muon takes matrices in the program's orientation, AdamW embeddings and all others.
TEST_F(Updates, OfMuonAreThoseOfMatrices) {
  const ParameterUpdates found = updates(default_rule(OptimizerKind::kMuon, 0.1)).value();
  ASSERT_EQ(found.groups().size(), 2U);
  EXPECT_THAT(found.groups()[0].tensors, ElementsAre("fc.weight", "rnn.weight", "left.weight", "right.weight"));
  EXPECT_THAT(found.groups()[1].tensors, ElementsAre("wte.weight", "norm.weight", "rnn.bias_ih", "rnn.bias_hh"));
  EXPECT_EQ(found.groups()[1].rule.kind, OptimizerKind::kAdamW);
  const StoredUpdate& beside = found.of(value("beside"));
  EXPECT_FALSE(beside.divisible());
  ASSERT_EQ(beside.wholes.size(), 2U);
  EXPECT_THAT(beside.wholes[1].shape, ElementsAre(6, 2));
  EXPECT_THAT(found.of(value("w")).wholes[0].shape, ElementsAre(6, 4)) << "as in PyTorch";
  EXPECT_TRUE(found.of(value("table")).divisible());
  EXPECT_EQ(found.state_elements(), 24 + 72 + 24 + 2 * (40 + 4 + 12));
  // A table that a group names; vectors cannot be matrices.
  const ParameterUpdates named =
      updates(default_rule(OptimizerKind::kAdamW, 0.1), grouping({"wte.*: optimizer=muon", "norm.*: rate=2x"})).value();
  EXPECT_FALSE(named.of(value("table")).divisible());
  EXPECT_TRUE(named.of(value("scale")).divisible());
}

TEST_F(Updates, OfAdafactorKeepRowsAndColumns) {
  const ParameterUpdates found = updates(default_rule(OptimizerKind::kAdafactor, 0.1)).value();
  EXPECT_EQ(found.state_elements(value("w"), 0, 24), 6 + 4);
  EXPECT_EQ(found.state_elements(value("joined"), 0, 12), 12);
}

// Parts of one stored tensor may have rules of their own where they are contiguous.
TEST_F(Updates, DivideStoredTensors) {
  const ParameterUpdates found =
      updates(default_rule(OptimizerKind::kAdamW, 0.1), grouping({"rnn.bias_hh: optimizer=sgd", "head.*: rate=2x"}))
          .value();
  const std::vector<UpdateRun>& runs = found.of(value("joined")).runs;
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(found.groups()[runs[0].group].rule.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(found.groups()[runs[1].group].rule.kind, OptimizerKind::kSgd);
  EXPECT_EQ(runs[1].first, 6);
  EXPECT_EQ(runs[1].last, 12);
  EXPECT_EQ(found.groups()[found.of(value("table")).runs[0].group].rule.learning_rate, 0.2) << "by any of its names";
}

TEST_F(Updates, WithoutDecayAreThoseOfVectors) {
  UpdateRule rule = default_rule(OptimizerKind::kAdamW, 0.1);
  rule.weight_decay = 0.5;
  Grouping grouping{.no_decay = true};
  const auto decayed = [&] {
    std::vector<std::string> names;
    const ParameterUpdates found = updates(rule, grouping).value();
    for (const UpdateGroup& group : found.groups()) {
      if (group.rule.weight_decay != 0) names.insert(names.end(), group.tensors.begin(), group.tensors.end());
    }
    return names;
  };
  EXPECT_THAT(decayed(), ElementsAre("wte.weight", "fc.weight", "rnn.weight", "left.weight", "right.weight"));
  grouping.no_decay_embeddings = true;
  EXPECT_THAT(decayed(), ElementsAre("fc.weight", "rnn.weight", "left.weight", "right.weight"));
  grouping.groups = {parse_group("norm.*: weight_decay=0.25").value()};
  EXPECT_THAT(decayed(), ElementsAre("fc.weight", "rnn.weight", "left.weight", "right.weight", "norm.weight"));
}

TEST_F(Updates, OfWrongGroupsAreRefused) {
  EXPECT_THAT(fault({"fc.bias: rate=1"}),
              HasSubstr("group 'fc.bias' matches no parameter; there are 'wte.weight', 'norm.weight', 'fc.weight' …"));
  EXPECT_THAT(fault({"*.weight: rate=1", "fc.*: rate=2"}),
              HasSubstr("parameter 'fc.weight' is in two groups, '*.weight' and 'fc.*'"));
  EXPECT_THAT(fault({"wte.*: rate=1", "head.*: rate=2"}),
              HasSubstr("parameter 'wte.weight' or 'head.weight' is in two groups"));
  EXPECT_THAT(fault({"norm.*: optimizer=muon"}),
              HasSubstr("group 'norm.*': no parameter that it matches has two axes"));
  EXPECT_THAT(fault({"norm.*: rate=2"}, OptimizerKind::kMuon), IsEmpty()) << "it names no optimizer";
  EXPECT_THAT(fault({"fc.*: momentum=0.5"}), HasSubstr("group 'fc.*': momentum applies to sgd and muon, not to adamw"));
  EXPECT_THAT(fault({"fc.*: optimizer=sgd, nesterov=true"}), HasSubstr("nesterov needs a momentum above 0"));
  EXPECT_THAT(fault({"left.*: weight_decay=1"}),
              HasSubstr("the model stores 'left.weight', 'right.weight' in one tensor, %beside"));
  EXPECT_THAT(fault({"*: optimizer=adafactor"}), IsEmpty());
}

// Places stay when numbers change, so that rates may be replaced in each step.
TEST_F(Updates, KeepTheirGroupsWhenNumbersChange) {
  const UpdateRule rule = default_rule(OptimizerKind::kAdamW, 0.1);
  const auto of = [&](const std::vector<const char*>& groups) { return updates(rule, grouping(groups)).value(); };
  EXPECT_TRUE(of({"fc.*: rate=0.5x"}).have_groups_of(of({"fc.*: rate=1x"})));
  EXPECT_FALSE(of({"fc.*: rate=0.5x"}).have_groups_of(of({})));
  EXPECT_TRUE(of({"fc.*: rate=0.5x"}).have_states_of(of({})));
  EXPECT_FALSE(of({"fc.*: amsgrad=true"}).have_states_of(of({})));
  EXPECT_FALSE(of({"fc.*: optimizer=muon"}).have_states_of(of({"fc.*: optimizer=adafactor"})));
}

std::string refusal(const char* text) {
  const auto group = parse_group(text);
  return group.ok() ? "" : group.diagnostic().message;
}

TEST(Groups, NameWhatIsWrong) {
  EXPECT_THAT(refusal("*.bias"), HasSubstr("'*.bias': expected PATTERN: NAME=VALUE, … such as"));
  EXPECT_THAT(refusal(": rate=1"), HasSubstr("expected PATTERN: NAME=VALUE"));
  EXPECT_THAT(refusal("a: rate"), HasSubstr("expected NAME=VALUE, found 'rate'"));
  EXPECT_THAT(refusal("a: rate=1,"), HasSubstr("expected NAME=VALUE, found ''"));
  EXPECT_THAT(refusal("a: speed=1"), HasSubstr("'speed' is not one of optimizer, rate, weight_decay, momentum"));
  EXPECT_THAT(refusal("a: rate=0"),
              HasSubstr("rate=0: expected a positive number, or a factor of the run's such as 0.1x"));
  EXPECT_THAT(refusal("a: rate=nan"), HasSubstr("rate=nan: expected a positive number"));
  EXPECT_THAT(refusal("a: weight_decay=0.1x"), HasSubstr("weight_decay=0.1x: expected 0 or a positive number"));
  EXPECT_THAT(refusal("a: beta2=1"), HasSubstr("beta2=1: expected a number from 0 to 0.9999999"));
  EXPECT_THAT(refusal("a: amsgrad=1"), HasSubstr("amsgrad=1: expected true or false"));
  EXPECT_THAT(refusal("a: optimizer=lamb"),
              HasSubstr("optimizer 'lamb' is not one of sgd, adam, adamw, lion, muon, adafactor"));
  EXPECT_THAT(refusal("a: rate=1, rate=2"), HasSubstr("rate has two values"));
  EXPECT_THAT(refusal("a: optimizer=lion, momentum=0.5"), HasSubstr("momentum applies to sgd and muon, not to lion"));
}

TEST(Groups, AreWrittenAsTheyAreRead) {
  const ParameterGroup group = parse_group("  *.b?as :rate = 0.1x ,optimizer=sgd, momentum=0.5").value();
  EXPECT_EQ(str(group), "*.b?as: rate=0.1x, optimizer=sgd, momentum=0.5");
  EXPECT_EQ(parse_group(str(group)).value(), group);
  const UpdateRule rule = apply(group, {.kind = OptimizerKind::kAdamW, .learning_rate = 2, .weight_decay = 0.25});
  EXPECT_EQ(rule.kind, OptimizerKind::kSgd);
  EXPECT_EQ(rule.learning_rate, 0.2);
  EXPECT_EQ(rule.momentum, 0.5);
  EXPECT_EQ(rule.weight_decay, 0.25) << "the run's";
}

}  // namespace
}  // namespace rannc::ir
