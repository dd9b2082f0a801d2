#include "tools/compile/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/base/diagnostic.h"
#include "partition/cluster.h"
#include "partition/schedule/family.h"
#include "partition/stages/registry.h"

namespace rannc::tools {

namespace {

using Descriptions = std::map<std::string, std::string, std::less<>>;

const Descriptions kClusters{
    {"local:N", "N workers of this machine"},
    {"local:cuda", "all GPUs of this machine"},
    {"flat:N", "N V100-32GB, all pairs joined by equal links"},
    {"a100-40-N", "a node of N A100-SXM-40GB, up to 8, NVLink"},
    {"a100-80-N", "a node of N A100-SXM-80GB, up to 8, NVLink"},
    {"h100-N", "a node of N H100-SXM-80GB, up to 8, NVLink"},
    {"h200-N", "a node of N H200-SXM-141GB, up to 8, NVLink"},
    {"b200-N", "a node of N B200-180GB, up to 8, NVLink"},
    {"v100-N", "a node of N V100-SXM2-32GB, up to 8, NVLink: for planning only"},
    {"Mx-KIND-N", "M of the nodes above, InfiniBand between: 2x-h100-8"},
    {"dapple-a", "DAPPLE, Table 2: 2 nodes of 8 V100-16GB, NVLink inside, 25 Gbit/s between"},
    {"dapple-b", "DAPPLE, Table 2: 16 nodes of one V100-16GB, 25 Gbit/s"},
    {"dapple-c", "DAPPLE, Table 2: 16 nodes of one V100-16GB, 10 Gbit/s"},
    {"dapple-a-4x8", "DAPPLE 6.6: 4 nodes like those of dapple-a"},
    {"rannc-1x8", "RaNNC IV.A: one node of 8 V100-32GB"},
    {"rannc-4x8", "RaNNC IV.A: 4 nodes of 8 V100-32GB, 100 Gbit/s between"},
    {"torchgpipe-8", "torchgpipe, section 4: a node of 8 P40 of 22 GiB, PCIe"},
};

const Descriptions kPlanners{
    {"auto", "the best plan of its own search and of all planners below, by the simulated timeline"},
    {"exact", "every plan of a small problem"},
    {"rannc", "RaNNC, Algorithms 1 and 2, corrected"},
    {"rannc-paper", "the same as printed in the paper"},
    {"rannc-anchored", "as printed, with V[0,0,0] = 0 only"},
    {"dapple", "DAPPLE, Formulas 1-5 over device sets"},
    {"dapple-released", "the other algorithm of its authors' program"},
    {"pipedream", "PipeDream's hierarchical bottleneck"},
    {"gpipe", "even contiguous stages by time, one device each"},
    {"gpipe-size", "even contiguous stages by size"},
    {"gpipe-exact", "the same by time, exactly"},
    {"gpipe-size-exact", "the same by size, exactly"},
};

const Descriptions kLosses{
    {"cross_entropy", "softmax cross entropy: cross_entropy(output=logits,labels=y,axis=-1,ignore_index=-100)"},
    {"soft_cross_entropy", "the same with probabilities as labels: soft_cross_entropy(output=logits,labels=p)"},
    {"bce_with_logits", "binary cross entropy: bce_with_logits(output=logits,labels=y,pos_weight=3)"},
    {"mse", "mean squared error: mse(output=y,labels=target,weight=0.5)"},
    {"l1", "mean absolute error: l1(output=y,labels=target)"},
    {"huber", "squared below delta, linear above: huber(output=y,labels=target,delta=1)"},
    {"smooth_l1", "huber divided by its threshold: smooth_l1(output=y,labels=target,beta=1)"},
    {"in_graph", "the output is the loss: in_graph(output=loss)"},
};

const Descriptions kOptimizers{
    {"sgd", "no state, or one copy of the parameters with --momentum"},
    {"adam", "two copies of the parameters"},
    {"adamw", "two copies of the parameters, decoupled weight decay"},
    {"lion", "one copy of the parameters, steps by the sign of its momentum"},
    {"muon", "one copy of the matrices, orthogonal steps; adamw for embeddings and all that is no matrix"},
    {"adafactor", "sums of rows and columns of the matrices, one copy of the vectors"},
};

std::string lines(const std::vector<std::string>& names, const Descriptions& descriptions) {
  size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string text;
  for (const std::string& name : names) {
    const auto found = descriptions.find(name);
    RANNC_CHECK(found != descriptions.end()) << name << " has no description";
    text += fmt::format("{:<{}}  {}\n", name, width, found->second);
  }
  return text;
}

std::vector<std::string> names_of(const Descriptions& descriptions) {
  std::vector<std::string> names;
  for (const auto& [name, description] : descriptions) names.push_back(name);
  return names;
}

}  // namespace

std::vector<std::string> listed_kinds() { return {"cluster", "schedule", "planner", "loss", "optimizer"}; }

std::string listing(const std::string& kind) {
  if (kind == "cluster") return lines(partition::preset_cluster_names(), kClusters);
  if (kind == "schedule") {
    Descriptions summaries;
    for (const partition::ScheduleFamily& family : partition::schedule_families()) {
      summaries.emplace(family.name, family.summary);
    }
    const auto names = partition::schedule_names();
    return lines({names.begin(), names.end()}, summaries);
  }
  if (kind == "planner") return lines(partition::stage_planner_names(), kPlanners);
  if (kind == "loss") return lines(names_of(kLosses), kLosses);
  RANNC_CHECK(kind == "optimizer") << kind << " is not listed";
  return lines(names_of(kOptimizers), kOptimizers);
}

void add_list_flag(CLI::App& app) {
  app.add_option_function<std::string>(
         "--list",
         [](const std::string& kind) {
           std::string text = listing(kind);
           text.pop_back();
           throw CLI::CallForVersion(text, 0);
         },
         "print the names that a flag accepts: cluster, schedule, planner, loss or optimizer")
      ->check(CLI::IsMember(listed_kinds()));
}

}  // namespace rannc::tools
