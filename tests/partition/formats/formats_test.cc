// Readers and writers of published profiles.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "ir/base/replacement.h"
#include "partition/formats/pipedream_text.h"
#include "partition/formats/placement_json.h"

namespace rannc::partition {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProfile =
    "node2 -- Conv2d(3, 64, kernel_size=(3, 3)) -- forward_compute_time=1.500, backward_compute_time=2.250, "
    "activation_size=1000.000, parameter_size=40.000 -- stage_id=1\n"
    "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=[6; 1; 1], "
    "parameter_size=0.000\n"
    "\tnode1 -- node2\n";

TEST(PipedreamText, ReadsNodesInAnyOrderListsAndStages) {
  const auto profile = read_pipedream(kProfile, "p.txt");
  ASSERT_TRUE(profile.ok()) << profile.diagnostic().str();
  ASSERT_EQ(profile->nodes.size(), 2u);
  EXPECT_EQ(profile->nodes[0].description, "Conv2d(3, 64, kernel_size=(3, 3))");
  EXPECT_EQ(profile->nodes[0].stage, 1u);
  EXPECT_DOUBLE_EQ(profile->nodes[1].activation_sum(), 8);
  EXPECT_EQ(profile->edges, (std::vector<std::pair<uint32_t, uint32_t>>{{1, 0}}));
  const Dag dag = dag_of_profile(*profile, 1e3, 2);
  EXPECT_DOUBLE_EQ(dag.work(0), 3.75);
  EXPECT_DOUBLE_EQ(dag.value_cost[0], 16) << "8 bytes there and back at 1,000 a second, in ms";
  EXPECT_TRUE(validate(dag).ok());
}

// Some of DAPPLE's profiles put a blank before the tab, or only a blank.
TEST(PipedreamText, EdgesBeginWithAnyWhiteSpace) {
  const auto plain = read_pipedream(kProfile, "p.txt");
  const std::string good(kProfile), nodes = good.substr(0, good.find('\t'));
  for (const char* indent : {" \t", " ", "   ", "\t ", "\t\t"}) {
    const auto profile = read_pipedream(nodes + indent + "node1 -- node2\n", "p.txt");
    ASSERT_TRUE(profile.ok()) << '"' << indent << '"' << profile.diagnostic().str();
    EXPECT_EQ(profile->edges, plain->edges);
  }
}

TEST(PipedreamText, RoundTrips) {
  const auto profile = read_pipedream(kProfile, "p.txt");
  const auto again = read_pipedream(write_pipedream(*profile), "again");
  ASSERT_TRUE(again.ok()) << again.diagnostic().str();
  EXPECT_EQ(*profile, *again);
}

TEST(PipedreamText, NamesTheLineAndTheFault) {
  const auto fault = [](const std::string& text) {
    const auto profile = read_pipedream(text, "p.txt");
    return profile.ok() ? std::string("none") : profile.diagnostic().str();
  };
  const std::string good(kProfile);
  EXPECT_NE(fault(good + "\tnode1 -- node9\n").find("p.txt:4: error: the edge names 'node9'"), std::string::npos)
      << fault(good + "\tnode1 -- node9\n");
  EXPECT_NE(fault(good + "node1 -- x -- forward_compute_time=0, backward_compute_time=0, activation_size=0, "
                         "parameter_size=0\n")
                .find("'node1' is defined twice"),
            std::string::npos);
  EXPECT_NE(fault("node1 -- x -- forward_compute_time=abc, backward_compute_time=0\n").find("'abc'"),
            std::string::npos);
  EXPECT_NE(fault("node1 -- x -- forward_compute_time=1\n").find("'backward_compute_time' is missing"),
            std::string::npos);
  EXPECT_NE(fault("hello\n").find("p.txt:1"), std::string::npos);
}

TEST(PlacementJson, OrdersClassesAsTheirInputsMeanIt) {
  // 0 -> 1 forward; 2, 3 their backward nodes; 4 a backward node whose class has no forward node.
  const std::string text = R"({"maxFPGAs": 2, "maxSizePerFPGA": 100.0, "nodes": [
    {"id": 0, "fpgaLatency": 1, "size": 1, "colorClass": 7, "isBackwardNode": 0},
    {"id": 1, "fpgaLatency": 2, "size": 1, "colorClass": 8, "isBackwardNode": false},
    {"id": 2, "fpgaLatency": 3, "size": 1, "colorClass": 8, "isBackwardNode": true},
    {"id": 3, "fpgaLatency": 4, "size": 1, "colorClass": 7, "isBackwardNode": 1},
    {"id": 4, "fpgaLatency": 5, "size": 1, "colorClass": 9, "isBackwardNode": 1}],
    "edges": [{"sourceId": 0, "destId": 1, "cost": 2}, {"sourceId": 2, "destId": 3, "cost": 3},
              {"sourceId": 2, "destId": 4, "cost": 3}]})";
  const auto input = read_placement(text, "x.json");
  ASSERT_TRUE(input.ok()) << input.diagnostic().str();
  EXPECT_EQ(input->devices, 2u);
  EXPECT_EQ(input->source.order, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 1}, {4, 2}}));
  const auto problem = make_split_problem(input->source);
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->units(), 3u);
}

