// The contiguous split against enumeration, its bounds against optima, and the published instances.
#include "partition/reference/contiguous_split.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>
#include <stop_token>

#include "ir/base/replacement.h"
#include "partition/blocks/orders.h"
#include "partition/formats/pipedream_text.h"
#include "partition/formats/placement_json.h"
#include "partition/reference/cut_bounds.h"
#include "partition/reference/stretch_bound.h"
#include "tests/partition/blocks/random_graphs.h"
#include "tests/support/tier.h"

namespace rannc::partition {
namespace {

using ::rannc::testing::cases_of;
namespace fs = std::filesystem;

/// A random source with colour classes, backward values and a memory limit now and then.
SplitSource random_source(uint64_t seed, uint32_t nodes) {
  std::mt19937_64 random(seed);
  auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  SplitSource source;
  for (uint32_t i = 0; i < nodes; ++i) {
    source.work.push_back(below(4) == 0 ? 0 : 1 + below(20));
    source.bytes.push_back(below(3) == 0 ? 0 : below(10));
    source.group.push_back(seed % 3 == 0 && i > 0 && below(5) == 0 ? source.group[below(i)] : i);
    if (i + 1 == nodes) break;
  }
  for (uint32_t i = 0; i < nodes; ++i) {
    SplitSource::Value value{i, {}, static_cast<double>(below(8))};
    for (uint32_t j = i + 1; j < nodes; ++j) {
      if (below(nodes) >= 3 && j != i + 1 + below(3)) continue;
      value.readers.push_back(j);
      source.order.emplace_back(i, j);
    }
    if (!value.readers.empty()) source.values.push_back(value);
    if (i > 2 && below(6) == 0) source.values.push_back({i, {below(i)}, 1.0 + below(5)});  // backward: only a cost
  }
  if (seed % 4 == 0) source.memory_limit = 10 + below(20);
  return source;
}

/// Least largest load over all device assignments; infinity where none is legal.
double enumerate_all(const SplitProblem& problem, uint32_t devices) {
  std::vector<uint32_t> device_of(problem.units(), 0);
  double best = std::numeric_limits<double>::infinity();
  for (;;) {
    if (split_is_legal(problem, device_of, devices)) {
      const std::vector<double> loads = split_loads(problem, device_of, devices);
      best = std::min(best, *std::max_element(loads.begin(), loads.end()));
    }
    uint32_t u = 0;
    while (u < problem.units() && ++device_of[u] == devices) device_of[u++] = 0;
    if (u == problem.units()) return best;
  }
}

TEST(ContiguousSplit, EqualsEnumerationOnSmallInstances) {
  uint32_t infeasible = 0;
  for (uint64_t seed = 1; seed <= 1'500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto problem = make_split_problem(random_source(seed, 4 + seed % 5));
    ASSERT_TRUE(problem.ok());
    SplitOptions options;
    options.devices = 1 + seed % 4;
    const double optimum = enumerate_all(*problem, options.devices);
    const SplitResult result = solve_split(*problem, options);
    ASSERT_EQ(result.device_of.has_value(), std::isfinite(optimum)) << result.reason;
    if (!result.device_of) {
      ++infeasible;
      EXPECT_FALSE(result.reason.empty());
      continue;
    }
    ASSERT_NEAR(result.largest_load, optimum, 1e-9 * (1 + optimum));
    EXPECT_NEAR(result.lower_bound, optimum, 1e-9 * (1 + optimum)) << "bound by " << result.bound;
    std::vector<uint32_t> of_unit(problem->units());
    for (size_t i = 0; i < problem->unit_of.size(); ++i) of_unit[problem->unit_of[i]] = (*result.device_of)[i];
    ASSERT_TRUE(split_is_legal(*problem, of_unit, options.devices));
    const std::vector<double> loads = split_loads(*problem, of_unit, options.devices);
    EXPECT_NEAR(*std::max_element(loads.begin(), loads.end()), optimum, 1e-9 * (1 + optimum)) << "as judged";
  }
  EXPECT_GT(infeasible, 20u);
}

TEST(CutBounds, NeverExceedTheOptimumAndOftenBeatTheSimpleBounds) {
  uint32_t better = 0, longer = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitSource source = random_source(seed, 9);
    source.memory_limit = UINT64_MAX;
    const auto problem = make_split_problem(source);
    ASSERT_TRUE(problem.ok());
    const uint32_t devices = 2 + seed % 3;
    const double optimum = enumerate_all(*problem, devices);
    double simple = problem->total_work() / devices;
    for (double work : problem->work) simple = std::max(simple, work);
    const double device = device_bound(*problem, simple);
    // The known split is the optimum or 10 % worse; the bound may say the split is optimal, never more.
    for (double upper : {optimum, optimum * 1.1}) {
      const auto classes = price_cut_classes(*problem, crossing_prices(*problem, devices, upper), nullptr);
      const double bound = cut_bound(*problem, devices, device, upper, classes);
      ASSERT_LE(bound, optimum * (1 + 1e-9));
      better += bound > simple * (1 + 1e-9);
      const double stretches = stretch_bound(*problem, devices, simple, upper);
      ASSERT_LE(stretches, optimum * (1 + 1e-9));
      ASSERT_LE(stretch_bound(*problem, devices, simple, upper, 2), stretches * (1 + 1e-5)) << "thinned out";
      longer += stretches > bound * (1 + 1e-9);
    }
  }
  EXPECT_GT(better, 300u);
  EXPECT_GT(longer, 100u) << "where stretches say more than cuts";
}

TEST(ContiguousSplit, HeuristicStaysNearTheExactAnswerWhereItMayNotEnumerate) {
  double worst = 0;
  for (uint64_t seed = 1; seed <= cases_of(60u); ++seed) {
    const Dag dag =
        testing::make_graph({seed % 2 ? "series-parallel" : "crossing", 60, seed, testing::Weights::kRandom});
    const auto problem = split_problem_of(dag);
    ASSERT_TRUE(problem.ok());
    SplitOptions options;
    options.devices = 2 + seed % 4;
    const SplitResult exact = solve_split(*problem, options);
    options.max_down_sets = 1;
    const SplitResult fast = solve_split(*problem, options);
    ASSERT_TRUE(exact.device_of && fast.device_of);
    if (exact.bound != "exhaustive" && exact.gap() > 1e-9) continue;
    ASSERT_GE(fast.largest_load, exact.largest_load * (1 - 1e-9)) << "seed " << seed;
    ASSERT_LE(fast.lower_bound, exact.largest_load * (1 + 1e-9)) << "seed " << seed;
    worst = std::max(worst, fast.largest_load / exact.largest_load);
  }
  EXPECT_LT(worst, 1.15) << "a watch on the heuristic, not a promise";
}

std::stop_token stopped() {
  std::stop_source source;
  source.request_stop();
  return source.get_token();
}

// A search that was stopped before it began looks at its orders once, and answers.
TEST(ContiguousSplit, StopsWhereItIsAsked) {
  uint32_t worse = 0;
  const std::vector<std::string> families = testing::graph_families();
  for (uint64_t seed = 0; seed < 2 * families.size(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto problem = split_problem_of(
        testing::make_graph({families[seed % families.size()], 30, seed + 1, testing::Weights::kRandom}));
    SplitOptions options;
    options.devices = 4;
    const SplitResult whole = solve_split(*problem, options);
    options.stop = stopped();
    const SplitResult early = solve_split(*problem, options);
    ASSERT_TRUE(early.device_of) << early.reason;
    EXPECT_TRUE(early.timed_out);
    EXPECT_FALSE(whole.timed_out);
    EXPECT_LE(early.lower_bound, whole.lower_bound * (1 + 1e-9));
    EXPECT_GE(early.largest_load, whole.largest_load * (1 - 1e-9));
    worse += early.largest_load > whole.largest_load * (1 + 1e-9);
  }
  EXPECT_GE(worse, 3u) << "a stopped search has not searched";
}

// Every part that may take long asks: bounds by single units, cuts of classes, pairs of down-sets, their enumeration.
TEST(ContiguousSplit, EachOfItsSearchesStops) {
  const auto problem = split_problem_of(testing::make_graph({"layered", 300, 5, testing::Weights::kRandom}));
  const Interrupt now(stopped());
  double heaviest = 0;
  for (const double work : problem->work) heaviest = std::max(heaviest, work);
  EXPECT_GT(device_bound(*problem, heaviest), heaviest);
  EXPECT_EQ(device_bound(*problem, heaviest, now), heaviest);
  DownSetPool classes(*problem);
  price_cut_classes(*problem, problem->cost, &classes, now);
  EXPECT_EQ(classes.size(), 2u) << "the empty and the full set";
  DownSetPool all(*problem);
  EXPECT_FALSE(enumerate_down_sets(all, 1'000'000, now));
  EXPECT_EQ(all.size(), 2u);
  DownSetPool pool(*problem);
  std::vector<uint32_t> order(problem->units());
  std::iota(order.begin(), order.end(), 0);
  pool.add_prefixes(order);
  const Chain chain = best_chain(pool, 4, 1e18, UINT64_MAX, now);
  EXPECT_FALSE(chain.complete);
  EXPECT_EQ(chain.pairs, 0u);
  const Chain some = best_chain(pool, 4, 1e18, 1'000);
  EXPECT_FALSE(some.complete);
  EXPECT_EQ(some.pairs, 1'000u);
  EXPECT_TRUE(best_chain(pool, 4, 1e18).complete);
}

// A chain of 20,000 units has prefixes of 2.5 kB each.
TEST(DownSetPool, PrefixesStayWithinTheirBytes) {
  SplitProblem problem;
  constexpr uint32_t kUnits = 20'000;
  problem.work.assign(kUnits, 1);
  problem.bytes.assign(kUnits, 0);
  problem.pins.offsets.push_back(0);
  problem.values.offsets.assign(kUnits + 1, 0);
  std::vector<uint32_t> order(kUnits);
  std::iota(order.begin(), order.end(), 0);
  DownSetPool pool(problem);
  const size_t before = pool.bytes_taken();
  pool.add_prefixes(order, 1 << 20);
  EXPECT_LE(pool.bytes_taken() - before, (1u << 20) + kUnits / 8 + 8);
  ASSERT_GT(pool.size(), 400u);
  // They lie as densely everywhere.
  EXPECT_NEAR(pool.work(pool.size() / 2), kUnits / 2.0, kUnits / 50.0);
  EXPECT_NEAR(pool.work(pool.size() - 1), kUnits, kUnits / 50.0);
}

TEST(ContiguousSplit, NamesTheCauseOfWhatCannotBe) {
  SplitSource source;
  source.work = {1, 2};
  source.bytes = {60, 70};
  source.group = {0, 1};
  source.memory_limit = 100;
  SplitOptions options;
  EXPECT_NE(solve_split(*make_split_problem(source), options).reason.find("all units need 130 bytes"),
            std::string::npos);
  options.devices = 2;
  EXPECT_TRUE(solve_split(*make_split_problem(source), options).device_of.has_value());
  source.bytes = {60, 101};
  EXPECT_NE(solve_split(*make_split_problem(source), options).reason.find("101 bytes of 100"), std::string::npos);
  options.devices = 0;
  source.bytes = {0, 0};
  EXPECT_NE(solve_split(*make_split_problem(source), options).reason.find("no device"), std::string::npos);
  source.work = {1, std::nan("")};
  EXPECT_EQ(make_split_problem(source).diagnostic().rule, "X1");
  source.work = {1e308, 1e308};
  EXPECT_EQ(make_split_problem(source).diagnostic().rule, "X1");
}

TEST(ContiguousSplit, TakesEmptyAndFreeGraphs) {
  SplitOptions options;
  options.devices = 3;
  const SplitResult empty = solve_split(*make_split_problem({}), options);
  ASSERT_TRUE(empty.device_of) << empty.reason;
  EXPECT_EQ(empty.largest_load, 0);
  SplitSource source;
  source.work = {0, 0, 0};
  source.bytes = {0, 0, 0};
  source.group = {0, 1, 2};
  source.values = {{0, {1}, 5}};
  source.order = {{0, 1}};
  const SplitResult free = solve_split(*make_split_problem(source), options);
  ASSERT_TRUE(free.device_of) << free.reason;
  EXPECT_EQ(free.largest_load, 0);
}

TEST(SplitProblem, FusesWhatTheOrderMakesStronglyConnected) {
  SplitSource source;
  source.work = {1, 2, 3, 4};
  source.bytes = {0, 0, 0, 0};
  source.group = {0, 1, 0, 2};  // 0 and 2 share a device, 1 lies between them
  source.order = {{0, 1}, {1, 2}, {2, 3}};
  const auto problem = make_split_problem(source);
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->units(), 2u);
  EXPECT_EQ(problem->unit_of, (std::vector<uint32_t>{0, 0, 0, 1}));
}

/// The folder of published data, or nothing where this checkout has none.
std::optional<fs::path> data_folder() {
  const char* set = std::getenv("RANNC_SHARED_DIR");
  const fs::path shared = set != nullptr ? fs::path(set) : fs::path(RANNC_SOURCE_DIR) / ".." / "shared";
  if (!fs::is_directory(shared / "data" / "placement")) return std::nullopt;
  return shared / "data";
}

TEST(Published, PlacementOptimaAreFoundAndProven) {
  const auto data = data_folder();
  if (!data) GTEST_SKIP() << "no folder ../shared/data/placement";
  const std::tuple<const char*, uint32_t, double> optima[] = {
      {"layer/bert24_inference", 6, 17.78990625},     {"layer/bert24_training", 6, 41.7458125},
      {"layer/gnmt_inference", 6, 32.9106582},        {"layer/resnet50_inference", 6, 34.2228516},
      {"layer/resnet50_training", 6, 80.4548867},     {"operator/bert_l-3_inference", 3, 27.9185677},
      {"operator/bert_l-3_training", 3, 65.3031491},  {"operator/bert_l-6_inference", 3, 33.9891016},
      {"operator/bert_l-6_training", 3, 79.5008574},  {"operator/resnet50_inference", 6, 128.0735111},
      {"operator/resnet50_training", 6, 263.0352886}, {"layer/inceptionv3_inference", 6, 52.2016}};
  for (const auto& [file, devices, optimum] : optima) {
    const auto input = read_placement(read_file(*data / "placement" / (std::string(file) + ".json")).value(), file);
    ASSERT_TRUE(input.ok()) << input.diagnostic().str();
    EXPECT_EQ(input->devices, devices);
    SplitOptions options;
    options.devices = devices;
    const SplitResult result = solve_split(*make_split_problem(input->source), options);
    // The list rounds to seven decimals, Inception-v3 to four.
    EXPECT_NEAR(result.largest_load, optimum, std::string(file).find("inception") != std::string::npos ? 1e-4 : 1e-6)
        << file;
    EXPECT_LE(result.lower_bound, optimum + 1e-4) << file;
    EXPECT_LT(result.gap(), 1e-9) << file;
  }
}

TEST(Published, ProfilesReachTheKnownLoadsWithASmallGap) {
  const auto data = data_folder();
  if (!data) GTEST_SKIP() << "no folder ../shared/data/pipedream";
  const std::tuple<const char*, uint32_t, double, double> known[] = {
      {"resnet101", 4, 114.726, 1e-3},    {"resnet101", 8, 70.0394, 1e-4},    {"resnet101", 16, 46.4998, 1e-4},
      {"vgg16", 4, 286.445, 1e-3},        {"vgg16", 8, 274.639, 1e-3},        {"vgg16", 16, 274.639, 1e-3},
      {"gnmt", 4, 26.6243, 1e-4},         {"gnmt", 8, 20.0177, 1e-4},         {"gnmt", 16, 20.0177, 1e-4},
      {"inception_v3", 4, 204.501, 1e-3}, {"nasnetamobile", 4, 156.907, 1.57}};
  for (const auto& [file, devices, load, tolerance] : known) {
    const auto profile = read_pipedream(read_file(*data / "pipedream" / (std::string(file) + ".txt")).value(), file);
    ASSERT_TRUE(profile.ok()) << profile.diagnostic().str();
    SplitOptions options;
    options.devices = devices;
    const SplitResult result = solve_split(*split_problem_of(dag_of_profile(*profile, 25e9, 2)), options);
    EXPECT_NEAR(result.largest_load, load, tolerance) << file << " on " << devices;
    EXPECT_LE(result.gap(), 0.03) << file << " on " << devices;
    EXPECT_LE(result.lower_bound, load + tolerance) << file;
  }
}

}  // namespace
}  // namespace rannc::partition
