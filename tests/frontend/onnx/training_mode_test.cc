// What training the exported program had and the file does not is noted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "onnx/onnx_pb.h"
#include "tests/frontend/support/onnx_text.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::frontend {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const std::string kTraining =
    "aten._native_batch_norm_legit_functional.default](args = (%c, %w, %b, %m, %v, True, 0.1, 1e-05)";
const std::string kEvaluation =
    "aten._native_batch_norm_legit_no_training.default](args = (%c, %w, %b, %m, %v, 0.1, 1e-05)";

ImportNotes notes_of(const std::string& nodes, const std::vector<std::string>& calls) {
  const std::string graph =
      "agraph (float[batch, 2, 3, 3] x) => (float[batch, 2, 3, 3] y) <float[2, 2, 1, 1] k = {1, 2, 3, 4}, float[2] s = "
      "{1, 2}, "
      "float[2] b = {1, 2}, float[2] m = {1, 2}, float[2] v = {1, 2}, float ratio = {0.1}, bool on = {1}> { " +
      nodes + " }";
  const auto imported = read_onnx_bytes(test::traced_model(graph, 18, calls), "test.onnx");
  EXPECT_TRUE(imported.ok()) << imported.diagnostic().str();
  return imported.ok() ? imported->notes : ImportNotes();
}

TEST(TrainingMode, FoldedNormalisationsThatWereToTrainAreAWarning) {
  const ImportNotes notes = notes_of("c = Conv (x, k, b)\n y = Relu (c)", {kTraining, ""});
  EXPECT_THAT(notes.counted_warnings,
              ElementsAre(Pair(AllOf(HasSubstr("in training mode"), HasSubstr("inference graph")), 1)));
  EXPECT_THAT(notes.counted_remarks, IsEmpty());
}

TEST(TrainingMode, NormalisationsWithFixedStatisticsThatWereToTrainAreNoted) {
  const ImportNotes notes = notes_of("y = BatchNormalization (x, s, b, m, v)",
                                     {"aten.batch_norm.default](args = (%x, %w, %b, %m, %v, True, 0.1, 1e-05, True)"});
  EXPECT_THAT(notes.training.normalised, ElementsAre("y"));
  EXPECT_THAT(notes.counted_warnings, IsEmpty()) << "trainify warns, where it does not bring them back";
}

TEST(TrainingMode, WhatTrainsOrWasNotToTrainIsNone) {
  const std::string trains = "y, n, w = BatchNormalization <training_mode = 1> (x, s, b, m, v)";
  EXPECT_THAT(notes_of(trains, {kTraining}).counted_warnings, IsEmpty());
  EXPECT_THAT(notes_of(trains, {kTraining}).training.normalised, IsEmpty());
  for (const char* const nodes : {"y = BatchNormalization (x, s, b, m, v)", "y = Conv (x, k, b)"}) {
    EXPECT_THAT(notes_of(nodes, {kEvaluation}).counted_warnings, IsEmpty());
    EXPECT_THAT(notes_of(nodes, {kEvaluation}).training.normalised, IsEmpty());
    EXPECT_THAT(notes_of(nodes, {""}).counted_warnings, IsEmpty());
  }
}

TEST(TrainingMode, FoldedNormalisationsAreWarningsUnderTheirNames) {
  const auto open = notes_of("c = Conv (x, k, b)\n y = Conv (c, k, b)", {kEvaluation, kEvaluation}).warnings;
  EXPECT_THAT(open, ElementsAre(Field(&Note::message, HasSubstr("1 normalizations were folded into weights"))))
      << "one call";
  EXPECT_THAT(notes_of("y = BatchNormalization (x, s, b, m, v)", {kEvaluation}).warnings, IsEmpty());
}

const std::string kAttention = "aten.scaled_dot_product_attention.default](args = (%q, %k, %v, %m, 0.1)";

