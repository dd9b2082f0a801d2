// Instruction sets of this machine, as oneDNN limits them.
#include "tools/common/machine.h"

#include <gtest/gtest.h>

namespace rannc::tools {
namespace {

using enum ir::InstructionSet;

TEST(Machine, LimitsInstructionsAsOneDnnDoes) {
  EXPECT_EQ(limited_instructions(kAvx512, "SSE41"), kSse41);
  EXPECT_EQ(limited_instructions(kAvx512, "AVX"), kAvx);
  for (const char* limit : {"AVX2", "avx2", "AVX2_VNNI", "AVX2_VNNI_2"}) {
    EXPECT_EQ(limited_instructions(kAvx512, limit), kAvx2) << limit;
  }
  EXPECT_EQ(limited_instructions(kAvx, "AVX2"), kAvx) << "a limit adds nothing";
  for (const char* limit : {"", "DEFAULT", "ALL", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_AMX", "AVX3"}) {
    EXPECT_EQ(limited_instructions(kAvx512, limit), kAvx512) << limit;
    EXPECT_EQ(limited_instructions(kAvx2, limit), kAvx2) << limit;
  }
}

}  // namespace
}  // namespace rannc::tools
