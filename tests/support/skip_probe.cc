// Cases that pass, are skipped and fail, for skip_status_test.py to choose from; CTest does not run them.
#include <gtest/gtest.h>

TEST(Probe, Passes) {}
TEST(Probe, Fails) { FAIL() << "as it should"; }
TEST(Probe, Skips) { GTEST_SKIP() << "as it should"; }
TEST(Probe, SkipsToo) { GTEST_SKIP() << "as it should"; }