TEST(TrainingMode, DropoutsThatNoNodeKeepsThePlaceOfAreAWarning) {
  const std::string dropout = "aten.native_dropout.default](args = (%x, 0.1, True)";
  EXPECT_THAT(notes_of("c = Relu (x)\n y = Relu (c)", {kAttention, kAttention}).counted_warnings,
              ElementsAre(Pair(HasSubstr("dropouts of the exported program are not in the file"), 1)));
  EXPECT_THAT(notes_of("y = Relu (x)", {dropout}).counted_warnings, ElementsAre(Pair(HasSubstr("dropouts"), 1)));
  for (const char* const nodes : {"y = Dropout (x, ratio, on)", "y = Identity (x)"}) {
    EXPECT_THAT(notes_of(nodes, {dropout}).counted_warnings, IsEmpty()) << nodes;
  }
  for (const char* const call : {"aten.native_dropout.default](args = (%x, 0.1, False)",
                                 "aten.native_dropout.default](args = (%x, 0.0, True)"}) {
    EXPECT_THAT(notes_of("y = Relu (x)", {call}).counted_warnings, IsEmpty()) << call;
    EXPECT_THAT(notes_of("y = Identity (x)", {call}).training.dropouts, IsEmpty()) << call;
  }
}

TEST(TrainingMode, DropoutsThatAreLeftOutAreNotedAtTheirPlaces) {
  const std::string dropout = "aten.native_dropout.default](args = (%x, 0.25, True)";
  EXPECT_THAT(notes_of("y = Identity (x)", {dropout}).training.dropouts,
              ElementsAre(Pair("y", ir::LostDropout{0.25, true})));
  // The second product is that of attention's weights and its values.
  const std::string attention = "a = MatMul (x, x)\n p = Softmax (a)\n y = MatMul (p, x)";
  EXPECT_THAT(notes_of(attention, {kAttention, kAttention, kAttention}).training.dropouts,
              ElementsAre(Pair("p", ir::LostDropout{0.1, true})));
  const std::string kept = "a = MatMul (x, x)\n p = Softmax (a)\n d = Dropout (p, ratio, on)\n y = MatMul (d, x)";
  EXPECT_THAT(notes_of(kept, {kAttention, kAttention, kAttention, kAttention}).training.dropouts, IsEmpty());
}

// In evaluation mode a dropout is a copy, which the file does not have.
TEST(TrainingMode, CopiesThatMayHaveBeenDropoutsAreOneLine) {
  const auto open = [](const std::vector<std::string>& calls) {
    return notes_of("c = Relu (x)\n d = Relu (c)\n y = Identity (d)", calls).open;
  };
  const std::string linear = "aten.linear.default](args = (%clone, %w, %b)",
                    add = "aten.add.Tensor](args = (%x, %clone_1)";
  EXPECT_THAT(
      open({linear, add, linear}),
      ElementsAre(Field(&Note::message, AllOf(HasSubstr("2 values may be results of dropouts that were off"),
                                              HasSubstr("model.train()"), HasSubstr("--dropout PATTERN=RATIO")))));
  for (const char* const call :
       {"aten.view.default](args = (%clone, [2, 6])", "aten._unsafe_view.default](args = (%clone_12, [2, 6])",
        "aten.relu.default](args = (%x,)", "aten.relu.default](args = (%clones,)"}) {
    EXPECT_THAT(open({call}), IsEmpty()) << call << ": no dropout, or a copy for contiguous()";
  }
  EXPECT_THAT(open({linear, "aten.native_dropout.default](args = (%x, 0.1, True)"}), IsEmpty())
      << "exported in training mode";
}

TEST(TrainingMode, DropoutsThatAreOffAreNotedWithTheirShares) {
  const ir::LostDropout off{0.1f, false}, beside_others{0.1f, true}, usual{0.5, false};
  EXPECT_THAT(notes_of("c = Dropout (x, ratio)\n y = Dropout (c)", {}).training.dropouts,
              UnorderedElementsAre(Pair("c", off), Pair("y", usual)));
  EXPECT_THAT(notes_of("c = Dropout (x, ratio)\n y = Dropout (c, ratio, on)", {}).training.dropouts,
              ElementsAre(Pair("c", beside_others)));
  EXPECT_THAT(notes_of("y = Dropout (x, ratio, on)", {}).training.dropouts, IsEmpty());
}

