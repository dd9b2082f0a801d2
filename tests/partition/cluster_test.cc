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
  for (const char* name : {"dapple-a", "dapple-b", "dapple-c", "dapple-a-4x8", "rannc-1x8", "rannc-4x8", "torchgpipe-8",
                           "local:3", "flat:5", "b200-1", "v100-8", "3x-a100-40-8"}) {
    const Cluster preset = preset_cluster(name).value();
    EXPECT_EQ(parse_cluster(print_cluster(preset), name).value(), preset) << name;
  }
}

// As the papers describe what they measured on.
TEST(Cluster, PresetsOfPapersHaveTheirSizes) {
  const Cluster wide = preset_cluster("dapple-a-4x8").value(), narrow = preset_cluster("dapple-a").value();
  EXPECT_EQ(wide.size(), 32u);
  EXPECT_EQ(wide.first(16).size(), narrow.size());
  EXPECT_EQ(wide.kinds, narrow.kinds);
  EXPECT_EQ(wide.between, narrow.between);
  const Cluster gpipe = preset_cluster("torchgpipe-8").value();
  EXPECT_EQ(gpipe.size(), 8u);
  EXPECT_EQ(gpipe.nodes.size(), 1u);
  EXPECT_EQ(gpipe.kinds[0].memory_bytes, 22ull << 30);
}

