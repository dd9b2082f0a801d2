// The source of a name in a model file is known from the name alone.
#include "ir/state/name_source.h"

#include <gtest/gtest.h>

namespace rannc::ir {
namespace {

TEST(NameSource, NamesOfProgramsAreNotSynthetic) {
  for (const char* name : {"weight", "block.0.weight", "val_x", "block_1", "slice_", "p1", "layer.slice_1"}) {
    EXPECT_EQ(source_of_name(name), NameSource::kProgram) << name;
    EXPECT_FALSE(is_synthetic(name)) << name;
  }
}

TEST(NameSource, ExportersNameWhatTheyMake) {
  EXPECT_EQ(source_of_name("onnx::MatMul_7"), NameSource::kFolded);
  EXPECT_EQ(source_of_name("onnx::MatMul_7:unnamed"), NameSource::kFolded);
  EXPECT_EQ(source_of_name("12"), NameSource::kNumber);
  EXPECT_EQ(source_of_name(""), NameSource::kNumber);
  EXPECT_EQ(source_of_name("/layer/Constant_output_0"), NameSource::kNode);
  EXPECT_EQ(source_of_name("val_12"), NameSource::kTraced);
  EXPECT_EQ(source_of_name("slice_1"), NameSource::kTraced);
  EXPECT_EQ(source_of_name("weight:unnamed"), NameSource::kTraced);
}

TEST(NameSource, NamesTellOperatorsAndModules) {
  EXPECT_EQ(reader_of_folded("onnx::Sigmoid_60"), "Sigmoid");
  EXPECT_EQ(traced_op("clamp_min_1"), "clamp_min");
  EXPECT_EQ(traced_op("relu"), "relu");
  EXPECT_EQ(module_of("encoder.layer.0.weight"), "encoder.layer.0");
  EXPECT_EQ(module_of("weight"), "");
  EXPECT_EQ(last_word("encoder.layer.0.weight"), "weight");
  EXPECT_EQ(last_word("weight"), "weight");
}

}  // namespace
}  // namespace rannc::ir
