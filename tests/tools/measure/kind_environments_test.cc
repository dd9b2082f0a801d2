// Which environment of a profile database prices which kind of device.
#include <gtest/gtest.h>

#include "tools/measure/measure.h"

namespace rannc::tools {
namespace {

using partition::KindEnvironments;

partition::ProfileDatabase database(const std::vector<std::string>& environments) {
  partition::ProfileDatabase made;
  for (const std::string& environment : environments) made.add(environment, "core.exp", 1, {.forward_ns = 1});
  return made;
}

const std::string kH100 = "NVIDIA H100 80GB HBM3", kA40 = "NVIDIA A100-SXM4-40GB", kA80 = "NVIDIA A100-SXM4-80GB";

TEST(KindEnvironments, NameDevicesByTheirWords) {
  const auto measured = database({environment_name(kH100), environment_name(kA40), environment_name(kA80)});
  const KindEnvironments found = kind_environments(measured, {"h100", "a100-80", "h200", "gpu", "1", ""}, {}).value();
  EXPECT_EQ(found, (KindEnvironments{{"h100", environment_name(kH100)}, {"a100-80", environment_name(kA80)}}));
}

TEST(KindEnvironments, NameTheGpusOfThisMachine) {
  struct Row {
    const char* model;
    uint64_t gib;
  };
  for (const Row& row :
       {Row{"Tesla V100-SXM2-32GB", 32}, Row{"NVIDIA A100-SXM4-40GB", 40}, Row{"NVIDIA A100-SXM4-80GB", 80},
        Row{"NVIDIA H100 80GB HBM3", 80}, Row{"NVIDIA H200", 141}, Row{"NVIDIA B200", 180}}) {
    const auto cluster = partition::cluster_of_gpus(row.model, row.gib << 30, 1).value();
    const auto found =
        kind_environments(database({environment_name(std::string(row.model))}), cluster.used_kinds(), {});
    EXPECT_EQ(found->size(), 1U) << row.model;
  }
}

TEST(KindEnvironments, TheProcessorIsThatOfThisMachine) {
  const auto measured = database({environment_name(), environment_name(kH100)});
  EXPECT_EQ(kind_environments(measured, {"cpu"}, {"cpu"}).value(), (KindEnvironments{{"cpu", environment_name()}}));
  EXPECT_TRUE(kind_environments(measured, {"cpu"}, {})->empty());
  EXPECT_EQ(kind_environments(measured, {"h100"}, {"h100"})->at("h100"), environment_name(kH100))
      << "a device that was measured is no processor";
}

TEST(KindEnvironments, OtherVersionsOfTheLibraryDoNotCount) {
  EXPECT_TRUE(kind_environments(database({kH100 + ", libtorch 0.1"}), {"h100"}, {})->empty());
}

TEST(KindEnvironments, SeveralDevicesOfAKindAreAnError) {
  const std::string other = "NVIDIA H100 80GB HBM2e", board = "NVIDIA H100 NVL";
  const auto measured = database({environment_name(kH100), environment_name(other)});
  const std::string message = kind_environments(measured, {"h100"}, {}).diagnostic().message;
  EXPECT_NE(message.find(kH100), std::string::npos) << message;
  EXPECT_NE(message.find(other), std::string::npos) << message;
  EXPECT_EQ(kind_environments(measured, {"nvidia h100 80gb hbm2e"}, {})->begin()->second, environment_name(other));
  const auto with_board = database({environment_name(kH100), environment_name(board)});
  EXPECT_EQ(kind_environments(with_board, {"h100"}, {})->begin()->second, environment_name(kH100));
  EXPECT_EQ(kind_environments(with_board, {"h100 nvl"}, {})->begin()->second, environment_name(board));
  EXPECT_TRUE(kind_environments(database({environment_name(board)}), {"h100"}, {})->empty());
}

}  // namespace
}  // namespace rannc::tools