TEST(PlacementJson, NamesTheFault) {
  const auto fault = [](const std::string& text) {
    const auto input = read_placement(text, "x.json");
    return input.ok() ? std::string("none") : input.diagnostic().str();
  };
  EXPECT_NE(fault("{").find("not JSON"), std::string::npos);
  EXPECT_NE(fault("[]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(fault(R"({"maxFPGAs": 2})").find("maxSizePerFPGA"), std::string::npos);
  EXPECT_NE(fault(R"({"maxFPGAs": 2, "maxSizePerFPGA": 1, "nodes": [{"id": 3}], "edges": []})")
                .find("'fpgaLatency' is missing"),
            std::string::npos);
  EXPECT_NE(fault(R"({"maxFPGAs": 2, "maxSizePerFPGA": 1, "nodes": [], "edges": [{"sourceId": 1, "destId": 2}]})")
                .find("names no node"),
            std::string::npos);
}

// Their text would be made by a recursion as deep as the file says.
TEST(PlacementJson, NamesAreNumbersOrTexts) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  for (const std::string field : {"id", "colorClass"}) {
    const auto input = read_placement(R"({"maxFPGAs": 2, "maxSizePerFPGA": 1, "edges": [], "nodes": [{")" + field +
                                          "\": " + deep + R"(, "fpgaLatency": 1, "size": 1}]})",
                                      "x.json");
    ASSERT_FALSE(input.ok());
    EXPECT_NE(input.diagnostic().str().find("'" + field + "' is neither"), std::string::npos);
  }
  const auto edge = read_placement(
      R"({"maxFPGAs": 2, "maxSizePerFPGA": 1, "nodes": [], "edges": [{"sourceId": )" + deep + R"(, "destId": 2}]})",
      "x.json");
  EXPECT_FALSE(edge.ok());
}

TEST(Formats, MutatedFilesNeverCrash) {
  std::mt19937_64 random(3);
  const std::string json = R"({"maxFPGAs": 2, "maxSizePerFPGA": 100.0, "nodes": [{"id": 0, "fpgaLatency": 1, "size": 1,
    "colorClass": 7, "isBackwardNode": 0}, {"id": 1, "fpgaLatency": 2, "size": 1}],
    "edges": [{"sourceId": 0, "destId": 1, "cost": 2}]})";
  uint32_t read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = i % 2 ? std::string(kProfile) : json;
    for (uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 5);
      } else if (random() % 2) {
        text[at] = static_cast<char>(random() % 128);
      } else {
        text.insert(at, text.substr(random() % text.size(), random() % 12));
      }
      if (text.empty()) text = " ";
    }
    if (i % 2) {
      const auto profile = read_pipedream(text, "m");
      if (profile.ok()) {
        ++read;
        (void)validate(dag_of_profile(*profile, 1e9, 1)).ok();
      }
    } else {
      const auto input = read_placement(text, "m");
      if (input.ok()) {
        ++read;
        (void)make_split_problem(input->source).ok();
      }
    }
  }
  EXPECT_GT(read, 100u);
}

TEST(Published, EveryProfileIsReadAndRoundTrips) {
  const char* set = std::getenv("RANNC_SHARED_DIR");
  const fs::path shared = set != nullptr ? fs::path(set) : fs::path(RANNC_SOURCE_DIR) / ".." / "shared";
  if (!fs::is_directory(shared / "data")) GTEST_SKIP() << "no folder ../shared/data";
  uint32_t files = 0;
  for (const char* folder : {"pipedream", "dapple"}) {
    for (const auto& entry : fs::directory_iterator(shared / "data" / folder)) {
      if (entry.path().extension() != ".txt") continue;
      const auto profile = read_pipedream(read_file(entry.path()).value(), entry.path().string());
      ASSERT_TRUE(profile.ok()) << profile.diagnostic().str();
      EXPECT_EQ(*read_pipedream(write_pipedream(*profile), "again"), *profile) << entry.path();
      EXPECT_TRUE(validate(dag_of_profile(*profile, 25e9, 2)).ok()) << entry.path();
      ++files;
    }
  }
  EXPECT_GE(files, 14u);
}

}  // namespace
}  // namespace rannc::partition