TEST(TrainingMode, ModulesAreThoseOfScopesAndOfPathsInNames) {
  ONNX_NAMESPACE::ModelProto model;
  const std::string graph =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) { c = Relu (x)\n d = Relu (c)\n y = Relu (d) }";
  ASSERT_TRUE(model.ParseFromString(test::traced_model(graph, 18, {})));
  model.mutable_graph()->mutable_node(0)->set_name("/layer1/layer1.0/act/Relu");
  model.mutable_graph()->mutable_node(1)->set_name("/enc/layer.0/drop.0/Relu");
  auto* const scopes = model.mutable_graph()->mutable_node(2)->add_metadata_props();
  scopes->set_key("pkg.torch.onnx.name_scopes");
  scopes->set_value("['', 'enc', 'enc.layer.1', 'relu']");
  model.mutable_graph()->mutable_node(2)->set_name("node_relu");
  const auto imported = read_onnx_bytes(model.SerializeAsString(), "test.onnx");
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  const ir::TrainingNotes& notes = imported->notes.training;
  EXPECT_THAT(notes.modules, UnorderedElementsAre(Pair("/layer1/layer1.0/act/Relu", "layer1.0.act"),
                                                  Pair("/enc/layer.0/drop.0/Relu", "enc.layer.0.drop.0"),
                                                  Pair("node_relu", "enc.layer.1")));
  EXPECT_THAT(notes.called, UnorderedElementsAre("layer1", "layer1.0", "layer1.0.act", "enc", "enc.layer.0",
                                                 "enc.layer.0.drop.0", "enc.layer.1"));
}

TEST(TrainingMode, DrawsWithoutReplacementAreARemark) {
  const auto remarks = [](const std::string& call, int draws) {
    const std::string graph =
        "agraph (float[batch, 5] x) => (int64[batch, n] y) { y = Multinomial <dtype = 7, sample_size = " +
        std::to_string(draws) + "> (x) }";
    const auto imported = read_onnx_bytes(test::traced_model(graph, 18, {call}), "test.onnx");
    EXPECT_TRUE(imported.ok()) << imported.diagnostic().str();
    return imported.ok() ? imported->notes.counted_remarks : decltype(ImportNotes::counted_remarks)();
  };
  EXPECT_THAT(remarks("aten.multinomial.default](args = (%p, 2)", 2),
              ElementsAre(Pair(HasSubstr("with replacement"), 1)));
  EXPECT_THAT(remarks("aten.multinomial.default](args = (%p, 2, True)", 2), IsEmpty());
  EXPECT_THAT(remarks("aten.multinomial.default](args = (%p, 1)", 1), IsEmpty()) << "one is the same either way";
}

TEST(TrainingMode, OfPublishedExports) {
  const auto models = test::shared_models();
  if (!models) GTEST_SKIP() << "no ../shared/data/models and no RANNC_SHARED_DIR";
  const auto notes = [&](const char* name) { return read_onnx(*models / name / "model.onnx").value().notes; };
  EXPECT_THAT(notes("resnet_asked_training_dynamo").counted_warnings,
              ElementsAre(Pair(HasSubstr("inference graph"), 23)));
  const auto folded = [&](const char* name, const char* text) {
    EXPECT_THAT(notes(name).warnings, Contains(Field(&Note::message, HasSubstr(text)))) << name;
  };
  folded("resnet_folded_dynamo", "23 normalizations were folded into weights by the exporter (bn1, layer1.0.bn1, ");
  folded("mobilenet_v3_folded_dynamo", "normalizations were folded into weights by the exporter");
  folded("unet_folded_dynamo", "normalizations were folded into weights by the exporter");
  folded("resnet_folded_legacy", "23 convolutions have weights and biases with generated names (onnx::Conv_");
  EXPECT_THAT(notes("resnet_unfolded_dynamo").warnings, IsEmpty());
  EXPECT_THAT(notes("resnet_unfolded_legacy_script").warnings, IsEmpty());
  EXPECT_THAT(notes("bert_dropout_legacy").training.dropouts, SizeIs(4));
  EXPECT_THAT(notes("vgg_dropout_legacy").training.dropouts, IsEmpty());
  EXPECT_THAT(notes("bert_dropout_dynamo").training.dropouts, SizeIs(4));
  EXPECT_THAT(notes("bert_dropout_dynamo").counted_warnings, IsEmpty());
}

}  // namespace
}  // namespace rannc::frontend
