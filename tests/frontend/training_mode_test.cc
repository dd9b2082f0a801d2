// What the exported program did in training mode and the file does not is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "tests/frontend/support/onnx_text.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::frontend {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

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

TEST(TrainingMode, NormalisationsWithFixedStatisticsThatWereToTrainAreAWarning) {
  const ImportNotes notes = notes_of("y = BatchNormalization (x, s, b, m, v)",
                                     {"aten.batch_norm.default](args = (%x, %w, %b, %m, %v, True, 0.1, 1e-05, True)"});
  EXPECT_THAT(notes.counted_warnings, ElementsAre(Pair(HasSubstr("in training mode"), 1)));
}

TEST(TrainingMode, WhatTrainsOrWasNotToTrainIsNone) {
  const std::string trains = "y, n, w = BatchNormalization <training_mode = 1> (x, s, b, m, v)";
  EXPECT_THAT(notes_of(trains, {kTraining}).counted_warnings, IsEmpty());
  for (const char* const nodes : {"y = BatchNormalization (x, s, b, m, v)", "y = Conv (x, k, b)"}) {
    EXPECT_THAT(notes_of(nodes, {kEvaluation}).counted_warnings, IsEmpty());
    EXPECT_THAT(notes_of(nodes, {""}).counted_warnings, IsEmpty());
  }
}

TEST(TrainingMode, FoldedNormalisationsAreARemark) {
  EXPECT_THAT(notes_of("c = Conv (x, k, b)\n y = Conv (c, k, b)", {kEvaluation, kEvaluation}).counted_remarks,
              ElementsAre(Pair(HasSubstr("folded into weights"), 1)))
      << "one call";
  EXPECT_THAT(notes_of("y = BatchNormalization (x, s, b, m, v)", {kEvaluation}).counted_remarks, IsEmpty());
}

TEST(TrainingMode, LostDropoutsAreAWarning) {
  const std::string attention = "aten.scaled_dot_product_attention.default](args = (%q, %k, %v, %m, 0.1)";
  const std::string dropout = "aten.native_dropout.default](args = (%x, 0.1, True)";
  EXPECT_THAT(notes_of("c = Relu (x)\n y = Relu (c)", {attention, attention}).counted_warnings,
              ElementsAre(Pair(HasSubstr("dropouts of the exported program are not in the file"), 1)));
  EXPECT_THAT(notes_of("y = Identity (x)", {dropout}).counted_warnings, ElementsAre(Pair(HasSubstr("dropouts"), 1)));
  EXPECT_THAT(notes_of("y = Dropout (x, ratio, on)", {dropout}).counted_warnings, IsEmpty());
  EXPECT_THAT(notes_of("y = Relu (x)", {"aten.native_dropout.default](args = (%x, 0.1, False)"}).counted_warnings,
              IsEmpty());
  EXPECT_THAT(notes_of("y = Relu (x)", {"aten.native_dropout.default](args = (%x, 0.0, True)"}).counted_warnings,
              IsEmpty());
}

TEST(TrainingMode, DropoutsThatAreOffBesideOthersThatAreOnAreAWarning) {
  const std::string off = "c = Dropout (x, ratio)\n";
  EXPECT_THAT(notes_of(off + "y = Dropout (c, ratio, on)", {}).counted_warnings,
              ElementsAre(Pair(HasSubstr("have no training_mode and are off"), 1)));
  EXPECT_THAT(notes_of(off + "y = Dropout (c, ratio)", {}).counted_warnings, IsEmpty());
  EXPECT_THAT(notes_of("y = Dropout (x, ratio, on)", {}).counted_warnings, IsEmpty());
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
  EXPECT_THAT(notes("resnet_folded_dynamo").counted_warnings, IsEmpty());
  EXPECT_THAT(notes("resnet_folded_dynamo").counted_remarks, ElementsAre(Pair(HasSubstr("folded"), 23)));
  EXPECT_THAT(notes("resnet_unfolded_dynamo").counted_remarks, IsEmpty());
  EXPECT_THAT(notes("bert_dropout_legacy").counted_warnings, ElementsAre(Pair(HasSubstr("have no training_mode"), 4)));
  EXPECT_THAT(notes("vgg_dropout_legacy").counted_warnings, IsEmpty());
  EXPECT_THAT(notes("bert_dropout_dynamo").counted_warnings, ElementsAre(Pair(HasSubstr("dropouts"), 4)));
}

}  // namespace
}  // namespace rannc::frontend
