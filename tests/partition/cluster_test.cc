// Cluster files and presets.
#include "partition/cluster.h"

#include <gtest/gtest.h>

#include <random>

namespace rannc::partition {
namespace {

const char* kTwoNodes = R"(name = "mixed"
[kind.v100]
memory_bytes = 34359738368
flops = 1.05e13
bandwidth = 7.2e11
launch_ns = 6000
[kind.p4]
memory_bytes = 8e9
flops = 5e12
bandwidth = 1.9e11
[between]
bandwidth = 3.125e9
latency_ns = 30000
[[node]]
name = "big"
count = 2
inside = { bandwidth = 25e9, latency_ns = 5000 }
devices = [{ kind = "v100", count = 4 }]
[[node]]
name = "small"
devices = [{ kind = "p4" }, { kind = "v100" }]
inside = { bandwidth = 1e10 }
[[link]]
nodes = [2, 0]
bandwidth = 1e9
[[link]]
devices = [0, 3]
bandwidth = 5e10
)";

TEST(Cluster, ReadsNodesKindsAndUnequalLinks) {
  const Cluster cluster = parse_cluster(kTwoNodes, "c.toml").value();
  ASSERT_EQ(cluster.size(), 10u);
  EXPECT_EQ(cluster.nodes[1].name, "big1");
  EXPECT_EQ(cluster.kind_of(DeviceId(8)).name, "p4");
  EXPECT_EQ(cluster.link(DeviceId(0), DeviceId(1)).bytes_per_second, 25e9);
  EXPECT_EQ(cluster.link(DeviceId(3), DeviceId(0)).bytes_per_second, 5e10);
  EXPECT_EQ(cluster.link(DeviceId(0), DeviceId(4)).bytes_per_second, 3.125e9);
  EXPECT_EQ(cluster.link(DeviceId(9), DeviceId(0)).bytes_per_second, 1e9);
  EXPECT_EQ(cluster.slowest_link({DeviceId(0), DeviceId(1), DeviceId(4)}).bytes_per_second, 3.125e9);
  EXPECT_FALSE(cluster.uniform());
}

TEST(Cluster, PrintsWhatItReads) {
  const Cluster cluster = parse_cluster(kTwoNodes, "c.toml").value();
  EXPECT_EQ(parse_cluster(print_cluster(cluster), "again").value(), cluster);
  for (const char* name : {"dapple-a", "dapple-b", "dapple-c", "rannc-1x8", "rannc-4x8", "local:3", "flat:5"}) {
    const Cluster preset = preset_cluster(name).value();
    EXPECT_EQ(parse_cluster(print_cluster(preset), name).value(), preset) << name;
  }
}

// Table 2 of DAPPLE, with the 16 devices of its experiments (6.2): servers, V100s in each, links within and between.
TEST(Cluster, ClustersOfDapple) {
  struct Row {
    const char* name;
    size_t servers, devices;
    double between_gbps;
  };
  for (const Row& row : {Row{"dapple-a", 2, 8, 25}, Row{"dapple-b", 16, 1, 25}, Row{"dapple-c", 16, 1, 10}}) {
    SCOPED_TRACE(row.name);
    const Cluster cluster = preset_cluster(row.name).value();
    ASSERT_EQ(cluster.nodes.size(), row.servers);
    EXPECT_EQ(cluster.size(), 16u);
    ASSERT_EQ(cluster.kinds.size(), 1u);
    EXPECT_EQ(cluster.kinds[0].name, "v100");
    EXPECT_EQ(cluster.kinds[0].memory_bytes, 16ull << 30);
    for (const ClusterNode& node : cluster.nodes) EXPECT_EQ(node.devices.size(), row.devices);
    EXPECT_EQ(cluster.between.bytes_per_second, row.between_gbps * 1e9 / 8);
    // One GPU a server has no link within; NVLink is far faster than the network.
    const double neighbour = cluster.link(DeviceId(0), DeviceId(1)).bytes_per_second;
    EXPECT_GE(neighbour, row.devices > 1 ? 8 * 25e9 / 8 : row.between_gbps * 1e9 / 8);
    EXPECT_EQ(cluster.link(DeviceId(0), DeviceId(15)).bytes_per_second, row.between_gbps * 1e9 / 8);
  }
}

// A key of TOML stays on its line.
TEST(Cluster, PrintsNamesOfAnyText) {
  Cluster cluster = parse_cluster(kTwoNodes, "c.toml").value();
  cluster.name = "a\n'b' \"c\" \\d\t\x7f\x01 é";
  cluster.kinds[0].name = cluster.name;
  const auto again = parse_cluster(print_cluster(cluster), "again");
  ASSERT_TRUE(again.ok()) << again.diagnostic().str() << "\n" << print_cluster(cluster);
  EXPECT_EQ(print_cluster(*again), print_cluster(cluster));
}

struct Bad {
  const char* text;
  const char* message;
  uint32_t line;
};

TEST(Cluster, ErrorsAreLocated) {
  const std::string kind = "[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\n";
  const Bad cases[] = {
      {"name = ", "", 1},
      {"colour = 1", "unknown key 'colour'", 1},
      {"[kind.a]\nflops = 1\nbandwidth = 1\n[[node]]\n", "'memory_bytes' is missing", 1},
      {"[kind.a]\nmemory_bytes=1\nflops = -3\nbandwidth=1\n", "'flops' is -3", 3},
      {"[kind.a]\nmemory_bytes=1\nflops = nan\nbandwidth=1\n", "'flops' is nan", 3},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\n", "at least one [[node]]", 0},
      {"[{ind.v100]\nmemory_bytes=1\n", "key", 1},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\n[[node]]\ndevices=[{kind=\"b\"}]\n", "kind 'b'", 6},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\n[[node]]\ndevices=[{kind=\"a\",count=0}]\n", "'count' is 0", 6},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\n[[node]]\ncount=1000000\ninside={bandwidth=1}\ndevices=[{kind="
       "\"a\",count=2}]\n",
       "more than 1048576 devices", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\n[[node]]\ndevices=[{kind=\"a\",count=2}]\n",
       "several devices needs 'inside'", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\n[[node]]\ndevices=[{kind=\"a\"}]\n[[link]]\ndevices=[0,0]\n"
       "bandwidth=1",
       "must contain ids|contains the same id twice", 8},
  };
  for (const Bad& bad : cases) {
    const Result<Cluster> result = parse_cluster(bad.text, "bad.toml");
    ASSERT_FALSE(result.ok()) << bad.text;
    const Diagnostic& diagnostic = result.diagnostic();
    EXPECT_EQ(diagnostic.where.file, "bad.toml");
    EXPECT_TRUE(bad.line == 0 || diagnostic.where.line == bad.line) << diagnostic.str();
    const std::string wanted(bad.message);
    const size_t bar = wanted.find('|');
    const bool first = diagnostic.message.find(wanted.substr(0, bar)) != std::string::npos;
    const bool second =
        bar != std::string::npos && diagnostic.message.find(wanted.substr(bar + 1)) != std::string::npos;
    EXPECT_TRUE(first || second) << diagnostic.str();
  }
}

// Any change of a byte gives a cluster or a diagnostic.
TEST(Cluster, MutatedFilesNeverCrash) {
  std::mt19937_64 random(11);
  const std::string original = kTwoNodes;
  for (int i = 0; i < 3000; ++i) {
    std::string text = original;
    for (uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        default:
          text.insert(at, original.substr(random() % original.size(), random() % 12));
          break;
      }
      if (text.empty()) text = "x";
    }
    const Result<Cluster> result = parse_cluster(text, "mutated");
    EXPECT_TRUE(!result.ok() || result->size() >= 1);
  }
}

TEST(Cluster, UnknownPresetListsTheKnown) {
  EXPECT_NE(preset_cluster("dapple-d").diagnostic().message.find("dapple-a"), std::string::npos);
  EXPECT_FALSE(preset_cluster("local:0").ok());
  EXPECT_FALSE(preset_cluster("local:99999999999").ok());
}

TEST(Cluster, FirstKeepsWholePrefix) {
  const Cluster part = preset_cluster("rannc-4x8")->first(11);
  EXPECT_EQ(part.size(), 11u);
  ASSERT_EQ(part.nodes.size(), 2u);
  EXPECT_EQ(part.nodes[1].devices.size(), 3u);
}

}  // namespace
}  // namespace rannc::partition