// A kind with one rate prints as before there were several, which keeps the digests of plans.
TEST(Cluster, KindsWithOneRatePrintOneNumber) {
  const std::string text = print_cluster(preset_cluster("flat:2").value());
  EXPECT_NE(text.find("\nflops = 10500000000000\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("device = "), std::string::npos) << text;
}

Result<Cluster> with_kind(const std::string& fields) {
  return parse_cluster("[kind.a]\nmemory_bytes=1\nbandwidth=1\n" + fields + "\n[[node]]\ndevices=[{kind=\"a\"}]\n",
                       "a.toml");
}

TEST(Cluster, RatesFollowTheElementType) {
  const FlopRates one = with_kind("flops = 5e12")->kinds[0].flops_per_second;
  for (const auto type : {ir::DType::kF16, ir::DType::kBF16, ir::DType::kF32, ir::DType::kF64, ir::DType::kI64}) {
    EXPECT_EQ(one.of(type), 5e12) << ir::str(type);
    EXPECT_EQ(one.of(type, Tf32::kAllowed), 5e12) << ir::str(type);
  }
  const Cluster cluster = with_kind("flops = { f32 = 4e13, tf32 = 3e14, bf16 = 6e14, f64 = 2e13 }").value();
  const FlopRates& rates = cluster.kinds[0].flops_per_second;
  EXPECT_EQ(rates.of(ir::DType::kF32), 4e13);
  EXPECT_EQ(rates.of(ir::DType::kF32, Tf32::kAllowed), 3e14);
  EXPECT_EQ(rates.of(ir::DType::kBF16), 6e14);
  EXPECT_EQ(rates.of(ir::DType::kBF16, Tf32::kAllowed), 6e14);
  EXPECT_EQ(rates.of(ir::DType::kF64), 2e13);
  EXPECT_EQ(rates.of(ir::DType::kF16), 4e13) << "as f32, where the file has no rate";
  EXPECT_EQ(rates.of(ir::DType::kI32), 4e13);
  EXPECT_EQ(parse_cluster(print_cluster(cluster), "again").value(), cluster);
}

TEST(Cluster, KindsHaveAnInstructionSet) {
  const std::string text = print_cluster(with_kind("flops = 1").value());
  EXPECT_EQ(with_kind("flops = 1")->kinds[0].instructions, ir::InstructionSet::kAvx512);
  EXPECT_EQ(text.find("instructions"), std::string::npos) << "digests of older plans: " << text;
  for (const ir::InstructionSet set : ir::kInstructionSets) {
    const auto cluster = with_kind("flops = 1\ninstructions = '" + std::string(ir::str(set)) + "'");
    ASSERT_TRUE(cluster.ok()) << cluster.diagnostic().str();
    EXPECT_EQ(cluster->kinds[0].instructions, set);
    EXPECT_EQ(cluster->instruction_sets(), std::vector{set});
    EXPECT_EQ(parse_cluster(print_cluster(*cluster), "again").value(), *cluster);
  }
}

TEST(Cluster, KindsHaveADeviceType) {
  EXPECT_EQ(with_kind("flops = 1")->kinds[0].type, ir::DeviceType::kCpu);
  const Cluster cluster = with_kind("flops = 1\ndevice = \"cuda\"").value();
  EXPECT_EQ(cluster.kinds[0].type, ir::DeviceType::kCuda);
  EXPECT_EQ(parse_cluster(print_cluster(cluster), "again").value(), cluster);
}

TEST(Cluster, RatesOfKernels) {
  EXPECT_EQ(with_kind("flops = 1")->kinds[0].kernels, KernelRates());
  const Cluster cluster =
      with_kind(
          "flops = { f32 = 4e13, bf16 = 6e14 }\nconvolution = 2e13\nattention = { f32 = 3e13, bf16 = 1e14 }\n"
          "flash_attention = { f32 = 3e13, bf16 = 2e14 }\n"
          "batch_norm = { channels_first = 1e11, channels_last = 3e11 }\nmultiprocessors = 132\nworkspace_bytes = 4096")
          .value();
  const KernelRates& kernels = cluster.kinds[0].kernels;
  EXPECT_EQ(kernels.convolution, FlopRates(2e13));
  EXPECT_EQ(kernels.attention.value().bf16, 1e14);
  EXPECT_EQ(kernels.attention.value().f64, 3e13);
  EXPECT_EQ(kernels.flash_attention.value().bf16, 2e14);
  EXPECT_EQ(kernels.batch_norm, 1e11);
  EXPECT_EQ(kernels.batch_norm_channels_last, 3e11);
  EXPECT_EQ(kernels.multiprocessors, 132u);
  EXPECT_EQ(cluster.kinds[0].workspace_bytes, 4096u);
  EXPECT_EQ(parse_cluster(print_cluster(cluster), "again").value(), cluster);
}

TEST(Cluster, NodesOfGpus) {
  const Cluster one = preset_cluster("h100-1").value();
  EXPECT_EQ(one.size(), 1u);
  const Cluster cluster = preset_cluster("2x-h100-8").value();
  ASSERT_EQ(cluster.nodes.size(), 2u);
  EXPECT_EQ(cluster.size(), 16u);
  EXPECT_EQ(cluster.devices[15].name, "node1/h100:7");
  const DeviceKind& kind = cluster.kinds[0];
  EXPECT_EQ(kind, one.kinds[0]);
  EXPECT_EQ(kind.type, ir::DeviceType::kCuda);
  EXPECT_DOUBLE_EQ(kind.flops_per_second.of(ir::DType::kBF16), 989.4e12 * 0.6);
  EXPECT_DOUBLE_EQ(kind.flops_per_second.of(ir::DType::kF32), 67e12 * 0.68);
  EXPECT_DOUBLE_EQ(kind.bytes_per_second, 3350e9 * 4 / 5);
  EXPECT_DOUBLE_EQ(cluster.link(DeviceId(0), DeviceId(7)).bytes_per_second, 450e9 * 4 / 5);
  EXPECT_DOUBLE_EQ(cluster.link(DeviceId(7), DeviceId(8)).bytes_per_second, 400e9 / 8 * 4 / 5);
}

TEST(Cluster, GpusOfCapability8HaveFlashAttention) {
  for (const char* name : {"a100-40-1", "a100-80-1", "h100-1", "h200-1", "b200-1"})
    EXPECT_TRUE(preset_cluster(name)->kinds[0].kernels.flash_attention) << name;
  EXPECT_FALSE(preset_cluster("v100-1")->kinds[0].kernels.flash_attention);
}

// Peak rates, GB/s of memory and to another GPU, GiB that CUDA reports.
TEST(Cluster, GpusHaveTheRatesOfTheirDataSheets) {
  struct Row {
    const char* name;
    double f32, tf32, bf16, f16, f64, memory, nvlink, infiniband, gib;
  };
  for (const Row& row : {Row{"v100-2", 15.7, 15.7, 15.7, 125, 7.8, 900, 25, 6.25, 31.7},
                         Row{"a100-40-2", 19.5, 156, 312, 312, 19.5, 1555, 300, 25, 39.4},
                         Row{"a100-80-2", 19.5, 156, 312, 312, 19.5, 2039, 300, 25, 79.1},
                         Row{"h100-2", 67, 494.7, 989.4, 989.4, 67, 3350, 450, 50, 79.1},
                         Row{"h200-2", 67, 494.7, 989.4, 989.4, 67, 4800, 450, 50, 139.8},
                         Row{"b200-2", 75, 1125, 2250, 2250, 37, 8000, 900, 50, 178.3}}) {
    SCOPED_TRACE(row.name);
    const Cluster cluster = preset_cluster("2x-" + std::string(row.name)).value();
    const DeviceKind& kind = cluster.kinds[0];
    const auto rate = [&](ir::DType type, Tf32 tf32 = Tf32::kNever) {
      const double achieved = kind.flops_per_second.of(type, tf32) / 1e12;
      return achieved > row.f32 ? achieved / 0.6 : achieved / 0.68;  // tensor cores, or others
    };
    EXPECT_NEAR(rate(ir::DType::kF32), row.f32, 1e-9);
    EXPECT_NEAR(rate(ir::DType::kF32, Tf32::kAllowed), row.tf32, 1e-9);
    EXPECT_NEAR(rate(ir::DType::kBF16), row.bf16, 1e-9);
    EXPECT_NEAR(rate(ir::DType::kF16), row.f16, 1e-9);
    EXPECT_NEAR(rate(ir::DType::kF64), row.f64, 1e-9);
    EXPECT_NEAR(kind.bytes_per_second / 1e9 * 5 / 4, row.memory, 1e-9);
    EXPECT_NEAR(cluster.nodes[0].inside.bytes_per_second / 1e9 * 5 / 4, row.nvlink, 1e-9);
    EXPECT_NEAR(cluster.between.bytes_per_second / 1e9 * 5 / 4, row.infiniband, 1e-9);
    EXPECT_NEAR(static_cast<double>(kind.memory_bytes) / (1 << 30), row.gib - 2, 1e-6);
  }
}

TEST(Cluster, KnowsGpusByTheNamesOfDrivers) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  struct Row {
    const char* model;
    uint64_t gib;
    const char* kind;  ///< empty: unknown
  };
  for (const Row& row :
       {Row{"Tesla V100-SXM2-32GB", 31, "v100"}, Row{"NVIDIA A100-SXM4-40GB", 39, "a100-40"},
        Row{"NVIDIA A100-SXM4-80GB", 79, "a100-80"}, Row{"NVIDIA H100 80GB HBM3", 79, "h100"},
        Row{"NVIDIA H200", 139, "h200"}, Row{"NVIDIA B200", 178, "b200"}, Row{"NVIDIA A100-PCIE-40GB", 39, ""},
        Row{"NVIDIA A100 80GB PCIe", 79, ""}, Row{"NVIDIA H100 PCIe", 79, ""}, Row{"NVIDIA H100 NVL", 93, ""},
        Row{"NVIDIA H200 NVL", 140, ""}, Row{"NVIDIA GH200 480GB", 94, ""}, Row{"NVIDIA GB200", 184, ""},
        Row{"NVIDIA RTX A1000", 6, ""}, Row{"NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9, ""},
        Row{"NVIDIA GeForce RTX 4090", 24, ""}}) {
    SCOPED_TRACE(row.model);
    const auto found = cluster_of_gpus(row.model, row.gib * kGib, 4);
    ASSERT_EQ(found.ok(), *row.kind != '\0');
    if (!found.ok()) {
      EXPECT_NE(found.diagnostic().message.find(row.model), std::string::npos);
      continue;
    }
    EXPECT_EQ(found->kinds[0].name, row.kind);
    EXPECT_EQ(found->kinds[0].memory_bytes, (row.gib - 2) * kGib);
    EXPECT_EQ(found->size(), 4u);
  }
}

// From one generation to the next, memory, rates of products below f64 and links never fall.
TEST(Cluster, GenerationsOfGpusGrow) {
  const char* const names[] = {"v100-8", "a100-40-8", "a100-80-8", "h100-8", "h200-8", "b200-8"};
  for (size_t i = 0; i + 1 < std::size(names); ++i) {
    SCOPED_TRACE(names[i]);
    const Cluster older = preset_cluster(names[i]).value(), newer = preset_cluster(names[i + 1]).value();
    const DeviceKind &a = older.kinds[0], &b = newer.kinds[0];
    EXPECT_LE(a.memory_bytes, b.memory_bytes);
    EXPECT_LE(a.bytes_per_second, b.bytes_per_second);
    for (const auto type : {ir::DType::kF16, ir::DType::kBF16, ir::DType::kF32})
      EXPECT_LE(a.flops_per_second.of(type), b.flops_per_second.of(type)) << ir::str(type);
    EXPECT_LE(a.flops_per_second.of(ir::DType::kF32), a.flops_per_second.of(ir::DType::kF32, Tf32::kAllowed));
    EXPECT_LE(older.nodes[0].inside.bytes_per_second, newer.nodes[0].inside.bytes_per_second);
    EXPECT_LE(older.between.bytes_per_second, newer.between.bytes_per_second);
    EXPECT_LT(newer.between.bytes_per_second, newer.nodes[0].inside.bytes_per_second);
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
      {"[kind.a]\nmemory_bytes=1\nflops={tf32=1}\nbandwidth=1\n", "'f32' is missing", 3},
      {"[kind.a]\nmemory_bytes=1\nflops={f32=1, fp16=1}\nbandwidth=1\n", "unknown key 'fp16' in flops", 3},
      {"[kind.a]\nmemory_bytes=1\nflops={f32=1, bf16=0}\nbandwidth=1\n", "'bf16' is 0", 3},
      {"[kind.a]\nmemory_bytes=1\nflops={f32=1, f16='x'}\nbandwidth=1\n", "'f16' must be a number", 3},
      {"[kind.a]\nmemory_bytes=1\nflops='fast'\nbandwidth=1\n", "'flops' must be a number", 3},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\nattention={bf16=1}\n", "'f32' is missing", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\nconvolution=0\n", "'convolution' is 0", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\nconvolution={f32=1, int8=1}\n",
       "unknown key 'int8' in convolution", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\nbatch_norm=1\n", "batch_norm must be a table", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\nbatch_norm={channels_last=1}\n", "'channels_first' is missing",
       5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\nmultiprocessors=0\n", "'multiprocessors' is 0", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\ndevice='CUDA:0'\n", "'device' is 'CUDA:0'", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\ndevice=''\n", "'device' is ''", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\ndevice=1\n", "'device' must be a string", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\ninstructions='AVX2'\n", "'instructions' is 'AVX2'", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\ninstructions=512\n", "'instructions' must be a string", 5},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\n", "at least one [[node]]", 0},
      {"[kind.a]\nmemory_bytes=1\nflops=1\nbandwidth=1\n[kind.b]\nmemory_bytes=1\nflops=1\nbandwidth=1\ndevice='cuda'"
       "\n",
       "[kind.b] is of device type cuda and [kind.a] of cpu", 5},
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
  for (const char* name : {"h100", "h100-", "h100-0", "h100-9", "h300-8", "0x-h100-8", "x-h100-8", "-1x-h100-8",
                           "1025x-h100-8", "2x-h100", "2x-", "2x-2x-h100-8", "h100-8 "}) {
    EXPECT_FALSE(preset_cluster(name).ok()) << name;
  }
}

TEST(Cluster, NamesTheKindsOfItsDevices) {
  Cluster cluster = preset_cluster("h100-2").value();
  cluster.kinds.insert(cluster.kinds.begin(), DeviceKind{.name = "unused"});
  cluster.kinds.push_back(DeviceKind{.name = "cpu"});
  for (ClusterDevice& device : cluster.devices) device.kind = 1;
  EXPECT_EQ(cluster.used_kinds(), std::vector<std::string>{"h100"});
  cluster.devices[0].kind = 2;
  EXPECT_EQ(cluster.used_kinds(), (std::vector<std::string>{"h100", "cpu"}));
}

TEST(Cluster, FirstKeepsWholePrefix) {
  const Cluster part = preset_cluster("rannc-4x8")->first(11);
  EXPECT_EQ(part.size(), 11u);
  ASSERT_EQ(part.nodes.size(), 2u);
  EXPECT_EQ(part.nodes[1].devices.size(), 3u);
}

}  // namespace
}  // namespace rannc::partition
